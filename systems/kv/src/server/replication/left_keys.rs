//! Keys of slots in which a member has no part any more.

use cluster::{HashSlot, SLOTS};

use crate::server::replication::core::Replication;

/// Keys that are looked at together, with their table locked.
const AT_ONCE: usize = 256;

/// A walk over all tables for each configuration that takes slots from this member.
#[derive(Default)]
pub(super) struct LeftKeys {
    /// The epoch of the configuration that the walk is for.
    epoch: u64,
    /// The number of the table, and the place in it; `None` if nothing is to be done.
    at: Option<(usize, u64)>,
}

impl LeftKeys {
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Removes some keys. Returns whether there may be more.
    pub(super) fn drop_some(&mut self, replication: &Replication) -> bool {
        self.follow(replication);
        let Some((number, cursor)) = self.at else { return false };
        let Some(table) = replication.tables.get(number) else {
            self.at = None;
            return false;
        };
        // A part that comes back meanwhile brings a copy. So each key is asked for anew, under the lock that records of others take.
        let has_part = |slot: HashSlot| replication.sender().roles().has_part(slot);
        let dropped = table.writer.lock().drop_keys(cursor, AT_ONCE, |slot| !has_part(slot));
        self.at = match dropped {
            Ok(0) => Some((number + 1, 0)),
            Ok(cursor) => Some((number, cursor)),
            Err(status) => {
                log::error!("keys of slots that moved away stay in {}: {status}", table.name);
                Some((number + 1, 0))
            }
        };
        true
    }

    /// Begins anew when there is another configuration.
    fn follow(&mut self, replication: &Replication) {
        let sender = replication.sender();
        let roles = sender.roles();
        if roles.epoch() != self.epoch {
            self.epoch = roles.epoch();
            let lacks_some = (0..SLOTS).filter_map(HashSlot::new).any(|slot| !roles.has_part(slot));
            self.at = lacks_some.then_some((0, 0));
        }
    }
}
