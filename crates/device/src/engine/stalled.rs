//! Queue pairs that wait for room in a lane, in turn.
//!
//! Those that wait for the same lane stand in one line: when there is room, the first of them sends until the lane is
//! full again, and goes to the end. So a look costs as much as there is room, however many wait. The application's
//! polls look, and the background thread when there are none.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::engine::scratch::Scratch;
use crate::engine::{Acks, Engine};
use crate::qp::QpEntry;

/// Queue pairs of one line that have their turn in one look at most.
const MAX_TURNS: usize = 64;

/// A lane of a link, or whatever else is full or not for all that wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LaneId {
    pub(crate) link: usize,
    pub(crate) lane: usize,
}

/// All lines.
#[derive(Default)]
pub(super) struct Stalled {
    lines: Mutex<HashMap<LaneId, VecDeque<Arc<QpEntry>>>>,
    any: AtomicBool,
}

impl Stalled {
    /// Whether anybody waits.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(SeqCst)
    }

    fn push(&self, lane: LaneId, entry: Arc<QpEntry>) {
        let mut lines = self.lines.lock();
        lines.entry(lane).or_default().push_back(entry);
        self.any.store(true, SeqCst);
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.lines.lock().keys().copied().collect()
    }

    /// The first that waits for a lane.
    fn pop(&self, lane: LaneId) -> Option<Arc<QpEntry>> {
        let mut lines = self.lines.lock();
        let first = lines.get_mut(&lane).and_then(VecDeque::pop_front);
        if first.is_none() {
            lines.remove(&lane);
            self.any.store(!lines.is_empty(), SeqCst);
        }
        first
    }
}

impl Engine {
    /// Notes a queue pair that waits for room in a lane.
    #[cold]
    pub(crate) fn note_stalled(&self, entry: &Arc<QpEntry>, lane: LaneId) {
        if entry.becomes_stalled() {
            self.stalled.push(lane, entry.clone());
            // It may have blocked for long before.
            self.kick_background();
        }
    }

    /// Looks whether there is room again.
    #[inline]
    pub(super) fn retry_stalled(&self, scratch: &mut Scratch) {
        if self.stalled.any() {
            self.stalled.lanes().into_iter().for_each(|lane| self.retry_line(lane, scratch));
        }
    }

    fn retry_line(&self, lane: LaneId, scratch: &mut Scratch) {
        for _ in 0..MAX_TURNS {
            let Some(entry) = self.stalled.pop(lane) else { return };
            entry.is_not_stalled();
            let mut cell = entry.lock();
            if let Some(live) = &mut cell.live {
                live.qp.look_for_room();
            }
            self.note_work(&entry, &mut cell, scratch, Acks::Now);
            drop(cell);
            self.pump_touched(scratch);
            if entry.is_stalled() {
                return;
            }
        }
    }
}
