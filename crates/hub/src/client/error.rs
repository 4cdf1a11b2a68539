//! The error of attaching to the hub.

use crate::message::{ErrorCode, Reply};
use crate::rendezvous::RendezvousError;
use std::io;

/// The reason why attaching failed, for the user of the program.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The hub could not be started, or ended during its start. `reason` is its own message, for
    /// example that UDP port 4791 is taken and by which process.
    #[error("the Longarm hub could not be started: {reason}")]
    HubFailed {
        /// The hub's message.
        reason: String,
    },
    /// No hub runs, and the caller wants none started.
    #[error("no Longarm hub is running for this user and network namespace")]
    NotRunning,
    /// The hub speaks another version of the protocol.
    #[error(
        "the running hub speaks protocol version {hub}, this program version {ours}: \
         stop it with `longarm down` (programs that use it keep working)"
    )]
    Version {
        /// The hub's version.
        hub: u32,
        /// This program's version.
        ours: u32,
    },
    /// There is no directory for a hub's socket.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// All slots are in use.
    #[error("no slot of UDP port 4791 is free: {reason}")]
    NoSlot {
        /// The hub's message.
        reason: String,
    },
    /// The hub refused.
    #[error("the hub refused: {reason}")]
    Refused {
        /// The kind of refusal.
        code: ErrorCode,
        /// Its reason.
        reason: String,
    },
    /// The process at the other end belongs to another user.
    #[error("the socket at {path} is served by user {uid}, not by this user")]
    WrongUser {
        /// The socket.
        path: String,
        /// Its user.
        uid: u32,
    },
    /// The hub's answer has descriptors, and this process may have no more.
    #[error("this process may have no more descriptors: raise its limit for open files (`ulimit -n`)")]
    NoDescriptorsLeft,
    /// The hub's answer makes no sense.
    #[error("the hub sent an invalid answer: {reason}")]
    Protocol {
        /// The fault.
        reason: String,
    },
    /// It took too long.
    #[error("timed out while {doing}")]
    TimedOut {
        /// The step that took too long.
        doing: &'static str,
    },
    /// The system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// The attempted step.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl AttachError {
    /// The nearest error number.
    pub fn errno(&self) -> i32 {
        match self {
            AttachError::HubFailed { .. } => libc::EADDRNOTAVAIL,
            AttachError::NotRunning => libc::ECONNREFUSED,
            AttachError::Rendezvous(error) => error.errno(),
            AttachError::Version { .. } => libc::EPROTONOSUPPORT,
            AttachError::NoSlot { .. } => libc::EUSERS,
            AttachError::Refused { code: ErrorCode::InUse, .. } => libc::EBUSY,
            AttachError::Refused { .. } => libc::EACCES,
            AttachError::WrongUser { .. } => libc::EPERM,
            AttachError::NoDescriptorsLeft => libc::EMFILE,
            AttachError::Protocol { .. } => libc::EPROTO,
            AttachError::TimedOut { .. } => libc::ETIMEDOUT,
            AttachError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        }
    }

    /// The error that an error reply stands for.
    pub(super) fn from_reply(code: ErrorCode, reason: String) -> AttachError {
        match code {
            ErrorCode::NoPort => AttachError::HubFailed { reason },
            ErrorCode::NoSlot => AttachError::NoSlot { reason },
            ErrorCode::Malformed | ErrorCode::OutOfOrder => AttachError::Protocol { reason },
            ErrorCode::WrongUser
            | ErrorCode::TooManyConnections
            | ErrorCode::NotYours
            | ErrorCode::InUse
            | ErrorCode::System => AttachError::Refused { code, reason },
        }
    }

    /// A reply that does not belong to the request.
    pub(super) fn unexpected(reply: &Reply) -> AttachError {
        AttachError::protocol(format!("unexpected reply {reply:?}"))
    }

    /// An answer that makes no sense.
    pub(super) fn protocol(reason: impl ToString) -> AttachError {
        AttachError::Protocol { reason: reason.to_string() }
    }
}
