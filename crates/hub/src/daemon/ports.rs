//! The ports of the RDMA port spaces: who has which, and who listens.
//!
//! The rules are those of Linux' connection manager. A port space has its own ports, which have
//! nothing to do with those of TCP or UDP. Two bindings of one port get on if no destination
//! belongs to both, or if both allow reuse; who listens must be alone, and from then on allows no
//! reuse. The unspecified IPv6 address covers IPv4, too, unless its owner wants one family only.
//! (Where a wildcard is in the way Linux says that the address is not available; here every port
//! in use is in use.)
//!
//! What this module does not do: it knows neither sockets nor interfaces nor randomness.

mod address;
#[cfg(test)]
mod tests;

pub(super) use address::Scope;

use crate::message::{BindRefusal, BindSpec};
use crate::status::PortStatus;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// A client's connection.
pub(super) type Owner = u64;

/// Most ports of one client.
pub(super) const MAX_BINDINGS: usize = 1 << 16;

/// The port spaces that there are: IPoIB, TCP, UDP and IB.
const SPACES: [u16; 4] = [0x0002, 0x0106, 0x0111, 0x013f];

/// All ports in use.
#[derive(Debug, Default)]
pub(super) struct PortTable {
    ports: HashMap<Key, Vec<Entry>>,
    owners: HashMap<Owner, BTreeMap<u64, Key>>,
}

/// A port of a port space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    space: u16,
    port: u16,
}

/// One binding.
#[derive(Debug)]
struct Entry {
    owner: Owner,
    token: u64,
    scope: Scope,
    address: SocketAddr,
    reuse: bool,
    listening: bool,
}

impl Entry {
    fn is(&self, owner: Owner, token: u64) -> bool {
        self.owner == owner && self.token == token
    }
}

/// Where ports for those who do not care come from.
#[derive(Clone, Debug)]
pub(super) struct Ephemeral {
    /// The system's range.
    pub(super) range: RangeInclusive<u16>,
    /// Where in it to begin to look, of all numbers.
    pub(super) start: u16,
}

impl PortTable {
    /// Binds a port, any if the wish's is 0. Returns it.
    pub(super) fn bind(
        &mut self,
        owner: Owner,
        token: u64,
        wish: &BindSpec,
        ephemeral: impl FnOnce() -> Ephemeral,
    ) -> Result<u16, BindRefusal> {
        if !SPACES.contains(&wish.space) {
            return Err(BindRefusal::UnknownSpace);
        }
        let scope = Scope::of(wish.address, wish.afonly).ok_or(BindRefusal::InvalidAddress)?;
        let tokens = self.owners.get(&owner);
        if tokens.is_some_and(|tokens| tokens.contains_key(&token)) {
            return Err(BindRefusal::UnknownToken);
        }
        if tokens.is_some_and(|tokens| tokens.len() >= MAX_BINDINGS) {
            return Err(BindRefusal::TooMany);
        }
        let port = match wish.address.port() {
            0 => self.any_port(wish.space, &scope, &ephemeral()).ok_or(BindRefusal::NoPort)?,
            port if self.is_free(Key { space: wish.space, port }, &scope, wish.reuse) => port,
            _ => return Err(BindRefusal::InUse),
        };
        let key = Key { space: wish.space, port };
        let address = SocketAddr::new(wish.address.ip(), port);
        let entry = Entry { owner, token, scope, address, reuse: wish.reuse, listening: false };
        self.ports.entry(key).or_default().push(entry);
        self.owners.entry(owner).or_default().insert(token, key);
        Ok(port)
    }

    /// Listens on a port. Returns it.
    pub(super) fn listen(&mut self, owner: Owner, token: u64) -> Result<u16, BindRefusal> {
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

    /// Gives a port back. Returns whether it was there.
    pub(super) fn unbind(&mut self, owner: Owner, token: u64) -> bool {
        let Some(tokens) = self.owners.get_mut(&owner) else { return false };
        let Some(key) = tokens.remove(&token) else { return false };
        if tokens.is_empty() {
            self.owners.remove(&owner);
        }
        self.remove(key, |entry| entry.is(owner, token));
        true
    }

    /// Gives all ports of a client back.
    pub(super) fn forget(&mut self, owner: Owner) {
        for key in self.owners.remove(&owner).unwrap_or_default().into_values() {
            self.remove(key, |entry| entry.owner == owner);
        }
    }

    /// Whose requests for connections to this port and destination are; `interface` is the one
    /// that a link-local destination belongs to.
    pub(super) fn route(&self, space: u16, port: u16, destination: IpAddr, interface: u32) -> Option<Owner> {
        let entries = self.ports.get(&Key { space, port })?;
        let fitting = entries.iter().filter(|entry| entry.listening && entry.scope.covers(destination, interface));
        fitting.max_by_key(|entry| entry.scope.precision()).map(|entry| entry.owner)
    }

    /// How many ports a client has.
    pub(super) fn count(&self, owner: Owner) -> usize {
        self.owners.get(&owner).map_or(0, BTreeMap::len)
    }

    /// The ports of a client, in the order of its tokens.
    pub(super) fn of(&self, owner: Owner) -> impl Iterator<Item = PortStatus> {
        let tokens = self.owners.get(&owner).into_iter().flatten();
        tokens.filter_map(move |(token, key)| {
            let entry = self.ports.get(key)?.iter().find(|entry| entry.is(owner, *token))?;
            Some(PortStatus { space: key.space, address: entry.address, listening: entry.listening })
        })
    }

    fn remove(&mut self, key: Key, which: impl Fn(&Entry) -> bool) {
        if let Some(entries) = self.ports.get_mut(&key) {
            entries.retain(|entry| !which(entry));
            if entries.is_empty() {
                self.ports.remove(&key);
            }
        }
    }

    /// Whether a further binding gets on with those that there are.
    fn is_free(&self, key: Key, scope: &Scope, reuse: bool) -> bool {
        let entries = self.ports.get(&key).map_or(&[][..], Vec::as_slice);
        entries.iter().all(|entry| (reuse && entry.reuse) || !entry.scope.overlaps(scope))
    }

    /// A port that gets on with all that there are, from a start on and round. One that somebody
    /// has with other addresses is as good as an unused one.
    fn any_port(&self, space: u16, scope: &Scope, ephemeral: &Ephemeral) -> Option<u16> {
        let (low, high) = (u32::from(*ephemeral.range.start()).max(1), u32::from(*ephemeral.range.end()));
        let count = (high + 1).checked_sub(low).filter(|count| *count > 0)?;
        let candidates = (0..count).map(|i| low + (u32::from(ephemeral.start) + i) % count);
        let mut ports = candidates.filter_map(|port| u16::try_from(port).ok());
        // Reuse is for ports that were asked for: nobody wants to share a port by chance.
        ports.find(|port| self.is_free(Key { space, port: *port }, scope, false))
    }
}
