//! The tables as a backup has them.

use std::ops::RangeInclusive;

use cluster::HashSlot;
use longarm_rpc::{Code, Status};
use replica::{KeySet, RecordSource, ReplicaRecord, ReplicaStore, StoreRefusal};

use crate::server::durable::ClockPair;
use crate::server::replication::core::Replication;
use crate::server::served::ServedTable;
use crate::server::table::Refused;

/// The tables of a server, for records of other primaries.
pub(super) struct BackupTables<'a> {
    pub(super) replication: &'a Replication,
}

impl BackupTables<'_> {
    fn table(&self, number: u16) -> Result<&ServedTable, StoreRefusal> {
        let table = self.replication.tables.get(usize::from(number)).map(|table| &**table);
        table.ok_or_else(|| StoreRefusal::Failed(format!("there is no table with number {number}")))
    }

    /// Asks whether the sender may change the share of a slot. The table is locked.
    fn admit(&self, source: RecordSource<'_>, slot: HashSlot) -> Result<(), StoreRefusal> {
        let mut sender = self.replication.sender();
        // Without a configuration nobody knows the shares.
        let share = sender.share_of(slot).ok_or(StoreRefusal::Later)?;
        if sender.admit(source, share) { Ok(()) } else { Err(StoreRefusal::Fenced) }
    }
}

impl ReplicaStore for BackupTables<'_> {
    fn put(&mut self, source: RecordSource<'_>, put: ReplicaRecord<'_>) -> Result<(), StoreRefusal> {
        let ReplicaRecord::Put { table, stamp, expires_unix_ns, key, value } = put else {
            return Err(StoreRefusal::Failed("the record is no PUT".into()));
        };
        let mut writer = self.table(table)?.writer.lock();
        self.admit(source, HashSlot::of_key(key))?;
        match ClockPair::now().at_boot(expires_unix_ns) {
            None => writer.apply_delete(key).map_err(|status| failed(&status)),
            Some(expires_ns) => writer.apply_put(key, value, expires_ns, stamp).map_err(|refused| match refused {
                Refused::Later => StoreRefusal::Later,
                Refused::Status(status) => failed(&status),
            }),
        }
    }

    fn delete(&mut self, source: RecordSource<'_>, table: u16, key: &[u8]) -> Result<(), StoreRefusal> {
        let mut writer = self.table(table)?.writer.lock();
        self.admit(source, HashSlot::of_key(key))?;
        writer.apply_delete(key).map_err(|status| failed(&status))
    }

    fn keys(&mut self, source: RecordSource<'_>, slots: RangeInclusive<u16>) -> Result<KeySet, StoreRefusal> {
        let first =
            HashSlot::new(*slots.start()).ok_or_else(|| StoreRefusal::Failed("there is no such slot".into()))?;
        let mut keys = KeySet::new();
        for (number, table) in self.replication.tables.iter().enumerate() {
            let writer = table.writer.lock();
            self.admit(source, first)?;
            writer.keys_of(&slots, |key| {
                keys.insert((number as u16, key.into()));
            });
        }
        Ok(keys)
    }
}

fn failed(status: &Status) -> StoreRefusal {
    // The member's own log has to catch up.
    if status.code() == Code::Unavailable { StoreRefusal::Later } else { StoreRefusal::Failed(status.message().into()) }
}
