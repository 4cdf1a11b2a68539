//! Addresses of peers, and their resolution.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use futures_channel::oneshot;

/// The address of a peer or a listener: a [`SocketAddr`], or a name with a port, such as `"host:7471"`.
///
/// ```
/// # use longarm_stream::StreamAddress;
/// let _: [StreamAddress; 3] = ["server.example:7471".into(), ("server.example", 7471).into(), "[::1]:7471".into()];
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamAddress(AddressKind);

#[derive(Clone, PartialEq, Eq, Debug)]
enum AddressKind {
    Known(SocketAddr),
    Name(String),
}

impl StreamAddress {
    /// The addresses of a name. A thread of its own asks the system, which may take seconds.
    pub(crate) async fn resolve(self) -> io::Result<Vec<SocketAddr>> {
        let name = match self.0 {
            AddressKind::Known(address) => return Ok(vec![address]),
            AddressKind::Name(name) => name,
        };
        let (put, found) = oneshot::channel();
        guest::spawn("longarm-lookup", move || {
            let found = name.to_socket_addrs().map(Vec::from_iter);
            let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot look up {name:?}: {error}"));
            drop(put.send(found.map_err(named)));
        })?;
        let found =
            found.await.unwrap_or_else(|_| Err(io::Error::other("the thread that looks up names has ended")))?;
        match found.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
            false => Ok(found),
        }
    }
}

impl From<SocketAddr> for StreamAddress {
    fn from(address: SocketAddr) -> StreamAddress {
        StreamAddress(AddressKind::Known(address))
    }
}

impl From<(IpAddr, u16)> for StreamAddress {
    fn from(address: (IpAddr, u16)) -> StreamAddress {
        SocketAddr::from(address).into()
    }
}

impl From<String> for StreamAddress {
    fn from(name: String) -> StreamAddress {
        match name.parse() {
            Ok(address) => StreamAddress(AddressKind::Known(address)),
            Err(_) => StreamAddress(AddressKind::Name(name)),
        }
    }
}

impl From<&str> for StreamAddress {
    fn from(name: &str) -> StreamAddress {
        name.to_owned().into()
    }
}

impl From<(&str, u16)> for StreamAddress {
    fn from((host, port): (&str, u16)) -> StreamAddress {
        match host.parse::<IpAddr>() {
            Ok(ip) => (ip, port).into(),
            Err(_) => StreamAddress(AddressKind::Name(format!("{host}:{port}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_need_no_lookup() {
        for address in ["192.0.2.1:7".into(), StreamAddress::from(("192.0.2.1", 7))] {
            assert_eq!(address, StreamAddress::from(SocketAddr::from(([192, 0, 2, 1], 7))));
        }
        assert_eq!(StreamAddress::from(("::1", 7)), StreamAddress::from("[::1]:7"));
        assert_eq!(StreamAddress::from("host:7"), StreamAddress(AddressKind::Name("host:7".into())));
    }
}
