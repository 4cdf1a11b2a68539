//! Queue pairs that wait for room in the lane to a peer on this host.
//!
//! Their timers look again after a while; the application's polls look each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::engine::scratch::Scratch;
use crate::engine::{Acks, Engine};
use crate::qp::QpEntry;

#[derive(Default)]
pub(super) struct Stalled {
    entries: Mutex<Vec<Arc<QpEntry>>>,
    any: AtomicBool,
}

impl Engine {
    /// Notes a queue pair that waits for room.
    #[cold]
    pub(super) fn note_stalled(&self, entry: &Arc<QpEntry>) {
        let mut entries = self.stalled.entries.lock();
        if !entries.iter().any(|other| Arc::ptr_eq(other, entry)) {
            entries.push(entry.clone());
        }
        self.stalled.any.store(true, Relaxed);
    }

    /// Lets them look again.
    #[inline]
    pub(super) fn retry_stalled(&self, scratch: &mut Scratch) {
        if self.stalled.any.load(Relaxed) {
            self.retry_all_stalled(scratch);
        }
    }

    fn retry_all_stalled(&self, scratch: &mut Scratch) {
        let entries = {
            let mut entries = self.stalled.entries.lock();
            self.stalled.any.store(false, Relaxed);
            std::mem::take(&mut *entries)
        };
        for entry in entries {
            let mut cell = entry.lock();
            if let Some(live) = &mut cell.live {
                live.qp.look_for_room();
            }
            self.note_work(&entry, &mut cell, scratch, Acks::Now);
        }
    }
}
