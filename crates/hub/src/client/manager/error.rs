//! The error of binding a port.

use crate::client::error::AttachError;
use crate::message::BindRefusal;

/// The reason why binding or listening failed.
#[derive(Debug, thiserror::Error)]
pub enum PortBindError {
    /// Another binding has the port.
    #[error("the port is in use")]
    InUse,
    /// The address is not one of this host's devices.
    #[error("the address is not one of this host's devices")]
    NotAvailable,
    /// No port of the system's ephemeral range is free.
    #[error("no ephemeral port is free")]
    NoPort,
    /// This process has its most ports already.
    #[error("this process has too many ports")]
    TooMany,
    /// There is no such port space.
    #[error("there is no such port space")]
    UnknownSpace,
    /// A link-local address without its interface, or a multicast address.
    #[error("the address cannot be bound")]
    InvalidAddress,
    /// This session has no port with the token.
    #[error("no such port of this process")]
    UnknownToken,
    /// No hub runs and the session starts none, or this is a forked child.
    #[error("no Longarm hub is running for this user and network namespace")]
    NotRunning,
    /// The hub did not answer in time.
    #[error("the hub does not answer")]
    TimedOut,
    /// Waiting for the hub failed.
    #[error(transparent)]
    Hub(#[from] AttachError),
}

impl PortBindError {
    /// The nearest error number; that of Linux' connection manager if it has one.
    pub fn errno(&self) -> i32 {
        match self {
            PortBindError::InUse => libc::EADDRINUSE,
            PortBindError::NotAvailable | PortBindError::NoPort => libc::EADDRNOTAVAIL,
            PortBindError::TooMany => libc::ENOMEM,
            PortBindError::UnknownSpace => libc::EPROTONOSUPPORT,
            PortBindError::InvalidAddress | PortBindError::UnknownToken => libc::EINVAL,
            PortBindError::NotRunning => libc::ENODEV,
            PortBindError::TimedOut => libc::ETIMEDOUT,
            PortBindError::Hub(error) => error.errno(),
        }
    }
}

impl From<BindRefusal> for PortBindError {
    fn from(refusal: BindRefusal) -> PortBindError {
        match refusal {
            BindRefusal::InUse => PortBindError::InUse,
            BindRefusal::NotAvailable => PortBindError::NotAvailable,
            BindRefusal::NoPort => PortBindError::NoPort,
            BindRefusal::TooMany => PortBindError::TooMany,
            BindRefusal::UnknownSpace => PortBindError::UnknownSpace,
            BindRefusal::InvalidAddress => PortBindError::InvalidAddress,
            BindRefusal::UnknownToken => PortBindError::UnknownToken,
        }
    }
}
