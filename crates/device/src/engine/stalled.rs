//! Queue pairs that wait for room in a lane, or for a link, in turn.
//!
//! Those that wait for the same lane stand in one line. When a good part of it is free, one after the other sends what
//! it has, until the lane is full again; that one goes to the end. So a look costs as much as there is room, however
//! many wait. The application's polls look, and the background thread when there are none.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::engine::scratch::Scratch;
use crate::engine::{Acks, Engine};
use crate::near::NearLink;
use crate::qp::QpEntry;

/// Queue pairs of one line that have their turn in one look at most.
const MAX_TURNS: usize = 8;

/// What queue pairs wait for.
#[derive(Clone)]
pub(crate) enum Shortage {
    /// Room in a lane.
    Lane(Arc<NearLink>, usize),
    /// A link to the process that has a slot.
    Link(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Id {
    Lane(usize, usize),
    Link(u8),
}

/// All lines.
#[derive(Default)]
pub(super) struct Stalled {
    lines: Mutex<HashMap<Id, Line>>,
    any: AtomicBool,
}

/// Those who wait for the same.
struct Line {
    shortage: Shortage,
    queue: VecDeque<Arc<QpEntry>>,
}

impl Shortage {
    fn id(&self) -> Id {
        match self {
            Shortage::Lane(link, lane) => Id::Lane(Arc::as_ptr(link).addr(), *lane),
            Shortage::Link(slot) => Id::Link(*slot),
        }
    }

    /// Whether it may be over.
    fn may_be_over(&self) -> bool {
        match self {
            Shortage::Lane(link, lane) => link.producer(*lane).has_much_room(),
            Shortage::Link(_) => true,
        }
    }
}

impl Stalled {
    /// Whether anybody waits.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(SeqCst)
    }

    fn push(&self, entry: Arc<QpEntry>, shortage: &Shortage) {
        let mut lines = self.lines.lock();
        let new = || Line { shortage: shortage.clone(), queue: VecDeque::new() };
        lines.entry(shortage.id()).or_insert_with(new).queue.push_back(entry);
        self.any.store(true, SeqCst);
    }

    fn shortages(&self) -> SmallVec<[Shortage; 8]> {
        self.lines.lock().values().map(|line| line.shortage.clone()).collect()
    }

    /// Those who wait for something; more may come meanwhile.
    fn take(&self, id: Id) -> VecDeque<Arc<QpEntry>> {
        self.lines.lock().get_mut(&id).map(|line| std::mem::take(&mut line.queue)).unwrap_or_default()
    }

    /// Gives back those who have not had their turn; they come first.
    fn put_back(&self, id: Id, mut queue: VecDeque<Arc<QpEntry>>) {
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(&id) else { return };
        queue.append(&mut line.queue);
        line.queue = queue;
        if line.queue.is_empty() {
            lines.remove(&id);
        }
        self.any.store(!lines.is_empty(), SeqCst);
    }
}

impl Engine {
    /// Notes a queue pair that cannot go on.
    #[cold]
    pub(crate) fn note_stalled(&self, entry: &Arc<QpEntry>, shortage: &Shortage) {
        if entry.becomes_stalled() {
            self.stalled.push(entry.clone(), shortage);
            // It may have blocked for long before.
            self.kick_background();
        }
    }

    /// Looks whether they can go on.
    #[inline]
    pub(super) fn retry_stalled(&self, scratch: &mut Scratch) {
        if self.stalled.any() {
            let shortages = self.stalled.shortages();
            shortages.iter().filter(|shortage| shortage.may_be_over()).for_each(|it| self.retry_line(it.id(), scratch));
        }
    }

    fn retry_line(&self, id: Id, scratch: &mut Scratch) {
        let mut queue = self.stalled.take(id);
        for _ in 0..MAX_TURNS {
            let Some(entry) = queue.pop_front() else { break };
            entry.is_not_stalled();
            let mut cell = entry.lock();
            if let Some(live) = &mut cell.live {
                live.qp.look_for_room();
            }
            self.note_work(&entry, &mut cell, scratch, Acks::Now);
            drop(cell);
            self.pump_touched(scratch);
            if entry.is_stalled() {
                break;
            }
        }
        self.stalled.put_back(id, queue);
    }
}
