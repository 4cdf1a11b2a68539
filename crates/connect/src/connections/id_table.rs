//! All ids of the process: by key, by connection, and the listeners by port.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use cm::ConnId;

use super::id_state::{CmIdState, IdKey, IdPhase};
use crate::error::Error;
use crate::space::PortSpace;

/// The ids that were not destroyed.
#[derive(Debug, Default)]
pub(super) struct IdTable {
    ids: HashMap<IdKey, CmIdState>,
    by_conn: HashMap<ConnId, IdKey>,
    listeners: HashMap<(PortSpace, u16), Vec<IdKey>>,
    last_key: u64,
}

impl IdTable {
    pub(super) fn add(&mut self, id: CmIdState) -> IdKey {
        assert!(id.conn.is_none() && id.phase != IdPhase::Listening, "`join` and `start_listening` index that");
        self.last_key += 1;
        let key = IdKey(self.last_key);
        self.ids.insert(key, id);
        key
    }

    pub(super) fn get(&self, key: IdKey) -> Option<&CmIdState> {
        self.ids.get(&key)
    }

    /// The id, unless it was destroyed.
    pub(super) fn get_mut(&mut self, key: IdKey) -> Result<&mut CmIdState, Error> {
        self.ids.get_mut(&key).ok_or(Error::State("it was destroyed"))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (IdKey, &mut CmIdState)> {
        self.ids.iter_mut().map(|(key, id)| (*key, id))
    }

    /// Forgets an id.
    pub(super) fn remove(&mut self, key: IdKey) -> Option<CmIdState> {
        let id = self.ids.remove(&key)?;
        if let Some(conn) = id.conn {
            let owner = self.by_conn.remove(&conn);
            assert_eq!(owner, Some(key), "a connection belongs to one id");
        }
        if id.phase == IdPhase::Listening {
            let port = listening_port(&id);
            let keys = self.listeners.get_mut(&port).expect("`start_listening` has entered it");
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.listeners.remove(&port);
            }
        }
        Some(id)
    }

    /// Makes a connection the id's.
    pub(super) fn join(&mut self, conn: ConnId, key: IdKey) {
        let id = self.ids.get_mut(&key).expect("the caller has just used the id");
        let before = id.conn.replace(conn);
        assert!(before.is_none(), "an id has one connection");
        self.by_conn.insert(conn, key);
    }

    /// The id of a connection.
    pub(super) fn with_conn(&self, conn: ConnId) -> Option<IdKey> {
        self.by_conn.get(&conn).copied()
    }

    /// The id takes connect requests from now on.
    pub(super) fn start_listening(&mut self, key: IdKey, backlog: u32) {
        let id = self.ids.get_mut(&key).expect("the caller has just used the id");
        assert_eq!(id.phase, IdPhase::Bound, "only a bound id listens");
        id.phase = IdPhase::Listening;
        id.backlog = backlog;
        self.listeners.entry(listening_port(id)).or_default().push(key);
    }

    /// The listener for a service id and a local address: that with the most specific address.
    pub(super) fn listener(&self, service_id: u64, local: IpAddr) -> Option<(IdKey, &CmIdState)> {
        let (space, port) = cm::ip::space_and_port(service_id)?;
        let space = PortSpace::from_number(space.into())?;
        let keys = self.listeners.get(&(space, port)).into_iter().flatten();
        let fitting = keys.filter_map(|key| {
            let id = &self.ids[key];
            Some((fit(id.local?, local, id.v6_only)?, *key, id))
        });
        fitting.max_by_key(|(fit, key, _)| (*fit, Reverse(*key))).map(|(_, key, id)| (key, id))
    }
}

fn listening_port(id: &CmIdState) -> (PortSpace, u16) {
    (id.space, id.local.expect("a bound id has an address").port())
}

/// The fit of a listener's address: 2 if equal, 1 as a wildcard, none otherwise.
fn fit(listens: SocketAddr, wanted: IpAddr, v6_only: bool) -> Option<u8> {
    match (listens.ip(), wanted) {
        (own, wanted) if own == wanted => Some(2),
        (IpAddr::V4(own), IpAddr::V4(_)) if own.is_unspecified() => Some(1),
        (IpAddr::V6(own), IpAddr::V6(_)) if own.is_unspecified() => Some(1),
        (IpAddr::V6(own), IpAddr::V4(_)) if own.is_unspecified() && !v6_only => Some(1),
        _ => None,
    }
}
