//! Flows: the addresses and ports that packets of one connection share.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::id::Qpn;

/// The UDP destination port of every RoCEv2 packet (Annex A17).
pub const ROCE_PORT: u16 = 4791;

/// Lowest UDP source port that RoCEv2 senders use by custom.
const SOURCE_PORT_MIN: u32 = 0xc000;
/// There are 2^14 of these ports; the mask selects one.
const SOURCE_PORT_MASK: u32 = 0x3fff;

/// Source and destination of packets. The destination port is always [`ROCE_PORT`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address, or a multicast group.
    pub destination: IpAddr,
    /// UDP source port.
    pub source_port: u16,
}

/// The addresses of a flow in the version of IP that carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Flow {
    /// Whether packets have an IPv4 header. IPv4-mapped IPv6 addresses, as dual-stack
    /// sockets report them, count as IPv4.
    #[inline]
    pub fn is_ipv4(&self) -> bool {
        match (self.source, self.destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => true,
            _ => matches!(self.addresses(), Addresses::V4(..)),
        }
    }

    /// The flow in the other direction, with the same source port.
    #[must_use]
    pub fn reversed(&self) -> Flow {
        Flow { source: self.destination, destination: self.source, source_port: self.source_port }
    }

    /// A flow that mixes IP versions cannot exist on a wire; it counts as IPv6.
    #[inline]
    pub(crate) fn addresses(&self) -> Addresses {
        match (self.source.to_canonical(), self.destination.to_canonical()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4(source, destination),
            (source, destination) => Addresses::V6(ipv6(source), ipv6(destination)),
        }
    }
}

fn ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The UDP source port of a connected queue pair, as Linux chooses it. The port is entropy for the
/// network's load balancing. It is constant for one connection, and the same in both directions if
/// both ends use the same (or no) flow label.
///
/// The function folds 20 bits into the 14 that a port from 0xc000 up has. They are those of the
/// flow label, or, if that is zero, of a hash of the two QPNs.
pub fn source_port(flow_label: u32, local: Qpn, remote: Qpn) -> u16 {
    let label = match flow_label & 0xf_ffff {
        0 => flow_label_of(local, remote),
        label => label,
    };
    let folded = label & SOURCE_PORT_MASK ^ label >> 14;
    (SOURCE_PORT_MIN | folded) as u16
}

/// The UDP source port of a UD queue pair, as Linux chooses it: a hash of its number.
/// It does not depend on the destination.
pub fn source_port_ud(qpn: Qpn) -> u16 {
    /// 2^32 divided by the square of the golden ratio.
    const GOLDEN: u32 = 0x61c8_8647;
    let hash = qpn.get().wrapping_mul(GOLDEN) >> (32 - 14);
    (SOURCE_PORT_MIN + (hash & SOURCE_PORT_MASK)) as u16
}

/// A flow label of 20 bits; both ends of a connection compute the same one.
fn flow_label_of(local: Qpn, remote: Qpn) -> u32 {
    let product = u64::from(local.get()) * u64::from(remote.get());
    let product = product ^ product >> 20;
    let product = product ^ product >> 40;
    (product & 0xf_ffff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected ports come from captures of the Linux driver.
    #[test]
    fn ports_are_those_of_linux() {
        assert_eq!(source_port(0, Qpn::new(0x11), Qpn::new(0x11)), 49441);
        assert_eq!(source_port_ud(Qpn::GSI), 55410);
    }

    #[test]
    fn ports_are_the_same_in_both_directions() {
        let (a, b) = (Qpn::new(0x03_1234), Qpn::new(0xff_fffe));
        assert_eq!(source_port(0, a, b), source_port(0, b, a));
        assert_ne!(source_port(0, a, b), source_port(0, a, a));
    }

    #[test]
    fn a_flow_label_wins_and_folds_its_high_bits() {
        let (a, b) = (Qpn::new(5), Qpn::new(9));
        assert_eq!(source_port(0x0_1234, a, b), 0xd234);
        assert_eq!(source_port(0xf_c000, a, b), 0xc03f);
        assert_eq!(source_port(0xf_c03f, b, a), 0xc000);
        assert_eq!(source_port(0x10_0000, a, b), source_port(0, a, b), "20 bits count");
    }

    #[test]
    fn ports_stay_in_range() {
        for qpn in (0..0xff_ffff).step_by(4097) {
            assert!(source_port_ud(Qpn::new(qpn)) >= 0xc000);
            assert!(source_port(0, Qpn::new(qpn), Qpn::new(!qpn)) >= 0xc000);
            assert!(source_port(qpn, Qpn::new(1), Qpn::new(2)) >= 0xc000);
        }
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        let flow = |source: &str, destination: &str| Flow {
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
            source_port: 0xc000,
        };
        assert!(flow("10.0.0.1", "::ffff:10.0.0.2").is_ipv4());
        assert!(!flow("fd00::1", "fd00::2").is_ipv4());
        assert!(!flow("10.0.0.1", "fd00::2").is_ipv4());
    }
}
