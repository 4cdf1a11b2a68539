//! The destinations that a binding covers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A set of destination addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BindScope {
    /// One address.
    V4(Ipv4Addr),
    /// One address; the interface if it is link-local, else 0.
    V6(Ipv6Addr, u32),
    /// All of IPv4.
    AnyV4,
    /// All of IPv6.
    AnyV6,
    /// All of IPv4 and IPv6.
    Any,
}

impl BindScope {
    /// The destinations of an address to bind to. `None` if no host has such an address, or if it is link-local
    /// without its interface.
    pub(crate) fn of(address: SocketAddr, afonly: bool) -> Option<BindScope> {
        let interface = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        };
        match address.ip().to_canonical() {
            ip if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) => None,
            IpAddr::V4(v4) if v4.is_unspecified() => Some(BindScope::AnyV4),
            IpAddr::V4(v4) => Some(BindScope::V4(v4)),
            IpAddr::V6(v6) if v6.is_unspecified() => Some(if afonly { BindScope::AnyV6 } else { BindScope::Any }),
            IpAddr::V6(v6) if !v6.is_unicast_link_local() => Some(BindScope::V6(v6, 0)),
            IpAddr::V6(_) if interface == 0 => None,
            IpAddr::V6(v6) => Some(BindScope::V6(v6, interface)),
        }
    }

    /// Whether a destination belongs to both.
    pub(crate) fn overlaps(&self, other: &BindScope) -> bool {
        self.contains(other) || other.contains(self)
    }

    pub(crate) fn covers(&self, destination: IpAddr, interface: u32) -> bool {
        self.contains(&match destination.to_canonical() {
            IpAddr::V4(v4) => BindScope::V4(v4),
            IpAddr::V6(v6) => BindScope::V6(v6, if v6.is_unicast_link_local() { interface } else { 0 }),
        })
    }

    /// The higher, the fewer destinations.
    pub(crate) fn precision(&self) -> u8 {
        match self {
            BindScope::V4(_) | BindScope::V6(..) => 2,
            BindScope::AnyV4 | BindScope::AnyV6 => 1,
            BindScope::Any => 0,
        }
    }

    fn contains(&self, other: &BindScope) -> bool {
        match self {
            BindScope::V4(_) | BindScope::V6(..) => self == other,
            BindScope::AnyV4 => matches!(other, BindScope::V4(_) | BindScope::AnyV4),
            BindScope::AnyV6 => matches!(other, BindScope::V6(..) | BindScope::AnyV6),
            BindScope::Any => true,
        }
    }
}
