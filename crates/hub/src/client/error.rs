//! Why a program has no session with the hub.

use crate::message::ErrorCode;
use crate::rendezvous::RendezvousError;
use std::io;

/// Why attaching did not work, in words for the user of the program.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The hub could not be started, or ended at once. `reason` is its own last word, for
    /// example that UDP port 4791 is taken and by whom.
    #[error("the Longarm hub could not be started: {reason}")]
    HubFailed {
        /// What the hub said.
        reason: String,
    },
    /// No hub runs and none was to be started.
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
    /// There is no place for a hub's socket.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// All slots are in use.
    #[error("no slot of UDP port 4791 is free: {reason}")]
    NoSlot {
        /// What the hub said.
        reason: String,
    },
    /// The hub did not want to.
    #[error("the hub refused: {reason}")]
    Refused {
        /// The kind of refusal.
        code: ErrorCode,
        /// Its reason.
        reason: String,
    },
    /// The process at the other end belongs to somebody else.
    #[error("the socket at {path} is served by user {uid}, not by this user")]
    WrongUser {
        /// The socket.
        path: String,
        /// Who serves it.
        uid: u32,
    },
    /// The hub's answer brings descriptors, and this process may have no more.
    #[error("this process may have no more descriptors: raise its limit for open files (`ulimit -n`)")]
    NoDescriptorsLeft,
    /// What came back makes no sense.
    #[error("the hub answered nonsense: {reason}")]
    Protocol {
        /// What is wrong with it.
        reason: String,
    },
    /// It took too long.
    #[error("timed out while {doing}")]
    TimedOut {
        /// What was under way.
        doing: &'static str,
    },
    /// The system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
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

    /// What an error reply means to a client.
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

    /// Nonsense from the hub.
    pub(super) fn protocol(reason: impl ToString) -> AttachError {
        AttachError::Protocol { reason: reason.to_string() }
    }
}
