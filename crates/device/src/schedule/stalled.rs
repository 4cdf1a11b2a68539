//! Queue pairs that wait for room in a lane, or for a link, in turn.
//!
//! Those that wait for the same lane stand in one line. When a good part of the lane is free, one after the other sends
//! until the lane is full again. The queue pair that filled it goes to the end of the line. So a turn costs as much as
//! there is room, however many wait. The application's polls serve the lines, and the background thread does when there
//! are no polls.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;
use smallvec::SmallVec;
use transport::shm::frame::FrameHead;

use crate::qp::entry::QpEntry;
use crate::shm::lane::{self, LaneWait};
use crate::shm::link::ShmLink;
use crate::wait_list::WaitList;

/// The most queue pairs of one line that have their turn in one call.
const MAX_TURNS: usize = 8;
/// The number of responses to another process that are kept for one lane. With more of them its frames stay in
/// their lane.
const MAX_OWED: usize = 1024;

/// The resource that a line waits for, by value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum WaitId {
    Lane(usize, usize),
    Link(u8),
}

/// All lines.
#[derive(Default)]
pub(crate) struct Stalled {
    lines: Mutex<HashMap<WaitId, Arc<WaitLine>>>,
    any: AtomicBool,
}

/// The waiters for one lane or link.
struct WaitLine {
    wait: LaneWait,
    queue: WaitList<Waiter>,
}

enum Waiter {
    QueuePair(Arc<QpEntry>),
    /// A response on behalf of a queue pair that does not exist. Its request has left its lane already: within one
    /// process that request may be what fills the lane.
    Response(FrameHead),
}

impl From<&LaneWait> for WaitId {
    fn from(wait: &LaneWait) -> WaitId {
        match wait {
            LaneWait::Lane(link, lane) => WaitId::Lane(Arc::as_ptr(link).addr(), *lane),
            LaneWait::Link(slot) => WaitId::Link(*slot),
        }
    }
}

impl Stalled {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(SeqCst)
    }

    /// Puts a queue pair in line, unless it is in one. True if it was not.
    #[cold]
    pub(crate) fn stall(&self, entry: &Arc<QpEntry>, wait: &LaneWait) -> bool {
        let is_new = entry.state().becomes_stalled();
        if is_new {
            self.push(Waiter::QueuePair(entry.clone()), wait, usize::MAX);
        }
        is_new
    }

    /// Puts a response in line that its lane has no room for. False if too many wait for that lane.
    #[cold]
    pub(crate) fn owe(&self, link: &Arc<ShmLink>, response: FrameHead) -> bool {
        let max = if link.is_own() { usize::MAX } else { MAX_OWED };
        self.push(Waiter::Response(response), &LaneWait::Lane(link.clone(), lane::of_head(&response)), max)
    }

    /// False if `max` waiters are in that line already.
    fn push(&self, waiter: Waiter, wait: &LaneWait, max: usize) -> bool {
        let mut lines = self.lines.lock();
        let new = || Arc::new(WaitLine { wait: wait.clone(), queue: WaitList::default() });
        let fits = lines.entry(wait.into()).or_insert_with(new).queue.push_bounded(waiter, max);
        self.any.store(true, SeqCst);
        fits
    }

    /// Serves the lines whose wait may be over. `retry` lets one queue pair send and tells whether there was room for
    /// all that it had.
    pub(crate) fn serve(&self, mut retry: impl FnMut(&Arc<QpEntry>) -> bool) {
        let lines: SmallVec<[Arc<WaitLine>; 8]> = self.lines.lock().values().cloned().collect();
        lines.iter().filter(|line| line.wait.may_be_over()).for_each(|line| line.serve(&mut retry));
        drop(lines);
        self.remove_empty();
    }

    /// Removes the lines without waiters, except those that another thread serves: it may put waiters back.
    fn remove_empty(&self) {
        let mut lines = self.lines.lock();
        lines.retain(|_, line| !line.queue.is_empty() || Arc::strong_count(line) > 1);
        self.any.store(!lines.is_empty(), SeqCst);
    }
}

impl WaitLine {
    /// Gives waiters their turn until one finds no room.
    fn serve(&self, retry: &mut impl FnMut(&Arc<QpEntry>) -> bool) {
        let mut queue = self.queue.take();
        for _ in 0..MAX_TURNS {
            let has_room = match queue.pop_front() {
                Some(Waiter::QueuePair(entry)) => {
                    entry.state().is_not_stalled();
                    retry(&entry)
                }
                Some(Waiter::Response(response)) => {
                    let sent = self.wait.send_response(&response);
                    if !sent {
                        queue.push_front(Waiter::Response(response));
                    }
                    sent
                }
                None => false,
            };
            if !has_room {
                break;
            }
        }
        self.queue.put_back(queue);
    }
}
