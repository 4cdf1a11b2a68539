//! From records to tables.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use longarm_rpc::Status;
use parking_lot::Mutex;

use crate::server::changes::ChangeLog;
use crate::server::durable::DataError;
use crate::server::durable::record::DataRecord;
use crate::server::durable::wall::ClockPair;
use crate::server::served::ServedTable;

/// The state of restoring one table.
#[derive(Default)]
struct RestoredTable {
    /// Of the value that comes now.
    stamp: u64,
    /// Keys that made way for others, because the memory is smaller now or differently used.
    evicted: HashSet<Box<[u8]>>,
}

/// The log of a table that is restored.
struct RestoreLog(Arc<Mutex<RestoredTable>>);

impl ChangeLog for RestoreLog {
    fn put(&mut self, _: &[u8], _: &[u8], _: u64) -> Result<u64, Status> {
        Ok(self.0.lock().stamp)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Status> {
        self.0.lock().evicted.insert(key.into());
        Ok(())
    }

    fn expire(&mut self, _: &[u8]) {}

    fn take_back(&mut self, _: &[u8], _: Option<(&[u8], u64, u64)>) {}
}

/// Puts records into tables, in their order.
pub(crate) struct TableRestorer<'a> {
    tables: &'a [Arc<ServedTable>],
    restored: Vec<Arc<Mutex<RestoredTable>>>,
    /// Places of tables, by their number in records.
    by_id: HashMap<u16, usize>,
    clocks: ClockPair,
    /// Of a snapshot: it has all changes up to the first, and may have some of those up to the second.
    pub(crate) bounds: (u64, u64),
    /// The greatest stamp of a value.
    pub(crate) last_stamp: u64,
}

impl<'a> TableRestorer<'a> {
    pub(crate) fn new(tables: &'a [Arc<ServedTable>]) -> TableRestorer<'a> {
        let log = |table: &Arc<ServedTable>| {
            let restored = Arc::new(Mutex::new(RestoredTable::default()));
            table.writer.lock().begin_logging(Box::new(RestoreLog(Arc::clone(&restored))));
            restored
        };
        let restored = tables.iter().map(log).collect();
        TableRestorer {
            tables,
            restored,
            by_id: HashMap::new(),
            clocks: ClockPair::now(),
            bounds: (0, 0),
            last_stamp: 0,
        }
    }

    /// Keys of a table that the disk has, and the table has not.
    pub(crate) fn evicted(&self, table: usize) -> Vec<Box<[u8]>> {
        let (mut writer, restored) = (self.tables[table].writer.lock(), self.restored[table].lock());
        restored.evicted.iter().filter(|key| !writer.has(key)).cloned().collect()
    }

    /// Does what a record says. `number` is its own, or zero in a snapshot.
    pub(crate) fn apply(&mut self, number: u64, bytes: &[u8]) -> Result<(), DataError> {
        match DataRecord::parse(bytes)? {
            DataRecord::Begin { number } => self.bounds.0 = number,
            DataRecord::End { number } => self.bounds.1 = number,
            DataRecord::Table { id, name } => self.name(id, name)?,
            DataRecord::Delete { id, key } => self.delete(id, key)?,
            DataRecord::Put { id, expires_unix_ns, stamp, key, value } => {
                let stamp = if stamp == 0 { number } else { stamp };
                self.last_stamp = self.last_stamp.max(stamp);
                match self.clocks.at_boot(expires_unix_ns) {
                    // Its time was over while the server was away.
                    None => self.delete(id, key)?,
                    Some(expires_ns) => {
                        let table = self.table(id)?;
                        self.restored[table].lock().stamp = stamp;
                        let loaded = self.tables[table].writer.lock().load(key, value, expires_ns);
                        loaded.map_err(|status| self.refused(table, status.message()))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn name(&mut self, id: u16, name: &str) -> Result<(), DataError> {
        let Some(table) = self.tables.iter().position(|table| table.name == name) else {
            let words = format!("the directory has a table {name:?}, which the server has not: add it");
            return Err(DataError::Content(words));
        };
        self.by_id.insert(id, table);
        Ok(())
    }

    fn table(&self, id: u16) -> Result<usize, DataError> {
        let unknown = || DataError::Content(format!("a record is of a table with number {id}, which has no name"));
        self.by_id.get(&id).copied().ok_or_else(unknown)
    }

    fn delete(&self, id: u16, key: &[u8]) -> Result<(), DataError> {
        let table = self.table(id)?;
        let deleted = self.tables[table].writer.lock().unload(key);
        deleted.map_err(|status| self.refused(table, status.message()))
    }

    fn refused(&self, table: usize, why: &str) -> DataError {
        DataError::Content(format!("table {:?} cannot take what it had: {why}", self.tables[table].name))
    }
}
