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
use transport::shm::frame::FrameHead;

use crate::engine::Engine;
use crate::engine::scratch::Scratch;
use crate::path::dispatch::{lane_of, send_head};
use crate::path::pump::Acks;
use crate::qp::entry::QpEntry;
use crate::shm::links::ShmLink;

/// Queue pairs of one line that have their turn in one look at most.
const MAX_TURNS: usize = 8;
/// Answers to another process that are kept for one lane. With more of them its frames are left where they are.
const MAX_OWED: usize = 1024;

/// What queue pairs wait for.
#[derive(Clone)]
pub(crate) enum Shortage {
    /// Room in a lane.
    Lane(Arc<ShmLink>, usize),
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
pub(crate) struct Stalled {
    lines: Mutex<HashMap<Id, Line>>,
    any: AtomicBool,
}

/// Those who wait for the same.
struct Line {
    shortage: Shortage,
    queue: VecDeque<Waiting>,
}

/// Who waits.
enum Waiting {
    QueuePair(Arc<QpEntry>),
    /// An answer on behalf of a queue pair that is not there. A lane is emptied though it cannot leave yet: in one process
    /// the frame that it answers may be what fills the lane.
    Answer(FrameHead),
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

    /// Sends an answer on the lane that has room again; false if it has none. A dead link needs no answers.
    fn send(&self, answer: &FrameHead) -> bool {
        match self {
            Shortage::Lane(link, _) => send_head(link, answer) || link.is_dead(),
            Shortage::Link(_) => true,
        }
    }
}

impl Stalled {
    /// Whether anybody waits.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(SeqCst)
    }

    /// False if `most` wait already.
    fn push(&self, waiting: Waiting, shortage: &Shortage, most: usize) -> bool {
        let mut lines = self.lines.lock();
        let new = || Line { shortage: shortage.clone(), queue: VecDeque::new() };
        let queue = &mut lines.entry(shortage.id()).or_insert_with(new).queue;
        let fits = queue.len() < most;
        if fits {
            queue.push_back(waiting);
        }
        self.any.store(true, SeqCst);
        fits
    }

    fn shortages(&self) -> SmallVec<[Shortage; 8]> {
        self.lines.lock().values().map(|line| line.shortage.clone()).collect()
    }

    /// Those who wait for something; more may come meanwhile.
    fn take(&self, id: Id) -> VecDeque<Waiting> {
        self.lines.lock().get_mut(&id).map(|line| std::mem::take(&mut line.queue)).unwrap_or_default()
    }

    /// Gives back those who have not had their turn; they come first.
    fn put_back(&self, id: Id, mut queue: VecDeque<Waiting>) {
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
            self.stalled.push(Waiting::QueuePair(entry.clone()), shortage, usize::MAX);
            // It may have blocked for long before.
            self.kick_background();
        }
    }

    /// Notes an answer that a lane has no room for. False if too many wait for that lane.
    #[cold]
    pub(crate) fn note_owed(&self, link: &Arc<ShmLink>, answer: FrameHead) -> bool {
        let most = if link.is_own() { usize::MAX } else { MAX_OWED };
        let noted = self.stalled.push(Waiting::Answer(answer), &Shortage::Lane(link.clone(), lane_of(&answer)), most);
        self.kick_background();
        noted
    }

    /// Looks whether they can go on.
    #[inline]
    pub(crate) fn retry_stalled(&self, scratch: &mut Scratch) {
        if self.stalled.any() {
            let shortages = self.stalled.shortages();
            shortages.iter().filter(|shortage| shortage.may_be_over()).for_each(|it| self.retry_line(it, scratch));
        }
    }

    fn retry_line(&self, shortage: &Shortage, scratch: &mut Scratch) {
        let mut queue = self.stalled.take(shortage.id());
        for _ in 0..MAX_TURNS {
            let goes_on = match queue.pop_front() {
                Some(Waiting::QueuePair(entry)) => self.retry(&entry, scratch),
                Some(Waiting::Answer(answer)) => {
                    let sent = shortage.send(&answer);
                    if !sent {
                        queue.push_front(Waiting::Answer(answer));
                    }
                    sent
                }
                None => false,
            };
            if !goes_on {
                break;
            }
        }
        self.stalled.put_back(shortage.id(), queue);
    }

    /// Whether there was room for all that the queue pair had to send.
    fn retry(&self, entry: &Arc<QpEntry>, scratch: &mut Scratch) -> bool {
        entry.is_not_stalled();
        let mut cell = entry.lock();
        if let Some(live) = &mut cell.live {
            live.qp.resume_sending();
        }
        self.note_work(entry, &mut cell, scratch, Acks::Now);
        drop(cell);
        self.pump_touched(scratch);
        !entry.is_stalled()
    }
}
