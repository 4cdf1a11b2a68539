//! The sockets of a pool, by source port and source address.
//!
//! Each port has a socket for all addresses. The first send from an address with a traffic class opens a
//! further socket for that port, address and class. Sending from it is cheaper, since the kernel need not be
//! told these values each time. If that socket cannot be opened, the one for all addresses is used.

use super::limits::SOURCE_PORTS;
use super::socket::TxSocket;
use crate::address::Family;
use std::array;
use std::io;
use std::net::IpAddr;
use std::sync::OnceLock;
use wire::Flow;

/// The number of pairs of source address and traffic class with their own sockets.
const SOURCES: usize = 16;

/// All sockets of a pool. Lookups of open sockets take no lock.
#[derive(Debug)]
pub(super) struct Sockets {
    v4: Ports,
    v6: Ports,
    sources: [OnceLock<Box<SourceSockets>>; SOURCES],
    /// True if undelivered packets are reported.
    reporting: bool,
}

/// A family's sockets for all addresses, by the low bits of the port.
type Ports = [OnceLock<TxSocket>; SOURCE_PORTS];

/// The sockets of one source address and traffic class, by the low bits of the port; `None` if one could not
/// be opened.
#[derive(Debug)]
struct SourceSockets {
    address: IpAddr,
    traffic_class: u8,
    sockets: [OnceLock<Option<TxSocket>>; SOURCE_PORTS],
}

impl Sockets {
    pub(super) fn new(reporting: bool) -> Sockets {
        Sockets {
            v4: array::from_fn(|_| OnceLock::new()),
            v6: array::from_fn(|_| OnceLock::new()),
            sources: array::from_fn(|_| OnceLock::new()),
            reporting,
        }
    }

    /// The actual port for `wanted`. Opens its socket if necessary; if no descriptor is left, returns any
    /// open port.
    pub(super) fn port(&self, wanted: u16, family: Family) -> io::Result<u16> {
        let place = &self.ports(family)[index_of(wanted)];
        if let Some(socket) = place.get() {
            return Ok(socket.port());
        }
        match TxSocket::open(family, wanted, self.reporting) {
            Ok(socket) => Ok(place.get_or_init(|| socket).port()),
            Err(error) if is_shortage(&error) => {
                self.ports(family).iter().find_map(OnceLock::get).map(TxSocket::port).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// The socket for a flow's packets of this class, if its port is open.
    pub(super) fn of(&self, flow: &Flow, traffic_class: u8) -> Option<&TxSocket> {
        let family = if flow.is_ipv4() { Family::V4 } else { Family::V6 };
        let index = index_of(flow.source_port);
        let any = self.ports(family)[index].get().filter(|any| any.port() == flow.source_port)?;
        let source = self.source(flow.source.to_canonical(), traffic_class);
        let bound = source.and_then(|source| {
            let open = || TxSocket::open_at(source.address, flow.source_port, traffic_class, self.reporting).ok();
            source.sockets[index].get_or_init(open).as_ref()
        });
        Some(bound.unwrap_or(any))
    }

    /// All open sockets.
    pub(super) fn all(&self) -> impl Iterator<Item = &TxSocket> {
        let sources = self.sources.iter().filter_map(OnceLock::get);
        let bound = sources.flat_map(|source| &source.sockets).filter_map(|place| place.get()?.as_ref());
        self.v4.iter().chain(&self.v6).filter_map(OnceLock::get).chain(bound)
    }

    /// The entry of a source address and class, or the next free one if they have none yet. `None` for
    /// link-local addresses: they belong to a link, and sockets bound to them are bound to that link.
    fn source(&self, address: IpAddr, traffic_class: u8) -> Option<&SourceSockets> {
        if matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
            return None;
        }
        let new = || Box::new(SourceSockets::new(address, traffic_class));
        let mut places = self.sources.iter().map(|place| &**place.get_or_init(new));
        places.find(|source| source.address == address && source.traffic_class == traffic_class)
    }

    fn ports(&self, family: Family) -> &Ports {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }
}

impl SourceSockets {
    fn new(address: IpAddr, traffic_class: u8) -> SourceSockets {
        SourceSockets { address, traffic_class, sockets: array::from_fn(|_| OnceLock::new()) }
    }
}

/// True if there are no descriptors left.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// The index of a source port's socket.
fn index_of(port: u16) -> usize {
    usize::from(port) % SOURCE_PORTS
}
