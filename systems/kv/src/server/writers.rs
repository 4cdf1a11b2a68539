//! Clients that PUT alone: their numbers, their blocks for copies, the locks that others met, and the end of a client.
//!
//! ```text
//!  a request meets a lock ─► noted ─► met again after the lease: its holder is overdue
//!                                        │  the server cuts its holder off
//!  the connection is lost, or revoked ───┴► ended: its lock is completed from its copy, or taken back
//! ```
//! A lock is broken only after its holder was cut off. The lease decides when the server does that, and nothing else:
//! a clock that jumps ends a lease early, which costs a client its connection, and no value.
//!
//! A process on this host may stand still in the middle of a WRITE, which then comes late. So its object moves to another block, and
//! the blocks that the WRITE may reach stay out of use until it is over.

use std::collections::HashMap;

use remote::{EndedLock, LastAccess, LockEnd, ObjectHeader, OwnerError, PeerTable, WriterPass};

/// The longest object that a client changes alone. Longer ones would be torn for readers too often.
pub(crate) const COPY_BYTES: u64 = 4096;
/// Clients of one table that PUT alone, at a time.
const MOST_WRITERS: usize = 1024;
/// Clients that were cut off and stand still in an access. With more of them, no further client gets the right.
const MOST_STANDING: usize = 64;
/// Locks that are noted at a time.
const MOST_LOCKS: usize = 1024;
/// A note that nobody renews for so many leases is forgotten: its lock was given back.
const FORGET_LEASES: u64 = 4;

/// A lock that a request has met.
struct MetLock {
    header: ObjectHeader,
    since_ns: u64,
    last_ns: u64,
}

/// The clients of a table that may PUT alone.
pub(crate) struct WriterRoster {
    lease_ns: u64,
    last: u16,
    /// Where the copies of each are.
    copies: HashMap<u16, u64>,
    /// The blocks in which a last access of each client may arrive that was cut off: where they begin, and their lengths.
    left: HashMap<u16, Vec<(u64, u64)>>,
    met: HashMap<Box<[u8]>, MetLock>,
    overdue: Vec<u16>,
}

/// The step that a lock which a request has met needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockVerdict {
    /// The request comes again soon.
    Wait,
    /// Its holder was cut off: it can be ended now.
    Ownerless(LastAccess),
}

impl WriterRoster {
    pub(crate) fn new(lease_ns: u64) -> WriterRoster {
        let (copies, left, met) = (HashMap::new(), HashMap::new(), HashMap::new());
        WriterRoster { lease_ns, last: 0, copies, left, met, overdue: Vec::new() }
    }

    /// A number and a block for a client's copies; `None` if there is no room.
    pub(crate) fn admit(&mut self, table: &mut dyn PeerTable) -> Option<WriterPass> {
        if self.copies.len() >= MOST_WRITERS || self.left.len() >= MOST_STANDING {
            return None;
        }
        let copy_at = table.lend_copy(COPY_BYTES).ok()?;
        // Zero is nobody, and the highest number the owner. A number comes again as late as possible.
        let next = |last: u16| if last >= u16::MAX - 1 { 1 } else { last + 1 };
        let mut holder = next(self.last);
        while self.copies.contains_key(&holder) || self.left.contains_key(&holder) {
            holder = next(holder);
        }
        self.last = holder;
        self.copies.insert(holder, copy_at);
        Some(WriterPass { holder, copy_at, copy_bytes: COPY_BYTES })
    }

    /// Takes note of a lock that a request has met.
    pub(crate) fn meet(&mut self, key: &[u8], header: ObjectHeader, now_ns: u64) -> LockVerdict {
        let holder = header.holder();
        if !self.copies.contains_key(&holder) {
            let stands = self.left.contains_key(&holder);
            return LockVerdict::Ownerless(if stands { LastAccess::MayCome } else { LastAccess::Over });
        }
        match self.met.get_mut(key) {
            Some(met) if met.header == header => {
                met.last_ns = now_ns;
                if now_ns.saturating_sub(met.since_ns) >= self.lease_ns && !self.overdue.contains(&holder) {
                    self.overdue.push(holder);
                }
            }
            _ => {
                if self.met.len() >= MOST_LOCKS {
                    let longest_ns = self.lease_ns.saturating_mul(FORGET_LEASES);
                    self.met.retain(|_, met| now_ns.saturating_sub(met.last_ns) < longest_ns);
                }
                if self.met.len() < MOST_LOCKS {
                    self.met.insert(key.into(), MetLock { header, since_ns: now_ns, last_ns: now_ns });
                }
            }
        }
        LockVerdict::Wait
    }

    /// Forgets the note of a lock that is gone.
    pub(crate) fn forget(&mut self, key: &[u8]) {
        if !self.met.is_empty() {
            self.met.remove(key);
        }
    }

    /// The holders whose lease has ended. The caller cuts them off, and then [ends](WriterRoster::end) them.
    pub(crate) fn take_overdue(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.overdue)
    }

    /// Ends a client that was cut off. Returns the key that it left locked, and what became of it. Without room to move an
    /// object the client is not ended yet.
    ///
    /// # Errors
    /// If the client has broken the index, or there is no room.
    pub(crate) fn end(
        &mut self,
        table: &mut dyn PeerTable,
        holder: u16,
        last_access: LastAccess,
    ) -> Result<Option<(Vec<u8>, LockEnd)>, OwnerError> {
        let Some(copy_at) = self.copies.get(&holder).copied() else { return Ok(None) };
        // A client that keeps the rules has one lock at most, and its copy tells of which key. Other locks with this
        // number are met some time, and are ownerless then.
        let copy = (copy_at, COPY_BYTES);
        let key = table.copied_key(copy.0, copy.1);
        let ended = key.map(|key| table.end_lock(&key, holder, Some(copy), last_access).map(|ended| (key, ended)));
        if let Some(Err(error @ OwnerError::NoRoom(_))) = ended {
            return Err(error);
        }
        self.copies.remove(&holder);
        self.met.retain(|_, met| met.header.holder() != holder);
        self.overdue.retain(|other| *other != holder);
        match last_access {
            LastAccess::Over => table.return_copy(copy.0, copy.1),
            LastAccess::MayCome => self.left.entry(holder).or_default().push(copy),
        }
        let Some((key, EndedLock { end, left })) = ended.transpose()? else { return Ok(None) };
        self.leave(holder, left);
        Ok(Some((key, end)))
    }

    /// Notes a block in which a last access may arrive.
    pub(crate) fn leave(&mut self, holder: u16, block: Option<(u64, u64)>) {
        if let Some(block) = block {
            self.left.entry(holder).or_default().push(block);
        }
    }

    /// Gives the blocks back that no access of a client can reach any more.
    pub(crate) fn give_back(&mut self, table: &mut dyn PeerTable, holder: u16) {
        let left = self.left.remove(&holder).unwrap_or_default();
        left.into_iter().for_each(|(at, len_bytes)| table.return_copy(at, len_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remote::ObjectState;

    /// A table whose objects are all free.
    #[derive(Default)]
    struct NoLocks {
        lent: Vec<u64>,
        ended: Vec<u16>,
    }

    impl PeerTable for NoLocks {
        fn lock(&mut self, _: &[u8]) -> Result<bool, OwnerError> {
            Ok(true)
        }
        fn unlock(&mut self, _: &[u8]) {}
        fn lend_copy(&mut self, _: u64) -> Result<u64, OwnerError> {
            self.lent.push(self.lent.len() as u64 * COPY_BYTES);
            Ok(self.lent[self.lent.len() - 1])
        }
        fn return_copy(&mut self, at: u64, _: u64) {
            self.lent.retain(|lent| *lent != at);
        }
        fn copied_key(&self, _: u64, _: u64) -> Option<Vec<u8>> {
            Some(b"key".to_vec())
        }
        fn end_lock(
            &mut self,
            _: &[u8],
            holder: u16,
            _: Option<(u64, u64)>,
            last: LastAccess,
        ) -> Result<EndedLock, OwnerError> {
            self.ended.push(holder);
            let left = (last == LastAccess::MayCome).then_some((7 * COPY_BYTES, COPY_BYTES));
            Ok(EndedLock { end: LockEnd::Completed, left })
        }
    }

    fn held(holder: u16, version: u32) -> ObjectHeader {
        ObjectHeader::new(ObjectState::Live, 1, version).held_by(holder)
    }

    #[test]
    fn a_lease_ends_only_while_one_lock_stays() {
        let (mut table, mut roster) = (NoLocks::default(), WriterRoster::new(100));
        let holder = roster.admit(&mut table).unwrap().holder;
        for now_ns in [0, 99] {
            assert_eq!(roster.meet(b"key", held(holder, 1), now_ns), LockVerdict::Wait);
        }
        // The holder has unlocked it in between, and locked it again.
        assert_eq!(roster.meet(b"key", held(holder, 2), 120), LockVerdict::Wait);
        roster.meet(b"key", held(holder, 2), 219);
        assert!(roster.take_overdue().is_empty());
        roster.forget(b"key");
        roster.meet(b"key", held(holder, 2), 221);
        assert!(roster.take_overdue().is_empty(), "it was free in between");
        roster.meet(b"key", held(holder, 2), 321);
        roster.meet(b"key", held(holder, 2), 322);
        assert_eq!(roster.take_overdue(), [holder]);
        let over = LastAccess::Over;
        assert_eq!(roster.end(&mut table, holder, over), Ok(Some((b"key".to_vec(), LockEnd::Completed))));
        let again = roster.end(&mut table, holder, over);
        assert_eq!((again, table.lent.len(), &table.ended[..]), (Ok(None), 0, &[holder][..]));
        assert_eq!(roster.meet(b"other", held(holder, 7), 400), LockVerdict::Ownerless(over));
    }

    #[test]
    fn blocks_of_a_client_that_stands_still_wait() {
        let (mut table, mut roster) = (NoLocks::default(), WriterRoster::new(100));
        let holder = roster.admit(&mut table).unwrap().holder;
        table.lent.push(7 * COPY_BYTES);
        roster.end(&mut table, holder, LastAccess::MayCome).unwrap();
        assert_eq!(table.lent.len(), 2, "the copy, and the block of the object");
        let met = roster.meet(b"other", held(holder, 7), 400);
        assert_eq!(met, LockVerdict::Ownerless(LastAccess::MayCome));
        roster.give_back(&mut table, holder);
        assert!(table.lent.is_empty());
        for number in 0..MOST_STANDING {
            let holder = roster.admit(&mut table).unwrap_or_else(|| panic!("{number}")).holder;
            roster.end(&mut table, holder, LastAccess::MayCome).unwrap();
        }
        assert!(roster.admit(&mut table).is_none());
    }

    #[test]
    fn numbers_and_notes_are_bounded() {
        let (mut table, mut roster) = (NoLocks::default(), WriterRoster::new(100));
        let all: Vec<u16> = (0..MOST_WRITERS).map(|_| roster.admit(&mut table).unwrap().holder).collect();
        assert!(roster.admit(&mut table).is_none() && all.iter().all(|holder| !matches!(*holder, 0 | u16::MAX)));
        roster.end(&mut table, all[0], LastAccess::Over).unwrap();
        assert!(!all.contains(&roster.admit(&mut table).unwrap().holder), "a number came again at once");
        roster.last = u16::MAX - 2;
        roster.end(&mut table, all[5], LastAccess::Over).unwrap();
        assert_eq!(roster.admit(&mut table).unwrap().holder, u16::MAX - 1);
        roster.end(&mut table, all[6], LastAccess::Over).unwrap();
        assert_eq!(roster.admit(&mut table).unwrap().holder, all[0], "the first free number");
        for key in 0..3 * MOST_LOCKS {
            roster.meet(&key.to_le_bytes(), held(all[9], 1), 5);
        }
        assert_eq!(roster.met.len(), MOST_LOCKS);
        // Notes that nobody renews make room.
        roster.meet(b"later", held(all[9], 1), 1000);
        assert_eq!(roster.met.len(), 1);
        roster.meet(b"later", held(all[9], 1), 1100);
        assert_eq!(roster.take_overdue(), [all[9]]);
    }
}
