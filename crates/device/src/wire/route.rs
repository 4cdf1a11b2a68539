//! The route of a queue pair's packets, worked out once and kept while it stays the same.

use std::net::IpAddr;

use transport::{AddressVector, Transmit};
use wire::Flow;
use wire::icrc::Sealer;

/// The route of one address vector.
#[derive(Clone, Debug)]
pub(crate) struct PacketRoute {
    /// The values that it was worked out from.
    address: AddressVector,
    entropy: u16,
    slot: u8,
    pub(crate) sealer: Sealer,
    /// The interface that packets must leave through, or zero if any will do.
    pub(crate) interface: u32,
}

impl PacketRoute {
    /// The route of a packet to a queue pair of `slot`, from a socket with this source port.
    pub(crate) fn new(transmit: &Transmit, slot: u8, source_port: u16, interface: u32) -> PacketRoute {
        let AddressVector { source, destination, .. } = transmit.address;
        let (source, destination) = (source.ip(), destination.ip());
        PacketRoute {
            address: transmit.address,
            entropy: transmit.source_port,
            slot,
            sealer: Sealer::new(Flow { source, destination, source_port }),
            interface: if needs_interface(destination) { interface } else { 0 },
        }
    }

    /// Whether it serves a packet to a queue pair of `slot`.
    #[inline]
    pub(crate) fn serves(&self, transmit: &Transmit, slot: u8) -> bool {
        self.entropy == transmit.source_port && self.slot == slot && self.address == transmit.address
    }

    #[inline]
    pub(crate) fn flow(&self) -> &Flow {
        self.sealer.flow()
    }

    pub(crate) fn traffic_class(&self) -> u8 {
        self.address.traffic_class
    }

    pub(crate) fn hop_limit(&self) -> u8 {
        self.address.hop_limit
    }
}

/// Whether an address means something else on every link.
fn needs_interface(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(v4) => v4.is_multicast(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}
