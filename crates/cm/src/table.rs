//! All connections, and their indexes: by our id, by the peer's, by the peer's queue pair, by
//! time. States, deadlines and keys change only here, so that the indexes agree.

mod connection;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use wire::Qpn;

pub(crate) use connection::{CmState, ConnectionRecord, RetryTimer};

use crate::call::MadRoute;

/// A peer's connection: address and GUID, and the communication id there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RemoteIdKey(IpAddr, u64, u32);

/// A peer's queue pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct QpnKey(IpAddr, u64, u32);

/// A peer's datagram request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SidrKey(IpAddr, u32);

impl RemoteIdKey {
    pub(crate) fn new(route: &MadRoute, guid: u64, id: u32) -> RemoteIdKey {
        RemoteIdKey(route.remote.to_canonical(), guid, id)
    }
}

impl QpnKey {
    pub(crate) fn new(route: &MadRoute, guid: u64, qpn: Qpn) -> QpnKey {
        QpnKey(route.remote.to_canonical(), guid, qpn.get())
    }
}

impl SidrKey {
    pub(crate) fn new(route: &MadRoute, request_id: u32) -> SidrKey {
        SidrKey(route.remote.to_canonical(), request_id)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    connections: BTreeMap<u32, ConnectionRecord>,
    by_remote: BTreeMap<RemoteIdKey, u32>,
    by_qpn: BTreeMap<QpnKey, u32>,
    by_sidr: BTreeMap<SidrKey, u32>,
    timers: BTreeSet<(Duration, u32)>,
    half_open: usize,
    memories: usize,
}

impl ConnectionTable {
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// The number of connections that peers opened and the caller has not decided on.
    pub(crate) fn half_open(&self) -> usize {
        self.half_open
    }

    /// The number of connections kept only to repeat an answer.
    pub(crate) fn memories(&self) -> usize {
        self.memories
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.connections.contains_key(&id)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&ConnectionRecord> {
        self.connections.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut ConnectionRecord> {
        self.connections.get_mut(&id)
    }

    pub(crate) fn with_remote(&self, key: RemoteIdKey) -> Option<u32> {
        self.by_remote.get(&key).copied()
    }

    pub(crate) fn with_qpn(&self, key: QpnKey) -> Option<u32> {
        self.by_qpn.get(&key).copied()
    }

    pub(crate) fn with_sidr(&self, key: SidrKey) -> Option<u32> {
        self.by_sidr.get(&key).copied()
    }

    /// Adds a connection under a free id.
    pub(crate) fn insert(&mut self, id: u32, connection: ConnectionRecord) {
        self.count(connection.place.state, 1);
        let before = self.connections.insert(id, connection);
        debug_assert!(before.is_none(), "the id is free");
    }

    /// Forgets a connection.
    pub(crate) fn remove(&mut self, id: u32) {
        self.unlink(id);
        if let Some(connection) = self.connections.remove(&id) {
            self.count(connection.place.state, -1);
        }
    }

    /// Changes state and deadline.
    pub(crate) fn enter(&mut self, id: u32, state: CmState, deadline: Option<Duration>) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let before = core::mem::replace(&mut connection.place.state, state);
        self.count(before, -1);
        self.count(state, 1);
        self.set_deadline(id, deadline);
    }

    pub(crate) fn set_deadline(&mut self, id: u32, deadline: Option<Duration>) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if let Some(before) = core::mem::replace(&mut connection.place.deadline, deadline) {
            self.timers.remove(&(before, id));
        }
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, id));
        }
    }

    /// Indexes the connection by the peer's id.
    pub(crate) fn link_remote(&mut self, id: u32, key: RemoteIdKey) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.place.remote_key = Some(key);
            self.by_remote.insert(key, id);
        }
    }

    /// Indexes the connection by the peer's queue pair.
    pub(crate) fn link_qpn(&mut self, id: u32, key: QpnKey) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.place.qpn_key = Some(key);
            self.by_qpn.insert(key, id);
        }
    }

    /// Indexes the request by the peer's request id.
    pub(crate) fn link_sidr(&mut self, id: u32, key: SidrKey) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.place.sidr_key = Some(key);
            self.by_sidr.insert(key, id);
        }
    }

    /// The peer's queue pair may have another connection from now on.
    pub(crate) fn unlink_qpn(&mut self, id: u32) {
        let key = self.connections.get_mut(&id).and_then(|connection| connection.place.qpn_key.take());
        if let Some(key) = key {
            remove_own(&mut self.by_qpn, key, id);
        }
    }

    /// Removes the connection from all indexes but that by our id, and its timer.
    pub(crate) fn unlink(&mut self, id: u32) {
        self.unlink_qpn(id);
        self.set_deadline(id, None);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if let Some(key) = connection.place.remote_key.take() {
            remove_own(&mut self.by_remote, key, id);
        }
        if let Some(key) = connection.place.sidr_key.take() {
            remove_own(&mut self.by_sidr, key, id);
        }
    }

    /// The earliest deadline.
    pub(crate) fn first_deadline(&self) -> Option<Duration> {
        self.timers.first().map(|(deadline, _)| *deadline)
    }

    /// Takes a connection whose deadline has come, and clears the deadline.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<u32> {
        let (_, id) = self.timers.first().copied().filter(|(deadline, _)| *deadline <= now)?;
        self.set_deadline(id, None);
        Some(id)
    }

    fn count(&mut self, state: CmState, change: isize) {
        if state.is_half_open() {
            self.half_open = self.half_open.saturating_add_signed(change);
        }
        if state.is_memory() {
            self.memories = self.memories.saturating_add_signed(change);
        }
    }
}

/// Removes an entry unless a younger connection has taken it over.
fn remove_own<K: Ord>(map: &mut BTreeMap<K, u32>, key: K, id: u32) {
    if map.get(&key) == Some(&id) {
        map.remove(&key);
    }
}
