//! The copy of a share for a member that joins: some keys at a time, with their table locked.

use longarm_rpc::Status;
use replica::{CopyCursor, ReplicaRecord};

use crate::server::durable::ClockPair;
use crate::server::replication::core::Replication;

/// Bytes of records of one step, if a single value is not longer.
const STEP_BYTES: usize = 128 << 10;

/// A value that is copied.
pub(super) struct CopiedValue<'a> {
    pub(super) stamp: u64,
    /// In the server's clock; zero for never.
    pub(super) expires_ns: u64,
    pub(super) bytes: &'a [u8],
}

impl Replication {
    /// Does one step of a copy, if one is due. Returns whether there was one.
    pub(super) fn copy_step(&self) -> Result<bool, Status> {
        let Some(task) = self.sender().copy_due() else { return Ok(false) };
        let (number, mut records) = (task.cursor.table, Vec::new());
        let Some(table) = self.tables.get(usize::from(number)) else {
            self.sender().copied(&task, &[], None);
            return Ok(true);
        };
        let (slots, clocks) = (task.from..=task.to, ClockPair::now());
        // No change comes between the values and the stream.
        let mut writer = table.writer.lock();
        let at = writer.copy_from(task.cursor.at, &slots, |key, value| {
            let CopiedValue { stamp, expires_ns, bytes: value } = value;
            let expires_unix_ns = clocks.at_unix(expires_ns);
            ReplicaRecord::Put { table: number, stamp, expires_unix_ns, key, value }.append(&mut records);
            records.len() < STEP_BYTES
        })?;
        let next = match at {
            0 if usize::from(number) + 1 == self.tables.len() => None,
            0 => Some(CopyCursor { table: number + 1, at: 0 }),
            at => Some(CopyCursor { table: number, at }),
        };
        self.sender().copied(&task, &records, next);
        drop(writer);
        self.work.notify_all();
        Ok(true)
    }
}
