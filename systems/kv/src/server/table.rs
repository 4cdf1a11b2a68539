//! One table as the server changes it. No connection, no thread: time comes from the caller.

mod local;

use std::collections::BTreeSet;

use longarm_rpc::Status;
use remote::{MAX_KEY_BYTES, OwnerError, PutOutcome};

use crate::envelope::{ENVELOPE_BYTES, Envelope, KvVersion};
use crate::protocol::{DeleteReply, ExpireOutcome, FoundValue, PutExpiry, PutIf, PutReply};
use crate::server::changes::ChangeLog;
use crate::server::directory::KeyDirectory;
use crate::server::figures::{TableCounts, count};
use crate::server::layout::OwnedTable;
use crate::server::locking::{is_locked, locked};
use crate::server::writers::WriterRoster;
use crate::surroundings::piece_bytes;

pub use local::KeyHead;

/// The longest value in bytes: 512 MiB, as in Redis.
const LONGEST_VALUE: usize = 512 << 20;
/// Keys among which an eviction chooses.
const SAMPLES: usize = 8;
/// Expired keys that one operation removes beside its own work.
const EXPIRES_AT_ONCE: usize = 4;
/// Keys that make way for one at most.
const EVICTS_AT_ONCE: usize = 4096;
/// Choices of a key to evict, before there is none but the one that needs the room.
const CHOICES: usize = 8;
/// Bits of a nanosecond clock that a tick of the notes leaves out: a tick has 17 ms.
const TICK_BITS: u32 = 24;

/// The rule when the memory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Keys that were not used for long make way: sampled LRU.
    #[default]
    Evict,
    /// New keys and longer values are refused.
    Refuse,
}

/// The writer of one table.
pub(crate) struct TableWriter {
    pub(super) owner: Box<dyn OwnedTable>,
    pub(super) directory: KeyDirectory,
    /// Expiry and tag of each key that expires.
    expiries: BTreeSet<(u64, u64)>,
    stamp: u64,
    limit_bytes: u64,
    when_full: WhenFull,
    random: fastrand::Rng,
    value: Vec<u8>,
    image: Vec<u8>,
    /// Takes each change before it happens, if the table is kept on disk.
    pub(super) log: Option<Box<dyn ChangeLog>>,
    /// Clients that PUT alone, if the table allows it.
    pub(super) writers: Option<WriterRoster>,
    /// Operations of the server that have the lock of the present key.
    pub(super) lock_depth: u32,
    pub(crate) counts: std::sync::Arc<TableCounts>,
}

/// The reason why a change has not happened, though nothing is wrong with it.
pub(crate) enum Refused {
    Later,
    Status(Status),
}

impl TableWriter {
    pub(crate) fn new(owner: Box<dyn OwnedTable>, limit_bytes: u64, when_full: WhenFull, random: u64) -> TableWriter {
        let mut random = fastrand::Rng::with_seed(random);
        TableWriter {
            owner,
            directory: KeyDirectory::new(random.u64(..)),
            expiries: BTreeSet::new(),
            // Stamps of another life of the server are others.
            stamp: random.u64(..),
            limit_bytes,
            when_full,
            random,
            value: Vec::new(),
            image: Vec::new(),
            log: None,
            writers: None,
            lock_depth: 0,
            counts: std::sync::Arc::default(),
        }
    }

    pub(crate) fn tag_seed(&self) -> u64 {
        self.directory.seed()
    }

    pub(crate) fn keys(&self) -> u64 {
        self.directory.len() as u64
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.owner.used_bytes() + self.directory.bytes()
    }

    /// Tells the time, and removes some keys that have expired. Returns true if more of them are waiting.
    pub(crate) fn set_now(&mut self, now_ns: u64) -> bool {
        self.owner.set_now(now_ns);
        for _ in 0..EXPIRES_AT_ONCE {
            match self.expiries.first().copied() {
                Some((expires_ns, tag)) if expires_ns <= now_ns => self.expire(expires_ns, tag, now_ns),
                _ => return false,
            }
        }
        self.expiries.first().is_some_and(|(expires_ns, _)| *expires_ns <= now_ns)
    }

    fn expire(&mut self, expires_ns: u64, tag: u64, now_ns: u64) {
        let key = self.directory.find_expired(tag, now_ns).map(|note| note.key.clone());
        if let Some(key) = key
            && self.remove_expired(&key).is_ok()
        {
            count(&self.counts.expired);
        }
        self.expiries.remove(&(expires_ns, tag));
    }

    /// Removes a key that has expired but is still there.
    fn expire_key(&mut self, key: &[u8], now_ns: u64) -> Result<(), Status> {
        if self.directory.find(key).is_some_and(|note| is_due(note.expires_ns, now_ns)) {
            self.remove_expired(key)?;
            count(&self.counts.expired);
        }
        Ok(())
    }

    /// Appends a [piece](piece_bytes) of a value to `out`, from `from` on.
    pub(crate) fn get(
        &mut self,
        key: &[u8],
        from: u64,
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<FoundValue>, Status> {
        self.lock_key(key, now_ns)?;
        let done = self.get_locked(key, from, now_ns, out);
        self.unlock_key(key);
        done
    }

    fn get_locked(
        &mut self,
        key: &[u8],
        from: u64,
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<FoundValue>, Status> {
        self.set_now(now_ns);
        self.expire_key(key, now_ns)?;
        count(&self.counts.gets);
        let Some((version, envelope, value_bytes)) = self.head(key)? else {
            count(&self.counts.misses);
            return Ok(None);
        };
        if from > value_bytes {
            return Err(Status::out_of_range(format!("byte {from} of a value of {value_bytes}")));
        }
        self.owner
            .get_part(key, ENVELOPE_BYTES as u64 + from, piece_bytes() as u64, out)
            .map_err(|error| status_of(&error))?;
        if let Some(note) = self.directory.find(key) {
            note.used = tick(now_ns);
        }
        Ok(Some(FoundValue { version, value_bytes, expires_ns: envelope.expires_ns }))
    }

    /// Version, envelope and length of a key's value.
    pub(super) fn head(&mut self, key: &[u8]) -> Result<Option<(KvVersion, Envelope, u64)>, Status> {
        self.value.clear();
        let head = self.owner.get_part(key, 0, ENVELOPE_BYTES as u64, &mut self.value);
        let Some((header, stored_bytes)) = head.map_err(|error| status_of(&error))? else { return Ok(None) };
        let (envelope, _) = Envelope::split(&self.value).ok_or_else(broken)?;
        Ok(Some((KvVersion::new(envelope.stamp, header), envelope, stored_bytes - ENVELOPE_BYTES as u64)))
    }

    /// Refuses a key and a value that the table never takes.
    pub(crate) fn check_lengths(&self, key: &[u8], value_bytes: u64) -> Result<(), Status> {
        let value_bytes = usize::try_from(value_bytes).unwrap_or(usize::MAX);
        let needed = value_bytes.saturating_add(key.len()) as u64;
        if key.len() > MAX_KEY_BYTES {
            return Err(Status::invalid_argument(format!(
                "a key has at most {MAX_KEY_BYTES} bytes, not {}",
                key.len()
            )));
        }
        if value_bytes > LONGEST_VALUE {
            return Err(Status::invalid_argument(format!(
                "a value has at most {LONGEST_VALUE} bytes, not {value_bytes}"
            )));
        }
        if needed > self.limit_bytes / 2 {
            let words =
                format!("key and value have {needed} bytes, more than half of the table's {}", self.limit_bytes);
            return Err(Status::invalid_argument(words));
        }
        Ok(())
    }

    /// Puts a value. `stored` is it with room for an envelope before it.
    pub(crate) fn put_stored(
        &mut self,
        key: &[u8],
        stored: &mut [u8],
        condition: PutIf,
        expiry: PutExpiry,
        now_ns: u64,
    ) -> Result<PutReply, Status> {
        self.lock_key(key, now_ns)?;
        let done = self.put_stored_locked(key, stored, condition, expiry, now_ns);
        self.unlock_key(key);
        done
    }

    fn put_stored_locked(
        &mut self,
        key: &[u8],
        stored: &mut [u8],
        condition: PutIf,
        expiry: PutExpiry,
        now_ns: u64,
    ) -> Result<PutReply, Status> {
        self.check_lengths(key, (stored.len() - ENVELOPE_BYTES) as u64)?;
        self.set_now(now_ns);
        let mut before = self.directory.find(key).map(|note| note.expires_ns);
        if before.is_some_and(|expires_ns| is_due(expires_ns, now_ns)) {
            self.expire_key(key, now_ns)?;
            before = None;
        }
        let is_met = match condition {
            PutIf::Always => true,
            PutIf::Absent => before.is_none(),
            PutIf::Present => before.is_some(),
            PutIf::Version(wanted) => self.head(key)?.is_some_and(|(version, ..)| version == wanted),
        };
        if !is_met {
            count(&self.counts.conflicts);
            return Ok(PutReply::Conflict(self.head(key)?.map(|(version, ..)| version)));
        }
        let expires_ns = match expiry {
            PutExpiry::Never => 0,
            PutExpiry::Keep => before.unwrap_or(0),
            PutExpiry::AfterNs(ns) => now_ns.saturating_add(ns).max(1),
        };
        match self.store(key, stored, expires_ns, now_ns) {
            Ok((version, is_new)) => Ok(PutReply::Stored { version, is_new }),
            Err(Refused::Later) => Ok(PutReply::Later),
            Err(Refused::Status(status)) => Err(status),
        }
    }

    /// Puts a value that stands alone.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        condition: PutIf,
        expiry: PutExpiry,
        now_ns: u64,
    ) -> Result<PutReply, Status> {
        let mut stored = std::mem::take(&mut self.image);
        stored.clear();
        stored.resize(ENVELOPE_BYTES, 0);
        stored.extend_from_slice(value);
        let done = self.put_stored(key, &mut stored, condition, expiry, now_ns);
        self.image = stored;
        done
    }

    /// Deletes a key, if it has this version or the version does not matter.
    pub(crate) fn delete(&mut self, key: &[u8], wanted: Option<KvVersion>, now_ns: u64) -> Result<DeleteReply, Status> {
        self.lock_key(key, now_ns)?;
        let done = self.delete_locked(key, wanted, now_ns);
        self.unlock_key(key);
        done
    }

    fn delete_locked(&mut self, key: &[u8], wanted: Option<KvVersion>, now_ns: u64) -> Result<DeleteReply, Status> {
        self.set_now(now_ns);
        self.expire_key(key, now_ns)?;
        match (self.head(key)?, wanted) {
            (None, _) => Ok(DeleteReply::Absent),
            (Some((version, ..)), Some(wanted)) if version != wanted => {
                count(&self.counts.conflicts);
                Ok(DeleteReply::Conflict(version))
            }
            _ => {
                self.remove(key)?;
                count(&self.counts.deletes);
                Ok(DeleteReply::Deleted)
            }
        }
    }

    /// Adds to a number that is kept as decimal digits; an absent key is zero. `None`: freed memory is not yet free.
    pub(crate) fn add(&mut self, key: &[u8], add: i64, now_ns: u64) -> Result<Option<i64>, Status> {
        self.lock_key(key, now_ns)?;
        let done = self.add_locked(key, add, now_ns);
        self.unlock_key(key);
        done
    }

    fn add_locked(&mut self, key: &[u8], add: i64, now_ns: u64) -> Result<Option<i64>, Status> {
        let mut digits = Vec::new();
        let before =
            match self.get(key, 0, now_ns, &mut digits)? {
                None => 0,
                Some(_) => std::str::from_utf8(&digits).ok().and_then(|digits| digits.parse::<i64>().ok()).ok_or_else(
                    || Status::failed_precondition("the value is no whole number of 64 bits in decimal digits"),
                )?,
            };
        let sum = before
            .checked_add(add)
            .ok_or_else(|| Status::failed_precondition(format!("{before} and {add} are more than 64 bits can hold")))?;
        let stored = self.put(key, sum.to_string().as_bytes(), PutIf::Always, PutExpiry::Keep, now_ns)?;
        Ok(matches!(stored, PutReply::Stored { .. }).then_some(sum))
    }

    /// Tells the expiry of a key, after it was changed if that is asked.
    pub(crate) fn expiry(
        &mut self,
        key: &[u8],
        change: Option<PutExpiry>,
        now_ns: u64,
    ) -> Result<ExpireOutcome, Status> {
        self.lock_key(key, now_ns)?;
        let done = self.expiry_locked(key, change, now_ns);
        self.unlock_key(key);
        done
    }

    fn expiry_locked(&mut self, key: &[u8], change: Option<PutExpiry>, now_ns: u64) -> Result<ExpireOutcome, Status> {
        self.set_now(now_ns);
        self.expire_key(key, now_ns)?;
        let Some((_, envelope, value_bytes)) = self.head(key)? else { return Ok(ExpireOutcome::Absent) };
        let Some(change) = change.filter(|change| *change != PutExpiry::Keep) else {
            return Ok(ExpireOutcome::Expires(envelope.expires_ns));
        };
        let mut stored = Vec::new();
        let all = value_bytes + ENVELOPE_BYTES as u64;
        self.owner.get_part(key, 0, all, &mut stored).map_err(|error| status_of(&error))?;
        match self.put_stored(key, &mut stored, PutIf::Always, change, now_ns)? {
            PutReply::Stored { .. } => {
                let expires_ns = self.directory.find(key).map_or(0, |note| note.expires_ns);
                Ok(ExpireOutcome::Expires(expires_ns))
            }
            _ => Ok(ExpireOutcome::Later),
        }
    }

    /// Appends keys with that prefix to `out`, each behind its length. Returns the cursor of the rest; zero at the end.
    pub(crate) fn scan(&self, cursor: u64, count: usize, prefix: &[u8], now_ns: u64, out: &mut Vec<u8>) -> u64 {
        let longest = out.len() + piece_bytes();
        self.directory.scan(cursor, count, |note| {
            if note.key.starts_with(prefix) && (note.expires_ns == 0 || note.expires_ns > now_ns) {
                out.extend_from_slice(&(note.key.len() as u32).to_le_bytes());
                out.extend_from_slice(&note.key);
            }
            out.len() < longest
        })
    }

    /// Takes a client's word that keys with these tags were used.
    pub(crate) fn touch(&mut self, tags: impl Iterator<Item = u64>, now_ns: u64) {
        for tag in tags {
            if let Some(note) = self.directory.find_tag(tag) {
                note.used = tick(now_ns);
            }
        }
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Status> {
        if let Some(log) = &mut self.log {
            log.delete(key)?;
        }
        self.erase(key).inspect_err(|_| self.take_back(key))
    }

    fn remove_expired(&mut self, key: &[u8]) -> Result<(), Status> {
        self.erase(key)?;
        if let Some(log) = &mut self.log {
            log.expire(key);
        }
        Ok(())
    }

    pub(super) fn erase(&mut self, key: &[u8]) -> Result<(), Status> {
        self.owner.delete(key).map_err(|error| status_of(&error))?;
        self.forget(key);
        Ok(())
    }

    /// Removes the notes about a key.
    pub(super) fn forget(&mut self, key: &[u8]) {
        if let Some(note) = self.directory.remove(key)
            && note.expires_ns != 0
        {
            self.expiries.remove(&(note.expires_ns, note.tag));
        }
    }

    /// Stores a value whatever was there, and evicts others if it has to.
    pub(super) fn store(
        &mut self,
        key: &[u8],
        stored: &mut [u8],
        expires_ns: u64,
        now_ns: u64,
    ) -> Result<(KvVersion, bool), Refused> {
        let needed = stored.len() as u64 + key.len() as u64;
        // The length of the value before matters only where the new one may not fit beside it.
        if self.used_bytes() + needed > self.limit_bytes {
            let before = self.head(key).map_err(Refused::Status)?;
            let before = before.map_or(0, |(.., value_bytes)| key.len() as u64 + ENVELOPE_BYTES as u64 + value_bytes);
            self.make_room(needed.saturating_sub(before), key, now_ns)?;
        }
        self.stamp = match &mut self.log {
            None => self.stamp.wrapping_add(1),
            Some(log) => log.put(key, &stored[ENVELOPE_BYTES..], expires_ns).map_err(Refused::Status)?,
        };
        let envelope = Envelope { expires_ns, stamp: self.stamp };
        stored[..ENVELOPE_BYTES].copy_from_slice(&envelope.to_bytes());
        self.place(key, stored, expires_ns, now_ns).inspect_err(|_| self.take_back(key))
    }

    /// Puts a value with its envelope into the table.
    fn place(&mut self, key: &[u8], stored: &[u8], expires_ns: u64, now_ns: u64) -> Result<(KvVersion, bool), Refused> {
        for _ in 0..EVICTS_AT_ONCE {
            match self.owner.put(key, stored) {
                Ok(outcome) => {
                    self.note(key, expires_ns, now_ns);
                    count(&self.counts.puts);
                    // A longer index needs memory, too.
                    let _ = self.make_room(u64::from(self.when_full == WhenFull::Evict), key, now_ns);
                    let is_new = matches!(outcome, PutOutcome::Inserted(_));
                    return Ok((KvVersion::new(self.stamp, outcome.header()), is_new));
                }
                // Evicting more does not help: what was freed waits until no reader can hold its place.
                Err(OwnerError::NoRoom(room)) if room.waiting_bytes >= room.wanted_bytes => return Err(Refused::Later),
                Err(OwnerError::NoRoom(_) | OwnerError::Full(_)) => self.evict(key, now_ns)?,
                Err(error) => return Err(Refused::Status(status_of(&error))),
            }
        }
        count(&self.counts.refused_full);
        Err(Refused::Status(full(self.limit_bytes)))
    }

    /// Tells the log that the key is as it was, though it was told of a change.
    pub(super) fn take_back(&mut self, key: &[u8]) {
        let Some(mut log) = self.log.take() else { return };
        let (mut stored, still) = (Vec::new(), self.head(key).ok().flatten());
        let read = still.map(|(_, envelope, value_bytes)| {
            (envelope, self.owner.get_part(key, ENVELOPE_BYTES as u64, value_bytes, &mut stored).is_ok())
        });
        log.take_back(
            key,
            read.filter(|(_, is_read)| *is_read)
                .map(|(envelope, _)| (&stored[..], envelope.stamp, envelope.expires_ns)),
        );
        self.log = Some(log);
    }

    /// Evicts until so many bytes more are within the bound.
    fn make_room(&mut self, grows_by: u64, key: &[u8], now_ns: u64) -> Result<(), Refused> {
        for _ in 0..EVICTS_AT_ONCE {
            if grows_by == 0 || self.used_bytes() + grows_by <= self.limit_bytes {
                return Ok(());
            }
            self.evict(key, now_ns)?;
        }
        Ok(())
    }

    /// Removes a key that was not used for long, but not this one.
    fn evict(&mut self, key: &[u8], now_ns: u64) -> Result<(), Refused> {
        for _ in 0..CHOICES {
            let Some(oldest) = self.choose_victim(key, now_ns) else {
                count(&self.counts.refused_full);
                return Err(Refused::Status(full(self.limit_bytes)));
            };
            match self.remove(&oldest) {
                // A client is just changing it. Another one goes.
                Err(status) if is_locked(&status) => {}
                Err(status) => return Err(Refused::Status(status)),
                Ok(()) => {
                    count(&self.counts.evicted);
                    return Ok(());
                }
            }
        }
        Err(Refused::Later)
    }

    /// A key that was not used for long, and is not this one.
    fn choose_victim(&mut self, key: &[u8], now_ns: u64) -> Option<Box<[u8]>> {
        if self.when_full == WhenFull::Refuse {
            return None;
        }
        let (directory, random) = (&self.directory, &mut self.random);
        let mut chosen = (0..CHOICES).map_while(|_| directory.sample_oldest(tick(now_ns), SAMPLES, random));
        let may_go = |other: &[u8]| other != key && self.log.as_ref().is_none_or(|log| log.may_evict(other));
        chosen.find(|note| may_go(&note.key)).map(|note| note.key.clone())
    }

    /// Notes that a key has a value now.
    fn note(&mut self, key: &[u8], expires_ns: u64, now_ns: u64) {
        let (tag, before) = match self.directory.find(key) {
            Some(note) => {
                note.used = tick(now_ns);
                (note.tag, std::mem::replace(&mut note.expires_ns, expires_ns))
            }
            None => (self.directory.add(key, expires_ns, tick(now_ns)), 0),
        };
        if before == expires_ns {
            return;
        }
        if before != 0 {
            self.expiries.remove(&(before, tag));
        }
        if expires_ns != 0 {
            self.expiries.insert((expires_ns, tag));
        }
    }
}

fn is_due(expires_ns: u64, now_ns: u64) -> bool {
    expires_ns != 0 && expires_ns <= now_ns
}

pub(super) fn tick(now_ns: u64) -> u32 {
    (now_ns >> TICK_BITS) as u32
}

fn full(limit_bytes: u64) -> Status {
    Status::resource_exhausted(format!("its keys and values have {limit_bytes} bytes, which is the bound"))
}

pub(super) fn broken() -> Status {
    Status::data_loss("a value without its envelope: a client with the right to write has broken the table")
}

pub(super) fn status_of(error: &OwnerError) -> Status {
    match error {
        OwnerError::KeyTooLong(_) | OwnerError::ValueTooLong(_) => Status::invalid_argument(error.to_string()),
        OwnerError::NoRoom(_) | OwnerError::Full(_) | OwnerError::TooShort(_) => {
            Status::resource_exhausted(error.to_string())
        }
        OwnerError::Locked(_) => locked(),
        OwnerError::Broken | OwnerError::OtherVersion(_) => Status::data_loss(error.to_string()),
    }
}
