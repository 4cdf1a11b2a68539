//! The ports of the RDMA port spaces: their owners and listeners.
//!
//! The rules are those of Linux' connection manager. A port space has its own ports, independent of
//! those of TCP or UDP. Two bindings of one port are compatible if no destination belongs to both, or if
//! both allow reuse. A listener must be the only binding of its destinations, and from then on allows no
//! reuse. The unspecified IPv6 address covers IPv4, too, unless its owner wants one family only.
//!
//! One difference: where a wildcard is in the way, Linux reports that the address is not available; this table
//! reports that the port is in use.
//!
//! Outside this module: it knows neither sockets nor interfaces nor randomness.

mod bind_scope;
#[cfg(test)]
mod tests;

pub(super) use bind_scope::BindScope;

use super::response::ClientId;
use crate::message::{BindRefusal, BindSpec};
use crate::status::PortStatus;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// Most ports of one client.
pub(super) const MAX_BINDINGS: usize = 1 << 16;

/// The known port spaces: IPoIB, TCP, UDP and IB.
const SPACES: [u16; 4] = [0x0002, 0x0106, 0x0111, 0x013f];

/// All ports in use.
#[derive(Debug, Default)]
pub(super) struct PortTable {
    ports: HashMap<PortKey, Vec<PortBinding>>,
    owners: HashMap<ClientId, BTreeMap<u64, PortKey>>,
}

/// A port of a port space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PortKey {
    space: u16,
    port: u16,
}

/// One binding.
#[derive(Debug)]
struct PortBinding {
    owner: ClientId,
    token: u64,
    scope: BindScope,
    address: SocketAddr,
    reuse: bool,
    listening: bool,
}

impl PortBinding {
    fn is(&self, owner: ClientId, token: u64) -> bool {
        self.owner == owner && self.token == token
    }
}

/// The ports to choose from for a client that asks for any port.
#[derive(Clone, Debug)]
pub(super) struct EphemeralPorts {
    /// The system's range.
    pub(super) range: RangeInclusive<u16>,
    /// Selects the first port to try, modulo the size of the range.
    pub(super) start: u16,
}

impl PortTable {
    /// Binds the specified port, or any if it is 0. Returns the port.
    pub(super) fn bind(
        &mut self,
        owner: ClientId,
        token: u64,
        spec: &BindSpec,
        ephemeral: impl FnOnce() -> EphemeralPorts,
    ) -> Result<u16, BindRefusal> {
        if !SPACES.contains(&spec.space) {
            return Err(BindRefusal::UnknownSpace);
        }
        let scope = BindScope::of(spec.address, spec.afonly).ok_or(BindRefusal::InvalidAddress)?;
        let tokens = self.owners.get(&owner);
        if tokens.is_some_and(|tokens| tokens.contains_key(&token)) {
            return Err(BindRefusal::UnknownToken);
        }
        if tokens.is_some_and(|tokens| tokens.len() >= MAX_BINDINGS) {
            return Err(BindRefusal::TooMany);
        }
        let port = match spec.address.port() {
            0 => self.any_port(spec.space, &scope, &ephemeral()).ok_or(BindRefusal::NoPort)?,
            port if self.is_free(PortKey { space: spec.space, port }, &scope, spec.reuse) => port,
            _ => return Err(BindRefusal::InUse),
        };
        let key = PortKey { space: spec.space, port };
        let address = SocketAddr::new(spec.address.ip(), port);
        let entry = PortBinding { owner, token, scope, address, reuse: spec.reuse, listening: false };
        self.ports.entry(key).or_default().push(entry);
        self.owners.entry(owner).or_default().insert(token, key);
        Ok(port)
    }

    /// Listens on a port. Returns the port.
    pub(super) fn listen(&mut self, owner: ClientId, token: u64) -> Result<u16, BindRefusal> {
        let key = self.owners.get(&owner).and_then(|tokens| tokens.get(&token)).copied();
        let key = key.ok_or(BindRefusal::UnknownToken)?;
        let entries = self.ports.get_mut(&key).ok_or(BindRefusal::UnknownToken)?;
        let own = entries.iter().position(|entry| entry.is(owner, token)).ok_or(BindRefusal::UnknownToken)?;
        let others = entries.iter().enumerate().filter(|(at, _)| *at != own);
        let scope = &entries[own].scope;
        if others.into_iter().any(|(_, other)| other.scope.overlaps(scope)) {
            return Err(BindRefusal::InUse);
        }
        entries[own].reuse = false;
        entries[own].listening = true;
        Ok(key.port)
    }

    /// Gives a port back. Returns whether the client had it.
    pub(super) fn unbind(&mut self, owner: ClientId, token: u64) -> bool {
        let Some(tokens) = self.owners.get_mut(&owner) else { return false };
        let Some(key) = tokens.remove(&token) else { return false };
        if tokens.is_empty() {
            self.owners.remove(&owner);
        }
        self.remove(key, |entry| entry.is(owner, token));
        true
    }

    /// Gives all ports of a client back.
    pub(super) fn remove_owner(&mut self, owner: ClientId) {
        for key in self.owners.remove(&owner).unwrap_or_default().into_values() {
            self.remove(key, |entry| entry.owner == owner);
        }
    }

    /// The client that gets connection requests for a port and destination. `interface` is that of a
    /// link-local destination.
    pub(super) fn route(&self, space: u16, port: u16, destination: IpAddr, interface: u32) -> Option<ClientId> {
        let entries = self.ports.get(&PortKey { space, port })?;
        let fitting = entries.iter().filter(|entry| entry.listening && entry.scope.covers(destination, interface));
        fitting.max_by_key(|entry| entry.scope.precision()).map(|entry| entry.owner)
    }

    /// The number of ports of a client.
    pub(super) fn count(&self, owner: ClientId) -> usize {
        self.owners.get(&owner).map_or(0, BTreeMap::len)
    }

    /// The ports of a client, in the order of its tokens.
    pub(super) fn of(&self, owner: ClientId) -> impl Iterator<Item = PortStatus> {
        let tokens = self.owners.get(&owner).into_iter().flatten();
        tokens.filter_map(move |(token, key)| {
            let entry = self.ports.get(key)?.iter().find(|entry| entry.is(owner, *token))?;
            Some(PortStatus { space: key.space, address: entry.address, listening: entry.listening })
        })
    }

    fn remove(&mut self, key: PortKey, which: impl Fn(&PortBinding) -> bool) {
        if let Some(entries) = self.ports.get_mut(&key) {
            entries.retain(|entry| !which(entry));
            if entries.is_empty() {
                self.ports.remove(&key);
            }
        }
    }

    /// Whether a further binding is compatible with all present ones.
    fn is_free(&self, key: PortKey, scope: &BindScope, reuse: bool) -> bool {
        let entries = self.ports.get(&key).map_or(&[][..], Vec::as_slice);
        entries.iter().all(|entry| (reuse && entry.reuse) || !entry.scope.overlaps(scope))
    }

    /// A port that is compatible with all bindings. A port that is bound with other addresses is as good as an
    /// unused one.
    fn any_port(&self, space: u16, scope: &BindScope, ephemeral: &EphemeralPorts) -> Option<u16> {
        let (low, high) = (u32::from(*ephemeral.range.start()).max(1), u32::from(*ephemeral.range.end()));
        let count = (high + 1).checked_sub(low).filter(|count| *count > 0)?;
        let candidates = (0..count).map(|i| low + (u32::from(ephemeral.start) + i) % count);
        let mut ports = candidates.filter_map(|port| u16::try_from(port).ok());
        // Reuse is for ports that a client names: no client wants to share a port by chance.
        ports.find(|port| self.is_free(PortKey { space, port: *port }, scope, false))
    }
}
