//! Wrong calls: errors of the verbs themselves, with their errno.

use crate::attr::{AttrMask, QpState};
use crate::limits::OBJECT_BYTES;

/// The reason for which a work request was refused at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PostError {
    /// ENOMEM
    #[error("the work queue is full: it holds {capacity} work requests")]
    QueueFull {
        /// Its capacity.
        capacity: u32,
    },
    /// EINVAL
    #[error("the scatter/gather list is too long: the queue was made for {max} entries")]
    TooManySges {
        /// Entries allowed.
        max: u32,
    },
    /// EINVAL
    #[error("a queue pair in state {state:?} takes no such work requests")]
    WrongState {
        /// Its present state.
        state: QpState,
    },
    /// EINVAL
    #[error("this kind of queue pair cannot do {op}")]
    NotForService {
        /// The operation.
        op: &'static str,
    },
    /// EINVAL
    #[error("a message has at most {max_bytes} bytes here")]
    MessageTooLong {
        /// Bytes allowed.
        max_bytes: u64,
    },
    /// EINVAL
    #[error("inline data has at most {max_bytes} bytes here")]
    InlineTooLong {
        /// Bytes allowed.
        max_bytes: u32,
    },
    /// EINVAL
    #[error("an atomic operation needs exactly 8 bytes: for its result, or to write")]
    AtomicLength,
    /// EINVAL
    #[error("a FLUSH needs a placement and a level, and has no payload")]
    Flush,
    /// EINVAL
    #[error("READ and atomics cannot be inline: their result needs memory")]
    InlineResult,
    /// EINVAL
    #[error("READ, atomics and FLUSH need max_rd_atomic of at least 1")]
    NoReadDepth,
    /// EINVAL
    #[error("an object that is read at one moment has {} to {} bytes", OBJECT_BYTES.start(), OBJECT_BYTES.end())]
    ObjectLength,
    /// EINVAL
    #[error("a call needs a request and room for its reply, and other operations have neither")]
    Call,
    /// EOPNOTSUPP
    #[error("the peer does not know this extension of Longarm's: it is another device, or an older one")]
    PeerLacksExtension,
    /// EINVAL
    #[error("a UD work request needs an address, any other must have none")]
    Address,
    /// EINVAL
    #[error("the datagram's address cannot be used: {0}")]
    Path(&'static str),
    /// EINVAL
    #[error("an XRC request needs the number of a shared receive queue, of 24 bits; any other must have none")]
    XrcSrq,
    /// EINVAL
    #[error("the queue pair takes its receive work requests from a shared receive queue")]
    SharedRecv,
}

impl PostError {
    /// The errno that the verbs return.
    pub fn errno(&self) -> i32 {
        match self {
            PostError::QueueFull { .. } => 12,   // ENOMEM
            PostError::PeerLacksExtension => 95, // EOPNOTSUPP
            _ => 22,                             // EINVAL
        }
    }
}

/// The reason for which `modify_qp` was refused. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ModifyError {
    /// The state table has no such step.
    #[error("a queue pair cannot go from {from:?} to {to:?}")]
    NoTransition {
        /// Its present state.
        from: QpState,
        /// The state that was asked for.
        to: QpState,
    },
    /// `current_state` was given and is not the state.
    #[error("the queue pair is in {is:?}, not in {claimed:?}")]
    NotInState {
        /// Its present state.
        is: QpState,
        /// The state in the call.
        claimed: QpState,
    },
    /// Attributes are missing.
    #[error("this step needs the attributes {0:?} too")]
    Missing(AttrMask),
    /// Attributes that do not belong here.
    #[error("this step does not take the attributes {0:?}")]
    NotAllowed(AttrMask),
    /// A value is out of range.
    #[error("{attribute} cannot be {value}")]
    Value {
        /// The attribute.
        attribute: &'static str,
        /// The value in the call.
        value: u64,
    },
    /// RC, UC: the address vector leads nowhere.
    #[error("the path cannot be used: {0}")]
    Path(&'static str),
    /// A feature that this device does not have.
    #[error("{0} is not supported by this device")]
    Unsupported(&'static str),
}

impl ModifyError {
    /// The errno that the verbs return.
    pub fn errno(&self) -> i32 {
        match self {
            ModifyError::Unsupported(_) => 95, // EOPNOTSUPP
            _ => 22,                           // EINVAL
        }
    }
}
