//! Acknowledges that queue pairs with a peer on this host leave for later: they leave with what the application
//! posts next, or with one of its next polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::engine::Engine;
use crate::engine::scratch::Scratch;
use crate::path::pump::Acks;
use crate::qp::entry::{QpCell, QpEntry};

/// Looks at a queue pair without an acknowledge due after which it leaves the list. One that talks all the
/// time stays on it: entering it anew for each message costs five atomic operations.
const IDLE_LOOKS: u8 = 16;
/// Most queue pairs that stay on the list though none of them has an acknowledge due.
const MAX_STAYING: usize = 8;

/// Queue pairs with an acknowledge that was put off.
#[derive(Default)]
pub(crate) struct Later {
    entries: Mutex<Vec<Arc<QpEntry>>>,
    any: AtomicBool,
}

impl Later {
    fn push(&self, entry: &Arc<QpEntry>) {
        self.entries.lock().push(entry.clone());
        self.any.store(true, SeqCst);
    }

    fn take(&self) -> Vec<Arc<QpEntry>> {
        let mut entries = self.entries.lock();
        self.any.store(false, SeqCst);
        std::mem::take(&mut *entries)
    }

    /// Gives back what is left of what was [taken](Later::take).
    fn put_back(&self, mut left: Vec<Arc<QpEntry>>) {
        let mut entries = self.entries.lock();
        left.append(&mut entries);
        *entries = left;
        self.any.store(!entries.is_empty(), SeqCst);
    }

    /// Whether an acknowledge was put off.
    #[inline]
    pub(crate) fn any_acks(&self) -> bool {
        self.any.load(SeqCst)
    }
}

impl Engine {
    /// Puts the acknowledge of a locked queue pair off.
    #[inline]
    pub(crate) fn put_frame_off(&self, entry: &Arc<QpEntry>, cell: &mut QpCell, scratch: &mut Scratch) {
        scratch.seen.note_put_off();
        if cell.put_off.replace(0).is_none() {
            self.later.push(entry);
            self.kick_background();
        }
    }

    /// Does what was left.
    #[inline]
    pub(crate) fn do_later(&self, scratch: &mut Scratch) {
        if self.later.any_acks() {
            self.send_late_acks(scratch);
        }
        self.retry_stalled(scratch);
    }

    fn send_late_acks(&self, scratch: &mut Scratch) {
        let mut entries = self.later.take();
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
        self.later.put_back(entries);
        // It may have blocked while the list was empty.
        self.kick_background();
        self.pump_touched(scratch);
    }
}
