//! Where packets of a queue pair go, worked out once and kept while it stays the same.

use std::io;
use std::net::IpAddr;

use transport::{AddressVector, Transmit};
use udp::Family;
use wire::icrc::Sealer;
use wire::{Flow, Qpn};

use crate::engine::Engine;

/// The way of one address vector.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// What it was worked out from.
    address: AddressVector,
    entropy: u16,
    slot: u8,
    pub(crate) sealer: Sealer,
    pub(crate) interface: u32,
}

impl Route {
    /// Whether this is the way for a packet to a queue pair of `slot`.
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

impl Engine {
    /// Opens one of the sockets that packets leave from. The others follow when they are needed, or this one serves for
    /// them; without any, packets would be lost later, where nobody can be told.
    ///
    /// # Errors
    /// That there are no descriptors left. Whatever else is wrong with it is for who needs it.
    pub(crate) fn open_one_socket(&self) -> io::Result<()> {
        let wanted = udp::port_toward(Qpn::from_parts(self.slots.first().number, 0), wire::source_port_ud(Qpn::SMI));
        match self.tx.source_port(wanted, Family::V4) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => Err(error),
            _ => Ok(()),
        }
    }

    /// The way for a packet to a queue pair of `slot` that leaves through `interface`. `None`
    /// if there is no socket to be had for its source port.
    pub(crate) fn route(&self, transmit: &Transmit, slot: u8, interface: u32) -> Option<Route> {
        let AddressVector { source, destination, .. } = transmit.address;
        let (source, destination) = (source.ip(), destination.ip());
        let family = if destination.is_ipv4() { Family::V4 } else { Family::V6 };
        let wanted = udp::port_toward(Qpn::from_parts(slot, 0), transmit.source_port);
        let source_port = match self.tx.source_port(wanted, family) {
            Ok(port) => port,
            Err(error) => {
                log::error!("no socket for UDP source port {wanted}: {error}");
                return None;
            }
        };
        Some(Route {
            address: transmit.address,
            entropy: transmit.source_port,
            slot,
            sealer: Sealer::new(Flow { source, destination, source_port }),
            interface: if needs_interface(destination) { interface } else { 0 },
        })
    }
}

/// Addresses that mean something else on every link.
fn needs_interface(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(v4) => v4.is_multicast(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}
