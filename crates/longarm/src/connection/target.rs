//! Where to connect to, or to listen.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};

use super::Route;

/// An address and a port, several of them, or a name that has still to be looked up.
///
/// Functions that connect take anything that becomes one: `"host:7471"`, `("host", 7471)`, a
/// [`SocketAddr`], an address with a port, a list of addresses, a [`Route`]. A thread of the library looks
/// names up, so no future blocks its executor.
///
/// ```
/// use longarm::Target;
/// assert_eq!(Target::from("192.0.2.7:7471").addresses().unwrap().len(), 1);
/// assert!(Target::from("a-host-name:7471").addresses().is_none());   // not known yet
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target(TargetKind);

#[derive(Clone, PartialEq, Eq, Debug)]
enum TargetKind {
    Addresses(Vec<SocketAddr>),
    /// A host's name and a port, in one text.
    Name(String),
}

impl Target {
    /// The addresses, unless it is a name.
    pub fn addresses(&self) -> Option<&[SocketAddr]> {
        match &self.0 {
            TargetKind::Addresses(addresses) => Some(addresses),
            TargetKind::Name(_) => None,
        }
    }

    /// The addresses. Looks a name up, which may block for seconds.
    pub(super) fn resolve(self) -> io::Result<Vec<SocketAddr>> {
        match self.0 {
            TargetKind::Addresses(addresses) => Ok(addresses),
            TargetKind::Name(name) => Ok(name.to_socket_addrs()?.collect()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            TargetKind::Name(name) => f.write_str(name),
            TargetKind::Addresses(addresses) => match addresses.first() {
                Some(first) => write!(f, "{first}"),
                None => f.write_str("no address"),
            },
        }
    }
}

impl From<&str> for Target {
    fn from(name: &str) -> Target {
        match name.parse() {
            Ok(address) => Target::from([address].as_slice()),
            Err(_) => Target(TargetKind::Name(name.to_owned())),
        }
    }
}

impl From<String> for Target {
    fn from(name: String) -> Target {
        Target::from(name.as_str())
    }
}

impl From<&String> for Target {
    fn from(name: &String) -> Target {
        Target::from(name.as_str())
    }
}

impl From<(&str, u16)> for Target {
    fn from((host, port): (&str, u16)) -> Target {
        match host.parse::<IpAddr>() {
            Ok(ip) => Target::from((ip, port)),
            Err(_) => Target(TargetKind::Name(format!("{host}:{port}"))),
        }
    }
}

impl From<(String, u16)> for Target {
    fn from((host, port): (String, u16)) -> Target {
        Target::from((host.as_str(), port))
    }
}

impl From<(IpAddr, u16)> for Target {
    fn from((ip, port): (IpAddr, u16)) -> Target {
        Target::from(SocketAddr::new(ip, port))
    }
}

impl From<(Ipv4Addr, u16)> for Target {
    fn from((ip, port): (Ipv4Addr, u16)) -> Target {
        Target::from((IpAddr::from(ip), port))
    }
}

impl From<(Ipv6Addr, u16)> for Target {
    fn from((ip, port): (Ipv6Addr, u16)) -> Target {
        Target::from((IpAddr::from(ip), port))
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Target {
        Target::from([address].as_slice())
    }
}

impl From<SocketAddrV4> for Target {
    fn from(address: SocketAddrV4) -> Target {
        Target::from(SocketAddr::from(address))
    }
}

impl From<SocketAddrV6> for Target {
    fn from(address: SocketAddrV6) -> Target {
        Target::from(SocketAddr::from(address))
    }
}

impl From<&[SocketAddr]> for Target {
    fn from(addresses: &[SocketAddr]) -> Target {
        Target(TargetKind::Addresses(addresses.to_vec()))
    }
}

impl From<Vec<SocketAddr>> for Target {
    fn from(addresses: Vec<SocketAddr>) -> Target {
        Target(TargetKind::Addresses(addresses))
    }
}

impl From<Route> for Target {
    fn from(route: Route) -> Target {
        Target::from(&route)
    }
}

impl From<&Route> for Target {
    fn from(route: &Route) -> Target {
        Target::from(route.peer_addrs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_addresses_need_no_lookup() {
        let known = [
            Target::from("192.0.2.7:1"),
            Target::from("[2001:db8::1]:1"),
            Target::from(("2001:db8::1", 1)),
            Target::from((Ipv4Addr::LOCALHOST, 1)),
        ];
        for target in known {
            assert_eq!(target.addresses().map(<[_]>::len), Some(1), "{target}");
        }
    }

    #[test]
    fn names_wait_and_wrong_ones_fail_when_looked_up() {
        assert_eq!(Target::from(("host", 7471)).to_string(), "host:7471");
        assert_eq!(Target::from("localhost:7471").resolve().unwrap()[0].port(), 7471);
        for wrong in ["localhost", "localhost:70000", "localhost:", ""] {
            assert!(Target::from(wrong).addresses().is_none());
            assert!(Target::from(wrong).resolve().is_err(), "{wrong:?}");
        }
    }
}
