//! The errors of this crate's calls, each with the errno that the verbs return.

use std::io;

use transport::{ModifyError, PostError};

/// The reason why a device could not be listed or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No hub could be found or started, or it refused this process.
    #[error(transparent)]
    Hub(#[from] hub::client::AttachError),
    /// There is no device by that name.
    #[error("there is no device {name}; there are: {known}")]
    NoSuchDevice {
        /// The name asked for.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
    /// There is no device at all.
    #[error("no network interface can carry RDMA: none is up and has an address")]
    NoDevice,
    /// This process was forked from one that uses the device.
    #[error("a forked child cannot use its parent's device")]
    Forked,
    /// A variable of the environment has a value that makes no sense.
    #[error("{variable}: {problem}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// The problem with its value.
        problem: String,
    },
    /// The system's RDMA devices were asked for, and it has none.
    #[error("the system has no RDMA device (`ls /sys/class/infiniband` is empty)")]
    NoSystemDevice,
    /// The system's RDMA libraries are missing or too old.
    #[error("{0}")]
    Library(String),
    /// The system refused a resource.
    #[error("the system refused: {0}")]
    Os(#[from] io::Error),
}

impl OpenError {
    /// The errno that the verbs return.
    pub fn errno(&self) -> i32 {
        match self {
            OpenError::Hub(e) => e.errno(),
            OpenError::NoSuchDevice { .. }
            | OpenError::NoDevice
            | OpenError::NoSystemDevice
            | OpenError::Library(_) => libc::ENODEV,
            OpenError::Forked => libc::EPERM,
            OpenError::Environment { .. } => libc::EINVAL,
            OpenError::Os(e) => e.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// The reason why a call on a device or one of its objects was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More than the device's limits allow; see [`Limits`](crate::Limits).
    #[error("{what} of {asked} is more than the limit of {max}")]
    Limit {
        /// The size or count that is too large.
        what: &'static str,
        /// The value that the caller wanted.
        asked: u64,
        /// The limit.
        max: u64,
    },
    /// Every number is taken: 65,536 queue pairs in one process.
    #[error("there is no free {0} left")]
    Exhausted(&'static str),
    /// The object still has users.
    #[error("the {what} is still used by {users} other objects")]
    Busy {
        /// The kind of object that was to be destroyed.
        what: &'static str,
        /// The number of its users.
        users: u32,
    },
    /// An argument makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// Two objects of different devices were used together.
    #[error("the {0} belongs to another device")]
    OtherDevice(&'static str),
    /// The object was destroyed.
    #[error("the {0} was destroyed")]
    Destroyed(&'static str),
    /// This process was forked from the one that owns the object.
    #[error("a forked child cannot use its parent's device")]
    Forked,
    /// A `modify_qp` was refused.
    #[error(transparent)]
    Modify(#[from] ModifyError),
    /// A work request was refused.
    #[error(transparent)]
    Post(#[from] PostError),
    /// Memory could not be registered, deregistered or bound.
    #[error("{0}")]
    Memory(memory::MrError),
    /// A call of the system's RDMA library failed.
    #[error("{call}: {error}")]
    Call {
        /// The function.
        call: &'static str,
        /// Its error.
        error: io::Error,
    },
    /// The system refused a resource.
    #[error("the system refused: {0}")]
    Os(#[from] io::Error),
}

impl From<memory::MrError> for Error {
    fn from(error: memory::MrError) -> Error {
        Error::Memory(error)
    }
}

impl Error {
    /// The errno that the verbs return.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Limit { .. } | Error::Invalid(_) | Error::OtherDevice(_) => libc::EINVAL,
            Error::Destroyed(_) => libc::EINVAL,
            Error::Exhausted(_) => libc::ENOMEM,
            Error::Busy { .. } => libc::EBUSY,
            Error::Forked => libc::EPERM,
            Error::Modify(e) => e.errno(),
            Error::Post(e) => e.errno(),
            Error::Memory(e) => e.errno(),
            Error::Os(e) | Error::Call { error: e, .. } => e.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// A list of work requests was posted in part: those before `index` are posted.
#[derive(Debug, thiserror::Error)]
#[error("work request {index} of the list: {error}")]
pub struct PostFailure {
    /// The index of the first one that was refused.
    pub index: usize,
    /// The reason.
    pub error: Error,
}

impl PostFailure {
    /// The errno that the verbs return.
    pub fn errno(&self) -> i32 {
        self.error.errno()
    }
}

/// The reason why a completion queue cannot be polled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CqError {
    /// The queue had no room for a completion, which is lost. The queue pairs that use the queue have failed.
    #[error("the completion queue overran: completions were lost; poll more often or make it larger")]
    Overrun,
    /// It was destroyed.
    #[error("the completion queue was destroyed")]
    Destroyed,
    /// This process was forked from the one that owns it.
    #[error("a forked child cannot use its parent's completion queue")]
    Forked,
    /// The device cannot report completions any more.
    #[error("the device cannot report completions any more")]
    Failed,
}

impl CqError {
    /// The errno that the verbs return.
    pub fn errno(&self) -> i32 {
        match self {
            CqError::Overrun | CqError::Failed => libc::EIO,
            CqError::Destroyed => libc::EINVAL,
            CqError::Forked => libc::EPERM,
        }
    }
}

/// The reason why a capture could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot capture to {path}: {source}")]
pub struct CaptureError {
    /// The file.
    pub path: String,
    /// The system's error.
    #[source]
    pub source: io::Error,
}
