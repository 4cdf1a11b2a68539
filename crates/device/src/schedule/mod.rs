//! When queue pairs have their turn: the lists that they wait in, their timers, and the background thread's wake-up.
//!
//! ```text
//!   ready     in one thread's scratch: served before that thread's call returns
//!   backlog   ready, but left to the next call of any thread
//!   deferred  ACKs and small requests that travel with whatever comes next
//!   stalled   in line for room in a lane, or for a link
//!   queued    in the queue of a destination (`wire/destination.rs`), until its turn puts it into the backlog
//!   timed     entered with a deadline
//! ```
//! The shared ones are a [`WaitList`] each, and all flags are in the state word of the queue pair
//! ([`QueueState`](crate::qp::state::QueueState)). A deadline is a value in its cell. A list with something in it keeps
//! the background thread from blocking, so each method that fills one kicks the thread.

pub(crate) mod activity;
pub(crate) mod background;
pub(crate) mod deferred;
pub(crate) mod stalled;
pub(crate) mod timers;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use transport::Time;
use transport::shm::frame::FrameHead;

use crate::qp::entry::{QpCell, QpEntry};
use crate::shm::lane::LaneWait;
use crate::shm::link::ShmLink;
use crate::wait_list::WaitList;
use crate::wire::destination::Destination;
use background::{Background, wake_descriptor};
use deferred::Deferred;
use stalled::Stalled;
use timers::Timers;

/// See the module.
pub(crate) struct Schedule {
    backlog: WaitList<Arc<QpEntry>>,
    pub(crate) deferred: Deferred,
    pub(crate) stalled: Stalled,
    pub(crate) timers: Timers,
    pub(crate) background: Background,
}

impl Schedule {
    /// # Errors
    /// If the process has no descriptor left.
    pub(crate) fn new() -> io::Result<Schedule> {
        Ok(Schedule {
            backlog: WaitList::default(),
            deferred: Deferred::default(),
            stalled: Stalled::default(),
            timers: Timers::default(),
            background: Background::new(wake_descriptor()?),
        })
    }

    /// Whether earlier calls have left something to send.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Leaves ready queue pairs to the next call of any thread.
    #[cold]
    pub(crate) fn leave(&self, ready: impl IntoIterator<Item = Arc<QpEntry>>) {
        self.backlog.extend(ready);
        if self.has_backlog() {
            self.background.kick();
        }
    }

    /// Takes over the queue pairs that earlier calls have left.
    #[inline]
    pub(crate) fn take_backlog(&self, ready: &mut VecDeque<Arc<QpEntry>>) {
        if self.has_backlog() {
            ready.extend(self.backlog.take());
        }
    }

    /// Gives the queue pairs that wait for a destination their turn, as far as it has room.
    pub(crate) fn grant_turns(&self, destination: &Destination<Arc<QpEntry>>) {
        if destination.is_waited_for() {
            self.leave(destination.grant());
        }
    }

    /// Defers the ACK of a queue pair on the wire.
    pub(crate) fn defer_ack(&self, entry: &Arc<QpEntry>) {
        self.deferred.defer_ack(entry);
        self.background.kick();
    }

    /// Defers requests of a queue pair on the wire.
    pub(crate) fn defer_requests(&self, entry: &Arc<QpEntry>) {
        self.deferred.defer_requests(entry);
        self.background.kick();
    }

    /// Defers the ACK of a locked queue pair for a peer on this host.
    #[inline]
    pub(crate) fn defer_frame(&self, entry: &Arc<QpEntry>, cell: &mut QpCell) {
        if self.deferred.defer_frame(entry, cell) {
            self.background.kick();
        }
    }

    /// Puts a queue pair in line that cannot continue.
    #[cold]
    pub(crate) fn stall(&self, entry: &Arc<QpEntry>, wait: &LaneWait) {
        if self.stalled.stall(entry, wait) {
            self.background.kick();
        }
    }

    /// Puts a response in line that its lane has no room for. False if too many wait for that lane.
    #[cold]
    pub(crate) fn owe(&self, link: &Arc<ShmLink>, response: FrameHead) -> bool {
        let fits = self.stalled.owe(link, response);
        self.background.kick();
        fits
    }

    /// Enters the deadline of a locked queue pair if it is earlier than the one it is entered with.
    #[inline]
    pub(crate) fn set_timer(&self, entry: &QpEntry, cell: &mut QpCell) {
        let Some(at) = cell.live.as_ref().and_then(|live| live.qp.next_timeout()) else { return };
        if at < cell.timer_at {
            cell.timer_at = at;
            self.timers.insert(at, entry.qpn());
            self.background.deadline(at);
        }
    }

    /// Whether something is to be done that no deadline and no arrival announces.
    pub(crate) fn has_work(&self) -> bool {
        self.deferred.has_packets() || self.deferred.has_frames() || self.has_backlog() || self.background.wants_hub()
    }

    /// The earliest deadline of a queue pair; `Time::NEVER` if there is none.
    #[inline]
    pub(crate) fn earliest(&self) -> Time {
        self.timers.earliest()
    }
}
