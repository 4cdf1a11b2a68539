//! The changes of one table on their way to backups.

use std::sync::Arc;

use cluster::HashSlot;
use longarm_rpc::Status;
use replica::ReplicaRecord;

use crate::server::changes::ChangeLog;
use crate::server::durable::ClockPair;
use crate::server::replication::core::Replication;

/// Sends the changes of one table to backups, before they happen.
pub(crate) struct ReplicaLog {
    replication: Arc<Replication>,
    /// The number of the table in records.
    table: u16,
    /// The number of the change by another primary that is being applied.
    applying: Option<u64>,
}

impl ReplicaLog {
    pub(crate) fn new(replication: Arc<Replication>, table: u16) -> ReplicaLog {
        ReplicaLog { replication, table, applying: None }
    }
}

impl ChangeLog for ReplicaLog {
    fn put(&mut self, key: &[u8], value: &[u8], expires_ns: u64) -> Result<u64, Status> {
        if let Some(stamp) = self.applying {
            return Ok(stamp);
        }
        let (table, expires_unix_ns) = (self.table, ClockPair::now().at_unix(expires_ns));
        self.replication.change(key, |stamp| ReplicaRecord::Put { table, stamp, expires_unix_ns, key, value })
    }

    /// Also while another primary's change is applied: then a key of our own makes way.
    fn delete(&mut self, key: &[u8]) -> Result<(), Status> {
        let table = self.table;
        self.replication.change(key, |_| ReplicaRecord::Delete { table, key }).map(drop)
    }

    fn expire(&mut self, key: &[u8]) {
        // A backup finds the end of the time by itself.
        let _ = self.delete(key);
    }

    fn take_back(&mut self, key: &[u8], still: Option<(&[u8], u64, u64)>) {
        if self.applying.is_some() {
            // The stream ends with the refusal, and another one copies the key.
            return;
        }
        let table = self.table;
        let record = |_| match still {
            None => ReplicaRecord::Delete { table, key },
            Some((value, stamp, expires_ns)) => {
                let expires_unix_ns = ClockPair::now().at_unix(expires_ns);
                ReplicaRecord::Put { table, stamp, expires_unix_ns, key, value }
            }
        };
        // Refused only if this member is not the primary any more. Then its table does not count.
        let _ = self.replication.change(key, record);
    }

    fn apply(&mut self, stamp: Option<u64>) {
        self.applying = stamp;
    }

    fn may_evict(&self, key: &[u8]) -> bool {
        self.replication.sender().serves(HashSlot::of_key(key))
    }
}
