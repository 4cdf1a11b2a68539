//! A table for callers in the server's own process, such as another front door. Their changes go through the same writer as
//! those of clients.

use std::sync::Arc;
use std::time::Duration;

use cluster::{HashSlot, ServingRight};
use journal::{FsyncRule, Journal};
use longarm_rpc::{Code, Status};
use parking_lot::MutexGuard;

use crate::clock::now_ns;
use crate::envelope::{ENVELOPE_BYTES, KvVersion};
use crate::error::KvError;
use crate::protocol::{DeleteReply, ExpireOutcome, PutExpiry, PutIf, PutReply};
use crate::server::durable::wait_for_disk;
use crate::server::placement::Placement;
use crate::server::replication::{
    MemberMessages, Replication, SlotEntry, SlotRefusal, UnknownChanges, wait_for_backups,
};
use crate::server::served::ServedTable;
use crate::server::table::{KeyHead, TableWriter, WhenFull};

/// The time between two attempts of a change that needs freed memory, or a key that a client has locked.
const PAUSE: Duration = Duration::from_millis(1);
/// Attempts of one change.
const ATTEMPTS: usize = 2000;
/// Looks at a slot that is being handed over: for eight milliseconds at most nobody changes it.
const HAND_OVER_ATTEMPTS: usize = 50;

/// A table of a server in this process. Clones are the same table.
///
/// ```no_run
/// use longarm_kv::{KvServer, PutExpiry, PutIf, TableOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = KvServer::builder().table("sessions", TableOptions::default()).bind("0.0.0.0:7480")?;
/// let table = server.local_table("sessions").ok_or("no such table")?;
/// let mut locked = table.lock();
/// locked.put(b"alice", b"tuesday", PutIf::Always, PutExpiry::Never)?;
/// let mut value = Vec::new();
/// locked.get_range(b"alice", 0, u64::MAX, &mut value)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LocalTable {
    table: Arc<ServedTable>,
    /// The log, if the table is kept on disk.
    journal: Option<Arc<Journal>>,
    placement: Placement,
}

/// A table that nobody else changes until this is dropped. Requests of clients wait meanwhile: hold it for microseconds.
/// Clients go on to read.
pub struct LockedTable<'a> {
    writer: MutexGuard<'a, TableWriter>,
    now_ns: u64,
    replication: Option<&'a Arc<Replication>>,
}

/// The outcome of a PUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalPut {
    /// The value is there.
    Stored {
        /// Its version.
        version: KvVersion,
        /// True if the key was absent.
        is_new: bool,
    },
    /// The key was in another state than the caller wanted: it has this version, or is absent.
    Conflict(Option<KvVersion>),
}

impl LocalTable {
    pub(crate) fn new(table: Arc<ServedTable>, journal: Option<Arc<Journal>>, placement: Placement) -> LocalTable {
        LocalTable { table, journal, placement }
    }

    /// The server's right to serve slots, if it is a member of a cluster. The table itself refuses no key: a caller asks
    /// before each operation.
    pub fn serving_right(&self) -> Option<&ServingRight> {
        self.placement.right()
    }

    /// True if other servers keep backups. Then the table has keys of other primaries as well, and operations on keys go
    /// between [`LockedTable::enter`] and [`SlotEntry::end`].
    pub fn has_backups(&self) -> bool {
        self.placement.replication().is_some()
    }

    /// Messages between the doors of this table at all servers of a cluster with backups; `None` in any other server. One door at a time has them.
    ///
    /// # Errors
    /// If the system gives no descriptor.
    pub fn messages(&self) -> std::io::Result<Option<MemberMessages>> {
        let Some(replication) = self.placement.replication() else { return Ok(None) };
        let number = replication.tables().iter().position(|table| Arc::ptr_eq(table, &self.table));
        number.map(|number| MemberMessages::open(replication, number as u16)).transpose()
    }

    /// Waits until everything up to this number is with all backups: that of a [`SlotEntry::end`], or zero. Answers leave then.
    ///
    /// # Errors
    /// If nobody here knows whether they have it.
    pub fn wait_for_backups(&self, number: u64) -> Result<(), UnknownChanges> {
        self.placement.replication().map_or(Ok(()), |replication| wait_for_backups(replication, number))
    }

    /// Waits until everything is on disk that anybody has changed by now, if the server acknowledges only such changes
    /// ([`FsyncRule::Always`](crate::FsyncRule::Always)). A caller that answers others does so before its answers leave. Where there are
    /// backups, [`wait_for_backups`](LocalTable::wait_for_backups) waits for the disks as well, and this for nothing.
    ///
    /// # Errors
    /// If the disk failed: then nobody knows which of the last changes will be there after a restart.
    pub fn wait_for_disk(&self) -> Result<(), KvError> {
        match &self.journal {
            Some(journal) if journal.fsync() == FsyncRule::Always && !self.has_backups() => Ok(wait_for_disk(journal)?),
            _ => Ok(()),
        }
    }

    /// The rule by which changes go to disk; `None` if the table is in memory only.
    pub fn fsync_rule(&self) -> Option<FsyncRule> {
        self.journal.as_ref().map(|journal| journal.fsync())
    }

    /// True if a write or a sync of the log failed: then the server takes no changes until it is started again.
    pub fn log_has_failed(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.figures().failed != 0)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// True if clients must prove that they have a secret.
    pub fn has_secret(&self) -> bool {
        self.table.options.secret.is_some()
    }

    /// The bound for keys and values in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.table.options.max_bytes
    }

    /// True if keys make way for others when the memory is full.
    pub fn evicts(&self) -> bool {
        self.table.options.when_full == WhenFull::Evict
    }

    /// Waits until no other thread changes the table, and keeps them from it.
    pub fn lock(&self) -> LockedTable<'_> {
        LockedTable { writer: self.table.writer.lock(), now_ns: now_ns(), replication: self.placement.replication() }
    }
}

impl std::fmt::Debug for LocalTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalTable({})", self.name())
    }
}

impl LockedTable<'_> {
    /// The server's clock: nanoseconds since the machine booted, when the table was locked.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Begins operations on keys of a slot, or such that look at keys of all slots. `None` if there are no backups, so that
    /// nothing has to be begun. While another server takes the slot over, `changes` wait; others take their turn meanwhile.
    ///
    /// # Errors
    /// See [`SlotRefusal`].
    pub fn enter(&mut self, slot: Option<HashSlot>, changes: bool) -> Result<Option<SlotEntry>, SlotRefusal> {
        let Some(replication) = self.replication else { return Ok(None) };
        for _ in 0..HAND_OVER_ATTEMPTS {
            match SlotEntry::begin(replication, slot, changes) {
                Err(SlotRefusal::HandingOver) => {
                    MutexGuard::unlocked(&mut self.writer, || std::thread::sleep(PAUSE));
                    self.now_ns = now_ns();
                }
                done => return done.map(Some),
            }
        }
        Err(SlotRefusal::HandingOver)
    }

    /// Keys, and those that have expired but are not yet removed. With backups: also those of other primaries.
    pub fn keys(&self) -> u64 {
        self.writer.keys()
    }

    /// Keys that expire.
    pub fn expiring_keys(&self) -> u64 {
        self.writer.expiring_keys()
    }

    /// Bytes of memory in use, and of the server's notes about keys.
    pub fn used_bytes(&self) -> u64 {
        self.writer.used_bytes()
    }

    /// Fetches what operations on these keys will read first. It changes nothing but the time that they take: a caller with several
    /// keys tells all of them before it begins with the first.
    pub fn look_ahead<'k>(&self, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        self.writer.look_ahead(keys);
    }

    /// The state of a key; `None` if it is absent.
    ///
    /// # Errors
    /// If the table is broken.
    pub fn head(&mut self, key: &[u8]) -> Result<Option<KeyHead>, KvError> {
        Ok(self.writer.key_head(key, self.now_ns)?)
    }

    /// Appends a value to `out`, and before it the bytes that `head` writes when it is told the value's length: sixteen at most.
    ///
    /// # Errors
    /// If the table is broken.
    pub fn get(
        &mut self,
        key: &[u8],
        out: &mut Vec<u8>,
        head: impl FnOnce(u64, &mut [u8; ENVELOPE_BYTES]) -> usize,
    ) -> Result<Option<KeyHead>, KvError> {
        let start = out.len();
        let Some(found) = self.writer.get_whole(key, self.now_ns, out)? else { return Ok(None) };
        let mut bytes = [0; ENVELOPE_BYTES];
        let head_bytes = head(found.value_bytes, &mut bytes).min(ENVELOPE_BYTES);
        // The value's envelope makes room for the bytes before it.
        out[start..start + head_bytes].copy_from_slice(&bytes[..head_bytes]);
        out.copy_within(start + ENVELOPE_BYTES.., start + head_bytes);
        out.truncate(out.len() - (ENVELOPE_BYTES - head_bytes));
        Ok(Some(found))
    }

    /// Appends up to `len_bytes` of a value to `out`, from the byte `from` on. Returns false if the key is absent.
    ///
    /// # Errors
    /// If the table is broken.
    pub fn get_range(&mut self, key: &[u8], from: u64, len_bytes: u64, out: &mut Vec<u8>) -> Result<bool, KvError> {
        Ok(self.writer.get_range(key, from, len_bytes, self.now_ns, out)?)
    }

    /// Puts a value. If freed memory is not yet free, or a client has locked the key, the call waits; others take their turn
    /// meanwhile.
    ///
    /// # Errors
    /// If key or value is too long or the memory is full; [`KvError::Server`] if waiting for seconds was in vain.
    pub fn put(&mut self, key: &[u8], value: &[u8], when: PutIf, expiry: PutExpiry) -> Result<LocalPut, KvError> {
        self.attempt(|writer, now_ns| match writer.put(key, value, when, expiry, now_ns)? {
            PutReply::Stored { version, is_new } => Ok(Some(LocalPut::Stored { version, is_new })),
            PutReply::Conflict(version) => Ok(Some(LocalPut::Conflict(version))),
            PutReply::Later => Ok(None),
        })
    }

    /// Deletes a key. Returns true if it was there.
    ///
    /// # Errors
    /// See [`LockedTable::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, KvError> {
        self.attempt(|writer, now_ns| Ok(Some(writer.delete(key, None, now_ns)? == DeleteReply::Deleted)))
    }

    /// Gives a key another expiry. Returns false if it is absent.
    ///
    /// # Errors
    /// See [`LockedTable::put`].
    pub fn expire(&mut self, key: &[u8], expiry: PutExpiry) -> Result<bool, KvError> {
        self.attempt(|writer, now_ns| match writer.expiry(key, Some(expiry), now_ns)? {
            ExpireOutcome::Absent => Ok(Some(false)),
            ExpireOutcome::Expires(_) => Ok(Some(true)),
            ExpireOutcome::Later => Ok(None),
        })
    }

    /// Appends keys to `out`, each with its length in four bytes (little-endian) before it, and tells the cursor of the rest:
    /// zero at the end. `cursor` is zero at the beginning; `count` is about the number of keys to look at.
    pub fn scan(&mut self, cursor: u64, count: usize, out: &mut Vec<u8>) -> u64 {
        self.writer.scan(cursor, count, b"", self.now_ns, out)
    }

    /// Lets other threads take their turn, and looks at the clock again.
    pub fn yield_now(&mut self) {
        MutexGuard::bump(&mut self.writer);
        self.now_ns = now_ns();
    }

    fn attempt<T>(
        &mut self,
        mut change: impl FnMut(&mut TableWriter, u64) -> Result<Option<T>, Status>,
    ) -> Result<T, KvError> {
        for _ in 0..ATTEMPTS {
            match change(&mut self.writer, self.now_ns) {
                Ok(Some(done)) => return Ok(done),
                Err(status) if status.code() != Code::Unavailable => return Err(status.into()),
                Ok(None) | Err(_) => MutexGuard::unlocked(&mut self.writer, || std::thread::sleep(PAUSE)),
            }
            self.now_ns = now_ns();
        }
        Err(Status::unavailable("freed memory is not yet free, or a client has locked the key").into())
    }
}
