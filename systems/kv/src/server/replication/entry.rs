//! Operations of callers in this process, such as a front door: the same rules as for requests of clients.

use std::sync::Arc;

use cluster::{HashSlot, NotServing, boot_ns};

use crate::server::replication::core::Replication;
use crate::server::replication::replies::settled;

/// The reason why operations on a slot cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotRefusal {
    /// The server does not serve the slot.
    #[error(transparent)]
    NotServing(NotServing),
    /// Another server takes the slot over: for some milliseconds nobody changes its keys.
    #[error("the slot is being handed over to another server")]
    HandingOver,
}

/// Nobody knows which of the last changes will be there: the server has lost the slot meanwhile, or is ending. An answer that
/// tells of them must not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server does not serve the key's slot any more")]
pub struct UnknownChanges;

/// Operations on keys of one slot that belong together, from [`LockedTable::enter`](crate::LockedTable::enter) on. Backups get
/// their changes together, when this ends. (Two megabytes and 20 ms of them at most: longer ones may come in parts.)
#[must_use]
pub struct SlotEntry {
    replication: Arc<Replication>,
    /// The slot, and the number of its tenure. Without one the operations look at keys of all slots.
    tenure: Option<(HashSlot, u64)>,
}

impl SlotEntry {
    /// Begins. The table is locked.
    pub(crate) fn begin(
        replication: &Arc<Replication>,
        slot: Option<HashSlot>,
        changes: bool,
    ) -> Result<SlotEntry, SlotRefusal> {
        if boot_ns() >= replication.right.until_ns() {
            return Err(SlotRefusal::NotServing(NotServing::NoTerm));
        }
        let tenure = slot.map(|slot| replication.check(slot).map_err(SlotRefusal::NotServing)).transpose()?;
        let mut sender = replication.sender();
        if changes && slot.is_some_and(|slot| !sender.serves(slot)) {
            return Err(SlotRefusal::HandingOver);
        }
        sender.begin_group();
        drop(sender);
        Ok(SlotEntry { replication: Arc::clone(replication), tenure: slot.zip(tenure) })
    }

    /// Ends. Returns the number up to which the answer has to [wait](crate::LocalTable::wait_for_backups).
    ///
    /// # Errors
    /// If the server has not served the slot all the time.
    pub fn end(self) -> Result<u64, UnknownChanges> {
        match self.tenure {
            Some((slot, tenure)) => self.replication.conclude(slot, tenure).map_err(|_| UnknownChanges),
            None => Ok(self.replication.last()),
        }
    }
}

impl std::fmt::Debug for SlotEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SlotEntry({:?})", self.tenure)
    }
}

impl Drop for SlotEntry {
    fn drop(&mut self) {
        if self.replication.sender().end_group() {
            self.replication.work.notify_all();
        }
    }
}

/// Waits in this thread until everything up to this number is with all backups.
pub(crate) fn wait_for_backups(replication: &Replication, number: u64) -> Result<(), UnknownChanges> {
    if number == 0 { Ok(()) } else { settled(replication, number).map_err(|_| UnknownChanges) }
}
