//! The destinations that a binding stands for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A set of destination addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One address.
    V4(Ipv4Addr),
    /// One address; the interface if it is link-local, else 0.
    V6(Ipv6Addr, u32),
    /// All of IPv4.
    AnyV4,
    /// All of IPv6.
    AnyV6,
    /// Everything.
    Any,
}

impl Scope {
    /// What an address to bind to stands for; `None` if it is none of a host, or link-local
    /// without its interface.
    pub(crate) fn of(address: SocketAddr, afonly: bool) -> Option<Scope> {
        let interface = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        };
        match address.ip().to_canonical() {
            ip if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) => None,
            IpAddr::V4(v4) if v4.is_unspecified() => Some(Scope::AnyV4),
            IpAddr::V4(v4) => Some(Scope::V4(v4)),
            IpAddr::V6(v6) if v6.is_unspecified() => Some(if afonly { Scope::AnyV6 } else { Scope::Any }),
            IpAddr::V6(v6) if !v6.is_unicast_link_local() => Some(Scope::V6(v6, 0)),
            IpAddr::V6(_) if interface == 0 => None,
            IpAddr::V6(v6) => Some(Scope::V6(v6, interface)),
        }
    }

    /// Whether some destination belongs to both.
    pub(crate) fn overlaps(&self, other: &Scope) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// Whether a destination belongs to it.
    pub(crate) fn covers(&self, destination: IpAddr, interface: u32) -> bool {
        self.contains(&match destination.to_canonical() {
            IpAddr::V4(v4) => Scope::V4(v4),
            IpAddr::V6(v6) => Scope::V6(v6, if v6.is_unicast_link_local() { interface } else { 0 }),
        })
    }

    /// The higher, the fewer destinations.
    pub(crate) fn precision(&self) -> u8 {
        match self {
            Scope::V4(_) | Scope::V6(..) => 2,
            Scope::AnyV4 | Scope::AnyV6 => 1,
            Scope::Any => 0,
        }
    }

    fn contains(&self, other: &Scope) -> bool {
        match self {
            Scope::V4(_) | Scope::V6(..) => self == other,
            Scope::AnyV4 => matches!(other, Scope::V4(_) | Scope::AnyV4),
            Scope::AnyV6 => matches!(other, Scope::V6(..) | Scope::AnyV6),
            Scope::Any => true,
        }
    }
}
