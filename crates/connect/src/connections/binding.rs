//! Addresses and ports of this host, and the route to a destination.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hub::client::manager::{BindOptions, ManagerSession};
use transport::AddressVector;
use wire::{Gid, QKey, Qpn};

use super::id_state::{CmIdState, IdPhase};
use super::route;
use crate::error::Error;
use crate::event::{DatagramParam, EventDetails, EventKind, Param, UDP_QKEY};
use crate::space::PortSpace;

/// Binds an id to an address and a port of the hub's table. Waits for the hub's answer.
pub(super) fn bind(id: &mut CmIdState, session: &mut ManagerSession, address: SocketAddr) -> Result<(), Error> {
    let mut address = route::canonical(address);
    if id.phase != IdPhase::Idle {
        return Err(Error::State("it is bound already"));
    }
    let binding = match address.ip() {
        ip if ip.is_unspecified() => None,
        ip if ip.is_multicast() => return Err(Error::NotAvailable(ip)),
        ip => Some(route::binding(session.devices(), ip, route::scope(address))?),
    };
    let options = BindOptions { reuse: id.reuse, afonly: id.v6_only };
    let bound = session.bind(id.space as u16, address, options)?;
    address.set_port(bound.port);
    id.token = Some(bound.token);
    id.local = Some(address);
    id.binding = binding;
    id.phase = IdPhase::Bound;
    Ok(())
}

/// Finds the address and the device that packets to a destination leave from. Binds an idle id first.
pub(super) fn resolve_addr(
    id: &mut CmIdState,
    session: &mut ManagerSession,
    source: Option<SocketAddr>,
    given: SocketAddr,
) -> Result<(), Error> {
    let destination = loopback_for_wildcard(route::canonical(given));
    match id.phase {
        IdPhase::Idle => bind(id, session, source.unwrap_or_else(|| wildcard(destination.ip())))?,
        IdPhase::Bound => {}
        _ => return Err(Error::State("it has a destination or listens")),
    }
    let own = id.local.expect("a bound id has an address");
    // The wildcard of IPv6 may have an IPv4-mapped destination.
    let fits = own.is_ipv4() == destination.is_ipv4() || own.ip().is_unspecified() && own.is_ipv6() == given.is_ipv6();
    if !fits {
        return Err(Error::Invalid("source and destination are of different families"));
    }
    let leaves_from = if own.ip().is_unspecified() { route::source(destination)? } else { own.ip() };
    let interface = match route::scope(destination) {
        0 => route::scope(own),
        scope => scope,
    };
    let binding = route::binding(session.devices(), leaves_from, interface)?;
    id.local = Some(route::with_scope(leaves_from, own.port(), binding.interface));
    id.flow_label = route::flow_label(own.port(), destination.port());
    id.peer = Some(destination);
    id.binding = Some(binding);
    id.phase = IdPhase::AddrResolved;
    Ok(())
}

/// Joins a multicast group. There is no subnet manager on Ethernet to ask: attaching the queue pair joins the network's
/// group.
pub(super) fn join_group(id: &CmIdState, group: IpAddr, qkey: Option<QKey>) -> Result<EventDetails, Error> {
    if !group.is_multicast() {
        return Err(Error::Invalid("that address is not a multicast group"));
    }
    if !id.is_datagram() || !matches!(id.space, PortSpace::Udp | PortSpace::Ipoib | PortSpace::Ib) {
        return Err(Error::Invalid("groups are for datagrams"));
    }
    let Some(binding) = &id.binding else { return Err(Error::State("it is bound to no device")) };
    let mut address = AddressVector::new(binding.gid, Gid::from(group));
    address.traffic_class = id.tos;
    let qkey = qkey.unwrap_or(UDP_QKEY);
    let param = DatagramParam { private_data: Vec::new(), address, qpn: Qpn::MULTICAST, qkey };
    Ok(EventDetails::new(EventKind::MulticastJoin, Param::Datagram(param)))
}

/// The wildcard of an address's family.
fn wildcard(like: IpAddr) -> SocketAddr {
    let ip = match like {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, 0)
}

/// The wildcard as a destination means this host, as for sockets.
fn loopback_for_wildcard(destination: SocketAddr) -> SocketAddr {
    let ip = match destination.ip() {
        IpAddr::V4(v4) if v4.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(v6) if v6.is_unspecified() => IpAddr::from(Ipv6Addr::LOCALHOST),
        _ => return destination,
    };
    SocketAddr::new(ip, destination.port())
}
