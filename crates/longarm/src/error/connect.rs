//! Errors of connecting two queue pairs.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use transport::{Mtu, QpType};
use wire::mad::reason;

use super::{EndpointError, ResourceError};

/// The reason why a queue pair could not be connected, or a listener not made.
///
/// ```no_run
/// # use std::time::Duration;
/// use longarm::{ConnectError, Endpoint, Refusal};
///
/// match Endpoint::connect("host.example:7471", b"hello").wait(Duration::from_secs(5)) {
///     Ok(endpoint) => println!("connected to {}", endpoint.peer_addr()),
///     Err(ConnectError::Refused { refusal: Refusal::NO_LISTENER, .. }) => println!("nobody listens there"),
///     Err(ConnectError::TimedOut { .. }) => println!("no answer"),
///     Err(error) => println!("{error}"),
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The peer's bytes are not valid connection information.
    #[error("the peer's connection information is malformed: {0}")]
    Malformed(&'static str),
    /// One end is RC, the other UC.
    #[error("this queue pair is {ours:?}, the peer's is {theirs:?}")]
    OtherService {
        /// Our service.
        ours: QpType,
        /// The peer's.
        theirs: QpType,
    },
    /// The name of the peer, or of the address to listen at, cannot be resolved.
    #[error("no address: {0}")]
    Name(#[source] io::Error),
    /// No route leads to the peer, or this host has no address for it.
    #[error("no route leads to {peer}")]
    NoRoute {
        /// The peer's address.
        peer: IpAddr,
    },
    /// The address is none of this host's.
    #[error("no device of this host has the address {0}")]
    NoSuchAddress(IpAddr),
    /// The queue pair is on another device than the addresses ask for: see
    /// [`QpBuilder::on`](crate::QpBuilder::on).
    #[error("the queue pair is on the device {device}, but this connection needs the device {needed}")]
    OtherDevice {
        /// The queue pair's device.
        device: String,
        /// The device that the connection needs.
        needed: String,
    },
    /// The device (of iWARP) makes connections by address only: see [`connect`](crate::connect) and
    /// [`Capabilities::by_address_only`](crate::Capabilities::by_address_only).
    #[error("this device connects queue pairs by address only: use longarm::connect and a listener")]
    ByAddressOnly,
    /// The peer asks for longer packets than the queue pair's builder allows.
    #[error("the peer asks for an MTU of {}, and this queue pair has one of {}", theirs.bytes(), ours.bytes())]
    Mtu {
        /// The MTU that the builder allows.
        ours: Mtu,
        /// The MTU that the peer asks for.
        theirs: Mtu,
    },
    /// Another listener has the port.
    #[error("the port of {0} is in use")]
    PortInUse(SocketAddr),
    /// More private data than the message holds.
    #[error("{is} bytes of private data are more than {max}")]
    PrivateData {
        /// Bytes given.
        is: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The peer refused.
    #[error("{peer} refused: {refusal}")]
    Refused {
        /// The peer's address.
        peer: SocketAddr,
        /// Its reason.
        refusal: Refusal,
        /// Private data of its program, followed by zeros up to the message's room.
        private_data: Vec<u8>,
    },
    /// Nobody answers at that address.
    #[error("no answer from {0}")]
    Unreachable(SocketAddr),
    /// The peer gave up, or ended the connection immediately.
    #[error("{0} has given up")]
    Gone(SocketAddr),
    /// The peer did not answer in time.
    #[error("no answer from {who} within {timeout:?}")]
    TimedOut {
        /// The awaited peer.
        who: String,
        /// The time waited.
        timeout: Duration,
    },
    /// The process was forked from the one that made the listener or the connection.
    #[error("a forked child cannot use its parent's connections")]
    Forked,
    /// The connection manager refused, or the hub that it needs.
    #[error(transparent)]
    Manager(::connect::Error),
    /// The device could not be opened, or gave no resources.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] device::Error),
}

impl ConnectError {
    /// The reason why an address could not be bound.
    pub(crate) fn binding(error: ::connect::Error, address: SocketAddr) -> ConnectError {
        match error {
            ::connect::Error::InUse => ConnectError::PortInUse(address),
            other => other.into(),
        }
    }
}

impl From<::connect::Error> for ConnectError {
    fn from(error: ::connect::Error) -> ConnectError {
        use ::connect::Error;
        match error {
            Error::NotAvailable(address) => ConnectError::NoSuchAddress(address),
            Error::Unreachable(peer) => ConnectError::NoRoute { peer },
            Error::PrivateData { asked: is, max } => ConnectError::PrivateData { is, max },
            Error::Forked => ConnectError::Forked,
            other => ConnectError::Manager(other),
        }
    }
}

impl From<device::OpenError> for ConnectError {
    fn from(error: device::OpenError) -> ConnectError {
        ConnectError::Endpoint(error.into())
    }
}

impl From<ResourceError> for ConnectError {
    fn from(error: ResourceError) -> ConnectError {
        ConnectError::Endpoint(error.into())
    }
}

/// The reason of a REJ (IB specification 12.6.7.2).
///
/// See [`ConnectError`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Refusal(pub u16);

impl Refusal {
    /// Nobody listens on the port.
    pub const NO_LISTENER: Refusal = Refusal(reason::INVALID_SERVICE_ID);
    /// The program refuses.
    pub const PROGRAM: Refusal = Refusal(reason::CONSUMER);
    /// The peer has no resources, or too many requests wait there to be accepted.
    pub const BUSY: Refusal = Refusal(reason::NO_RESOURCES);
    /// The peer listens for another service.
    pub const OTHER_SERVICE: Refusal = Refusal(reason::INVALID_TRANSPORT);
    /// The peer's queue pair has a smaller MTU.
    pub const MTU: Refusal = Refusal(reason::INVALID_MTU);
    /// The peer waited too long for an answer.
    pub const TIMEOUT: Refusal = Refusal(reason::TIMEOUT);
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.0 {
            reason::INVALID_SERVICE_ID => "nobody listens there",
            reason::CONSUMER => "its program refuses",
            reason::NO_RESOURCES | reason::NO_QP => "it has no resources left",
            reason::INVALID_TRANSPORT => "it listens for another service",
            reason::INVALID_MTU => "it wants shorter packets",
            reason::TIMEOUT => "it waited too long for our answer",
            reason::STALE_CONNECTION => "its queue pair still belongs to an older connection",
            other => return write!(f, "reason {other}"),
        };
        f.write_str(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_who_and_why() {
        let peer: SocketAddr = "192.0.2.1:7471".parse().unwrap();
        let said = |refusal| ConnectError::Refused { peer, refusal, private_data: Vec::new() }.to_string();
        assert_eq!(said(Refusal::NO_LISTENER), "192.0.2.1:7471 refused: nobody listens there");
        assert!(said(Refusal(77)).ends_with("reason 77"));
    }

    #[test]
    fn errors_of_the_connection_manager_keep_their_meaning() {
        let ip = IpAddr::from([192, 0, 2, 1]);
        assert!(matches!(::connect::Error::NotAvailable(ip).into(), ConnectError::NoSuchAddress(_)));
        assert!(matches!(::connect::Error::Unreachable(ip).into(), ConnectError::NoRoute { .. }));
        let in_use = ConnectError::binding(::connect::Error::InUse, (ip, 1).into());
        assert!(in_use.to_string().contains("192.0.2.1:1"), "{in_use}");
    }
}
