//! The way to a destination.

use std::net::{IpAddr, SocketAddr};

use super::bind::wildcard;
use super::{Id, IdKey};
use crate::error::Error;
use crate::event::{EventKind, Param};
use crate::route;
use crate::state::{Phase, State};

impl Id {
    /// Finds the address and the device that packets to `destination` leave from; binds to
    /// `source` first if it is given and the id not bound. Then comes
    /// [`AddrResolved`](EventKind::AddrResolved). A port of our own is taken if there is none yet.
    /// `rdma_resolve_addr(3)`.
    ///
    /// # Errors
    /// If there is no route, no device has the address, or the id is beyond this.
    pub fn resolve_addr(&self, source: Option<SocketAddr>, destination: SocketAddr) -> Result<(), Error> {
        self.change(|state, key| {
            state.resolve_addr(key, source, destination)?;
            state.tell(key, EventKind::AddrResolved, 0, Param::None);
            Ok(())
        })
    }

    /// Says that the route is known, which on Ethernet it is with the address:
    /// [`RouteResolved`](EventKind::RouteResolved). `rdma_resolve_route(3)`.
    ///
    /// # Errors
    /// Before the address is resolved.
    pub fn resolve_route(&self) -> Result<(), Error> {
        self.change(|state, key| {
            let entry = state.entry(key)?;
            if entry.phase != Phase::AddrResolved {
                return Err(Error::State("its address is not resolved"));
            }
            entry.phase = Phase::RouteResolved;
            state.tell(key, EventKind::RouteResolved, 0, Param::None);
            Ok(())
        })
    }
}

impl State {
    fn resolve_addr(&mut self, key: IdKey, source: Option<SocketAddr>, destination: SocketAddr) -> Result<(), Error> {
        let given = destination;
        let destination = loopback_for_wildcard(route::canonical(given));
        match self.entry(key)?.phase {
            Phase::Idle => self.bind(key, source.unwrap_or_else(|| wildcard(destination.ip())))?,
            Phase::Bound => {}
            _ => return Err(Error::State("it has a destination or listens")),
        }
        let own = self.entry(key)?.local.map(|local| local.ip());
        // The wildcard of IPv6 may have IPv4 destinations in the words of IPv6.
        let fits = |own: IpAddr| {
            own.is_ipv4() == destination.is_ipv4() || own.is_unspecified() && own.is_ipv6() == given.is_ipv6()
        };
        if !own.is_none_or(fits) {
            return Err(Error::Invalid("source and destination are of different families"));
        }
        let leaves_from = match own.filter(|own| !own.is_unspecified()) {
            Some(own) => own,
            None => route::source(destination)?,
        };
        let interface = match route::scope(destination) {
            0 => self.entry(key)?.local.map_or(0, route::scope),
            scope => scope,
        };
        let binding = route::binding(self.devices(), leaves_from, interface)?;
        let entry = self.entry(key)?;
        let port = entry.local.map_or(0, |local| local.port());
        entry.local = Some(with_scope(leaves_from, port, binding.interface));
        entry.flow_label = route::flow_label(port, destination.port());
        entry.peer = Some(destination);
        entry.binding = Some(binding);
        entry.phase = Phase::AddrResolved;
        Ok(())
    }
}

/// As for sockets: the wildcard as a destination means this host.
fn loopback_for_wildcard(destination: SocketAddr) -> SocketAddr {
    let ip = match destination.ip() {
        IpAddr::V4(v4) if v4.is_unspecified() => IpAddr::from(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(v6) if v6.is_unspecified() => IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
        _ => return destination,
    };
    SocketAddr::new(ip, destination.port())
}

/// An address of ours with what makes it whole.
pub(crate) fn with_scope(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if route::is_scoped(ip) => std::net::SocketAddrV6::new(v6, port, 0, interface).into(),
        _ => SocketAddr::new(ip, port),
    }
}
