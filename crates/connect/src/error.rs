//! The error of a call on an id.

use std::io;

/// The reason why a call on an id was refused. The id has not changed, unless the call's documentation says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The id is not in a state for this: not bound, not resolved, connected already.
    #[error("the id cannot do that now: {0}")]
    State(&'static str),
    /// The connection is established already.
    #[error("the connection is established already")]
    Connected,
    /// An argument makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// The port is in use.
    #[error("the port is in use")]
    InUse,
    /// No device of this host has the address.
    #[error("no device of this host has the address {0}")]
    NotAvailable(std::net::IpAddr),
    /// There is no route to the destination.
    #[error("there is no route to {0}")]
    Unreachable(std::net::IpAddr),
    /// More private data than the message holds.
    #[error("private data of {asked} bytes; {max} are the most")]
    PrivateData {
        /// Bytes given.
        asked: usize,
        /// Bytes that there is room for.
        max: usize,
    },
    /// The process was forked from the one that made the id.
    #[error("a forked child cannot use its parent's ids")]
    Forked,
    /// The hub refused, or none could be started.
    #[error(transparent)]
    Hub(#[from] hub::client::AttachError),
    /// The hub refused a port.
    #[error(transparent)]
    Bind(hub::client::manager::PortBindError),
    /// The connection manager refused.
    #[error(transparent)]
    Cm(#[from] cm::Error),
    /// A function of the system's `librdmacm` has failed.
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

impl Error {
    /// The errno that the calls of rdma_cm set.
    pub fn errno(&self) -> i32 {
        match self {
            Error::State(_) | Error::Invalid(_) | Error::PrivateData { .. } | Error::Cm(_) => libc::EINVAL,
            Error::Connected => libc::EISCONN,
            Error::InUse => libc::EADDRINUSE,
            Error::NotAvailable(_) => libc::EADDRNOTAVAIL,
            Error::Unreachable(_) => libc::ENETUNREACH,
            Error::Forked => libc::EACCES,
            Error::Hub(error) => error.errno(),
            Error::Bind(error) => error.errno(),
            Error::Os(error) | Error::Call { error, .. } => error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

impl From<hub::client::manager::PortBindError> for Error {
    fn from(error: hub::client::manager::PortBindError) -> Error {
        match error.errno() {
            libc::EADDRINUSE => Error::InUse,
            _ => Error::Bind(error),
        }
    }
}
