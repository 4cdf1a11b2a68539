//! The changes of one table on their way to backups, and to this member's own disk.

use std::sync::Arc;

use cluster::HashSlot;
use journal::JournalError;
use longarm_rpc::{Executed, Status};
use replica::ReplicaRecord;

use crate::server::changes::ChangeLog;
use crate::server::durable::{TableLog, refused, unix};
use crate::server::replication::core::Replication;

/// Sends the changes of one table to backups, before they happen.
pub(crate) struct ReplicaLog {
    replication: Arc<Replication>,
    /// The number of the table in records.
    table: u16,
    /// The log on disk, if this member has one. It takes each change first: it may be full, but no backup refuses anything.
    own: Option<TableLog>,
    /// The number of the change by another primary that is being applied.
    applying: Option<u64>,
}

impl ReplicaLog {
    pub(crate) fn new(replication: Arc<Replication>, table: u16, own: Option<TableLog>) -> ReplicaLog {
        ReplicaLog { replication, table, own, applying: None }
    }

    fn own(&self, log: impl FnOnce(&TableLog) -> Result<u64, JournalError>) -> Result<Option<u64>, Status> {
        self.own.as_ref().map(log).transpose().map_err(|error| match error {
            // It catches up: the sender of the change repeats it.
            JournalError::Behind(_) if self.applying.is_some() => {
                Status::unavailable(error.to_string()).with_executed(Executed::No)
            }
            error => refused(&error),
        })
    }
}

impl ChangeLog for ReplicaLog {
    fn put(&mut self, key: &[u8], value: &[u8], expires_ns: u64) -> Result<u64, Status> {
        let (table, expires_unix_ns) = (self.table, unix(expires_ns));
        let own = |stamp| self.own(|log| log.put_stamped(key, value, expires_unix_ns, stamp));
        if let Some(stamp) = self.applying {
            return own(stamp).map(|_| stamp);
        }
        self.replication.change(key, own, |stamp| ReplicaRecord::Put { table, stamp, expires_unix_ns, key, value })
    }

    /// Also while another primary's change is applied: then a key of our own makes way.
    fn delete(&mut self, key: &[u8]) -> Result<(), Status> {
        let (table, own) = (self.table, |_| self.own(|log| log.delete_stamped(key)));
        self.replication.change(key, own, |_| ReplicaRecord::Delete { table, key }).map(drop)
    }

    fn expire(&mut self, key: &[u8]) {
        // A backup finds the end of the time by itself.
        let _ = self.delete(key);
    }

    fn forget(&mut self, key: &[u8]) -> Result<(), Status> {
        self.own(|log| log.delete_stamped(key)).map(drop)
    }

    fn take_back(&mut self, key: &[u8], still: Option<(&[u8], u64, u64)>) {
        if let Some(own) = &mut self.own {
            own.take_back(key, still);
        }
        if self.applying.is_some() {
            // The stream ends with the refusal, and another one copies the key.
            return;
        }
        let table = self.table;
        let record = |_| match still {
            None => ReplicaRecord::Delete { table, key },
            Some((value, stamp, expires_ns)) => {
                ReplicaRecord::Put { table, stamp, expires_unix_ns: unix(expires_ns), key, value }
            }
        };
        // Refused only if this member is not the primary any more. Then its table does not count.
        let _ = self.replication.change(key, |_| Ok(None), record);
    }

    fn apply(&mut self, stamp: Option<u64>) {
        self.applying = stamp;
    }

    fn may_evict(&self, key: &[u8]) -> bool {
        self.replication.sender().serves(HashSlot::of_key(key))
    }
}
