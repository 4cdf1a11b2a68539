//! The sockets of a pool, by source port and source address.
//!
//! A port is had by a socket for all addresses. The first send from an address with a traffic class opens a further
//! one for that port, address and class, since sending is cheaper if the kernel need not be told these each time.
//! Where that cannot be, the socket for all addresses does it.

use super::SOURCE_PORTS;
use super::socket::TxSocket;
use crate::address::Family;
use std::array;
use std::io;
use std::net::IpAddr;
use std::sync::OnceLock;
use wire::Flow;

/// Source addresses, each with a traffic class, that have sockets of their own.
const SOURCES: usize = 16;

/// All sockets of a pool. Read without locks once they are open.
#[derive(Debug)]
pub(super) struct Sockets {
    v4: Ports,
    v6: Ports,
    sources: [OnceLock<Box<Source>>; SOURCES],
    /// Whether undelivered packets are reported.
    reporting: bool,
}

/// The sockets of a family for all addresses; the low bits of the port are the index.
type Ports = [OnceLock<TxSocket>; SOURCE_PORTS];

/// The sockets of one source address and traffic class, by the same index; none where it could not be had.
#[derive(Debug)]
struct Source {
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

    /// The port that stands for `wanted`. Opens its socket if need be; without a descriptor for it, any other serves.
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

    /// The socket to send a flow's packets of this class from, if its port is open.
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

    /// All that are open.
    pub(super) fn all(&self) -> impl Iterator<Item = &TxSocket> {
        let sources = self.sources.iter().filter_map(OnceLock::get);
        let bound = sources.flat_map(|source| &source.sockets).filter_map(|place| place.get()?.as_ref());
        self.v4.iter().chain(&self.v6).filter_map(OnceLock::get).chain(bound)
    }

    /// The place of a source address and class, the next free one if they have none yet. Link-local addresses have
    /// none: they belong to a link, and sockets bound to them to that link.
    fn source(&self, address: IpAddr, traffic_class: u8) -> Option<&Source> {
        if matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
            return None;
        }
        let new = || Box::new(Source::new(address, traffic_class));
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

impl Source {
    fn new(address: IpAddr, traffic_class: u8) -> Source {
        Source { address, traffic_class, sockets: array::from_fn(|_| OnceLock::new()) }
    }
}

/// Whether there are no descriptors left.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Where a source port's socket is.
fn index_of(port: u16) -> usize {
    usize::from(port) % SOURCE_PORTS
}
