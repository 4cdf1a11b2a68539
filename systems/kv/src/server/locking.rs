//! The server's operations beside clients that PUT alone.
//!
//! Such a client locks an object, writes it and unlocks it. In a table that allows it, each operation of the server on a key
//! takes the same lock, so nothing changes between its steps. A lock that a client has is waited for shortly. Then the request is
//! refused, and its sender comes again.

use longarm_rpc::{Executed, Status};
use remote::{LastAccess, LockEnd, OwnerError, WriterPass};

use crate::server::figures::count;
use crate::server::table::{TableWriter, status_of};
use crate::server::writers::{LockVerdict, WriterRoster};

/// Looks at a lock before a request is refused: some microseconds, as long as an honest client has it.
const LOOKS: u32 = 100;
/// Locks of clients that are gone which one operation meets.
const OWNERLESS_AT_ONCE: u32 = 4;
/// The words of a refusal.
const LOCKED: &str = "another client has the lock of the key";

/// A request was refused because a client has the lock of the key.
pub(super) fn locked() -> Status {
    Status::unavailable(LOCKED).with_executed(Executed::No)
}

/// True for the refusal of a request that comes again soon.
pub(crate) fn is_locked(status: &Status) -> bool {
    status.message() == LOCKED
}

impl TableWriter {
    /// Lets clients PUT alone, with leases of that length. False if the table's layout does not allow it.
    pub(crate) fn allow_writers(&mut self, lease_ns: u64) -> bool {
        let allows = self.owner.peers().is_some();
        self.writers = allows.then(|| WriterRoster::new(lease_ns));
        allows
    }

    /// The right of one more client to PUT alone; `None` if the table has none to give.
    pub(crate) fn admit_writer(&mut self) -> Option<WriterPass> {
        self.writers.as_mut()?.admit(self.owner.peers()?)
    }

    /// Clients whose lease has ended. The caller cuts them off, and then [ends](TableWriter::end_writer) them.
    pub(crate) fn take_overdue(&mut self) -> Vec<u16> {
        self.writers.as_mut().map(WriterRoster::take_overdue).unwrap_or_default()
    }

    /// Ends a client that PUT alone, and was cut off. If a last access of it may come, the caller says so again when
    /// it is over.
    pub(crate) fn end_writer(&mut self, holder: u16, last_access: LastAccess) {
        let Some((writers, table)) = self.writers.as_mut().zip(self.owner.peers()) else { return };
        let ended = writers.end(table, holder, last_access);
        if last_access == LastAccess::Over {
            writers.give_back(table, holder);
        }
        // A client that has broken the index has broken its own table: each operation says so.
        if let Ok(Some((key, end))) = ended {
            self.settle(&key, end);
        }
    }

    /// Keeps the notes true after the end of a lock.
    fn settle(&mut self, key: &[u8], end: LockEnd) {
        match end {
            LockEnd::Free => {}
            LockEnd::Completed | LockEnd::TakenBack => count(&self.counts.locks_ended),
            LockEnd::Lost => {
                self.forget(key);
                count(&self.counts.locks_ended);
                count(&self.counts.lost);
            }
        }
    }

    /// Takes the lock of a key for an operation of the server. Operations inside an operation have it already.
    pub(super) fn lock_key(&mut self, key: &[u8], now_ns: u64) -> Result<(), Status> {
        if self.writers.is_none() {
            return Ok(());
        }
        if self.lock_depth == 0 {
            self.take_lock(key, now_ns)?;
        }
        self.lock_depth += 1;
        Ok(())
    }

    /// Gives the lock back, unless a change has ended it.
    pub(super) fn unlock_key(&mut self, key: &[u8]) {
        if self.writers.is_none() {
            return;
        }
        self.lock_depth -= 1;
        if self.lock_depth == 0
            && let Some(table) = self.owner.peers()
        {
            table.unlock(key);
        }
    }

    fn take_lock(&mut self, key: &[u8], now_ns: u64) -> Result<(), Status> {
        for _ in 0..OWNERLESS_AT_ONCE {
            let Some((writers, table)) = self.writers.as_mut().zip(self.owner.peers()) else { return Ok(()) };
            let mut met = None;
            for _ in 0..LOOKS {
                match table.lock(key) {
                    Ok(_) => {
                        writers.forget(key);
                        return Ok(());
                    }
                    Err(OwnerError::Locked(header)) => met = Some(header),
                    // A client was faster.
                    Err(OwnerError::OtherVersion(_)) => {}
                    Err(error) => return Err(status_of(&error)),
                }
                std::hint::spin_loop();
            }
            let Some(header) = met else { return Err(locked()) };
            let LockVerdict::Ownerless(last_access) = writers.meet(key, header, now_ns) else { return Err(locked()) };
            let holder = header.holder();
            let ended = table.end_lock(key, holder, None, last_access).map_err(|error| status_of(&error))?;
            writers.leave(holder, ended.left);
            self.settle(key, ended.end);
        }
        Err(locked())
    }
}
