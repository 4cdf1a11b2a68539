//! The state that all clients of a door share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use longarm_kv::{LocalTable, LockedTable, MemberMessages};

use crate::client::RespClient;
use crate::clock::DoorClock;
use crate::nodes::DoorNodes;
use crate::users::Users;

/// Subscribers of a channel or of a pattern, by name.
pub(crate) type Subscribers = BTreeMap<Vec<u8>, BTreeSet<u64>>;

/// The state that all clients share.
pub(crate) struct Door {
    /// All clients but the one whose request is executed.
    pub(crate) clients: HashMap<u64, Box<RespClient>>,
    /// Clients with replies that another's request has made, or that it has ended.
    pub(crate) touched: Vec<u64>,
    pub(crate) channels: Subscribers,
    pub(crate) patterns: Subscribers,
    pub(crate) shard_channels: Subscribers,
    /// Clients that watch a key.
    pub(crate) watchers: HashMap<Vec<u8>, BTreeSet<u64>>,
    pub(crate) clock: DoorClock,
    /// When the door opened, in the table's clock.
    pub(crate) since_ns: u64,
    pub(crate) users: Users,
    /// The cluster, if clients shall see one.
    pub(crate) nodes: Option<DoorNodes>,
    /// To and from the doors of other members.
    pub(crate) messages: Option<MemberMessages>,
    pub(crate) settings: DoorSettings,
    pub(crate) counts: DoorCounts,
    pub(crate) table: LocalTable,
    /// The random name of this door, 40 hexadecimal digits.
    pub(crate) run_id: String,
}

/// Settings that commands ask for.
#[derive(Clone, Debug)]
pub(crate) struct DoorSettings {
    pub(crate) address: SocketAddr,
    pub(crate) max_bytes: u64,
    pub(crate) evicts: bool,
    pub(crate) max_clients: usize,
    pub(crate) table: String,
}

/// Counts since the door opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorCounts {
    /// Connections now.
    pub clients: u64,
    /// Connections that the door accepted.
    pub connections: u64,
    /// Connections that it refused: there were too many.
    pub refused: u64,
    /// Commands that it executed.
    pub commands: u64,
    /// Commands that it refused.
    pub errors: u64,
    /// Connections that it ended because they sent no requests but other bytes.
    pub broken: u64,
    /// Connections that it ended because they did not take their replies.
    pub slow: u64,
    /// Messages of channels that were lost on their way between this door and those of other members.
    pub lost_messages: u64,
}

impl Door {
    /// A key was changed: its watchers' transactions will not happen.
    pub(crate) fn changed(&mut self, key: &[u8], by: &mut RespClient) {
        if self.watchers.is_empty() {
            return;
        }
        for id in self.watchers.get(key).into_iter().flatten() {
            match self.clients.get_mut(id) {
                Some(client) => client.is_dirty = true,
                None if by.id == *id => by.is_dirty = true,
                None => {}
            }
        }
    }

    /// Forgets the keys that a client watches.
    pub(crate) fn unwatch(&mut self, client: &mut RespClient) {
        client.is_dirty = false;
        for watched in client.watched.drain(..) {
            remove(&mut self.watchers, &watched.key, client.id);
        }
    }

    /// Forgets all of a client that goes away.
    pub(crate) fn forget(&mut self, client: &mut RespClient) {
        self.unwatch(client);
        let id = client.id;
        let all = [
            (&mut self.channels, &mut client.channels),
            (&mut self.patterns, &mut client.patterns),
            (&mut self.shard_channels, &mut client.shard_channels),
        ];
        for (subscribers, names) in all {
            for name in std::mem::take(names) {
                if let Some(ids) = subscribers.get_mut(&name) {
                    ids.remove(&id);
                    if ids.is_empty() {
                        subscribers.remove(&name);
                    }
                }
            }
        }
    }
}

fn remove(map: &mut HashMap<Vec<u8>, BTreeSet<u64>>, name: &[u8], id: u64) {
    if let Some(ids) = map.get_mut(name) {
        ids.remove(&id);
        if ids.is_empty() {
            map.remove(name);
        }
    }
}

/// A request, and everything that its command needs.
pub(crate) struct RespCall<'a, 'table> {
    pub(crate) arguments: &'a [&'a [u8]],
    pub(crate) client: &'a mut RespClient,
    pub(crate) door: &'a mut Door,
    pub(crate) table: &'a mut LockedTable<'table>,
    /// Nobody else may come between.
    pub(crate) is_in_transaction: bool,
}
