//! What queue pairs with a peer on this host leave for later: those that wait for room in a lane,
//! and acknowledges.
//!
//! A timer looks for room again after a while, the application's polls each time. An acknowledge
//! leaves with what the application posts next, or with one of its next polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::engine::scratch::Scratch;
use crate::engine::{Acks, Engine};
use crate::qp::{QpCell, QpEntry};

/// Looks at a queue pair without an acknowledge due after which it leaves the list. One that talks all the
/// time stays on it: entering it anew for each message costs five atomic operations.
const IDLE_LOOKS: u8 = 16;
/// Most queue pairs that stay on the list though none of them has an acknowledge due.
const MAX_STAYING: usize = 8;

/// Both lists.
#[derive(Default)]
pub(super) struct Later {
    stalled: List,
    acks: List,
}

#[derive(Default)]
struct List {
    entries: Mutex<Vec<Arc<QpEntry>>>,
    any: AtomicBool,
}

impl List {
    fn push(&self, entry: &Arc<QpEntry>) {
        self.entries.lock().push(entry.clone());
        self.any.store(true, SeqCst);
    }

    fn take(&self) -> Vec<Arc<QpEntry>> {
        let mut entries = self.entries.lock();
        self.any.store(false, SeqCst);
        std::mem::take(&mut *entries)
    }

    /// Gives back what is left of what was [taken](List::take).
    fn put_back(&self, mut left: Vec<Arc<QpEntry>>) {
        let mut entries = self.entries.lock();
        left.append(&mut entries);
        *entries = left;
        self.any.store(!entries.is_empty(), SeqCst);
    }

    #[inline]
    fn any(&self) -> bool {
        self.any.load(SeqCst)
    }
}

impl Later {
    /// Whether an acknowledge was put off.
    pub(super) fn any_acks(&self) -> bool {
        self.acks.any()
    }
}

impl Engine {
    /// Notes a queue pair that waits for room.
    #[cold]
    pub(crate) fn note_stalled(&self, entry: &Arc<QpEntry>) {
        let known = self.later.stalled.entries.lock().iter().any(|other| Arc::ptr_eq(other, entry));
        if !known {
            self.later.stalled.push(entry);
        }
    }

    /// Puts the acknowledge of a locked queue pair off.
    #[inline]
    pub(super) fn put_frame_off(&self, entry: &Arc<QpEntry>, cell: &mut QpCell, scratch: &mut Scratch) {
        scratch.seen.note_put_off();
        if cell.put_off.replace(0).is_none() {
            self.later.acks.push(entry);
            self.kick_background();
        }
    }

    /// Does what was left.
    #[inline]
    pub(super) fn do_later(&self, scratch: &mut Scratch) {
        if self.later.acks.any() {
            self.send_late_acks(scratch);
        }
        if self.later.stalled.any() {
            self.retry_stalled(scratch);
        }
    }

    fn send_late_acks(&self, scratch: &mut Scratch) {
        let mut entries = self.later.acks.take();
        let may_stay = entries.len() <= MAX_STAYING;
        entries.retain(|entry| {
            let mut cell = entry.lock();
            if cell.live.as_ref().is_some_and(|live| live.qp.ack_due()) {
                self.note_work(entry, &mut cell, scratch, Acks::Now);
            }
            let looks = cell.put_off.unwrap_or_default() + 1;
            cell.put_off = (may_stay && looks < IDLE_LOOKS && cell.live.is_some()).then_some(looks);
            cell.put_off.is_some()
        });
        self.later.acks.put_back(entries);
        // It may have blocked while the list was empty.
        self.kick_background();
        self.pump_touched(scratch);
    }

    fn retry_stalled(&self, scratch: &mut Scratch) {
        for entry in self.later.stalled.take() {
            let mut cell = entry.lock();
            if let Some(live) = &mut cell.live {
                live.qp.look_for_room();
            }
            self.note_work(&entry, &mut cell, scratch, Acks::Now);
        }
        self.pump_touched(scratch);
    }
}
