//! Addresses and ports of our own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hub::client::manager::BindOptions;

use super::{Id, IdKey};
use crate::error::Error;
use crate::route;
use crate::state::{Phase, State};

/// Connect requests that wait unfetched at most, where the caller leaves it to us.
const DEFAULT_BACKLOG: u32 = 1024;

impl Id {
    /// Binds to an address, which may be the wildcard, and a port; 0 takes a free one. A specific
    /// address binds to its device. `rdma_bind_addr(3)`.
    ///
    /// # Errors
    /// If it is bound already, the port is in use, or the address none of a device.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Error> {
        self.change(|state, key| state.bind(key, address))
    }

    /// Takes connect requests from now on, `backlog` of them unfetched at most (0 for a usual
    /// number); one that is not bound is bound to some port first. `rdma_listen(3)`.
    ///
    /// # Errors
    /// If the id has a destination, or somebody else listens on the port.
    pub fn listen(&self, backlog: u32) -> Result<(), Error> {
        self.change(|state, key| {
            if state.entry(key)?.phase == Phase::Idle {
                state.bind(key, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
            }
            let entry = state.entry(key)?;
            let (Phase::Bound, Some(token)) = (entry.phase, entry.token) else {
                return Err(Error::State("to listen it must be bound and no more"));
            };
            state.unsettle();
            state.session.listen(token)?;
            state.listens(key, if backlog == 0 { DEFAULT_BACKLOG } else { backlog });
            Ok(())
        })
    }

    /// Whether it takes connect requests.
    pub fn is_listening(&self) -> bool {
        self.look(|entry| entry.phase == Phase::Listening).unwrap_or(false)
    }
}

impl State {
    pub(crate) fn bind(&mut self, key: IdKey, address: SocketAddr) -> Result<(), Error> {
        let address = route::canonical(address);
        let entry = self.entry(key)?;
        if entry.phase != Phase::Idle {
            return Err(Error::State("it is bound already"));
        }
        let options = BindOptions { reuse: entry.reuse, afonly: entry.v6_only };
        let space = entry.space as u16;
        let binding = match address.ip() {
            ip if ip.is_unspecified() => None,
            ip if ip.is_multicast() => return Err(Error::NotAvailable(ip)),
            ip => Some(route::binding(self.devices(), ip, route::scope(address))?),
        };
        self.unsettle();
        let bound = self.session.bind(space, address, options)?;
        let entry = self.entry(key)?;
        entry.token = Some(bound.token);
        entry.local = Some(with_port(address, bound.port));
        entry.binding = binding;
        entry.phase = Phase::Bound;
        Ok(())
    }
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// The wildcard of an address's family.
pub(super) fn wildcard(like: IpAddr) -> SocketAddr {
    let ip = match like {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, 0)
}
