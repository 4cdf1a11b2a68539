//! The changes of one table on their way to the log.

use std::sync::Arc;

use journal::{Journal, JournalError};
use longarm_rpc::{Executed, Status};

use crate::server::changes::ChangeLog;
use crate::server::durable::record::{delete_head, put_head};
use crate::server::durable::wall::ClockPair;

/// Appends the changes of one table to the log of all.
pub(crate) struct TableLog {
    pub(crate) journal: Arc<Journal>,
    /// Stands for the table in records.
    pub(crate) id: u16,
}

impl TableLog {
    /// The changes of another log that gives them their stamps: a value. Returns the record's number.
    pub(crate) fn put_stamped(
        &self,
        key: &[u8],
        value: &[u8],
        expires_unix_ns: u64,
        stamp: u64,
    ) -> Result<u64, JournalError> {
        self.journal.append(&[&put_head(self.id, expires_unix_ns, stamp, key), key, value])
    }

    /// The same: a key goes.
    pub(crate) fn delete_stamped(&self, key: &[u8]) -> Result<u64, JournalError> {
        self.journal.append(&[&delete_head(self.id), key])
    }
}

/// An expiry as the disk has it.
pub(crate) fn unix(expires_ns: u64) -> u64 {
    if expires_ns == 0 { 0 } else { ClockPair::now().at_unix(expires_ns) }
}

impl ChangeLog for TableLog {
    fn put(&mut self, key: &[u8], value: &[u8], expires_ns: u64) -> Result<u64, Status> {
        let head = put_head(self.id, unix(expires_ns), 0, key);
        self.journal.append(&[&head, key, value]).map_err(|error| refused(&error))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Status> {
        self.journal.append(&[&delete_head(self.id), key]).map(drop).map_err(|error| refused(&error))
    }

    fn expire(&mut self, key: &[u8]) {
        // Without the record, the key's expiry on disk says the same.
        let _ = self.journal.append(&[&delete_head(self.id), key]);
    }

    fn take_back(&mut self, key: &[u8], still: Option<(&[u8], u64, u64)>) {
        // It is refused only by a log that has failed, and then no answer leaves either.
        let _ = match still {
            Some((value, stamp, expires_ns)) => {
                let head = put_head(self.id, unix(expires_ns), stamp, key);
                self.journal.append_always(&[&head, key, value])
            }
            None => self.journal.append_always(&[&delete_head(self.id), key]),
        };
    }
}

/// The answer to a change that the log does not take.
pub(crate) fn refused(error: &JournalError) -> Status {
    // A client repeats neither by itself.
    let status = match error {
        JournalError::Full | JournalError::Behind(_) => Status::resource_exhausted(error.to_string()),
        _ => Status::data_loss(error.to_string()),
    };
    status.with_executed(Executed::No)
}

/// The answer to a change of which nobody knows whether it is on disk.
pub(crate) fn unknown(error: &JournalError) -> Status {
    Status::data_loss(error.to_string()).with_executed(Executed::Unknown)
}
