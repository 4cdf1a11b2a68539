//! The completions of a ring, behind its lock, and which of them sends an event.

use std::collections::VecDeque;
use std::task::Waker;

use transport::{Completion, CompletionOp, Status};
use wire::Qpn;

use crate::clock;
use crate::error::CqError;

/// The number of taken completions that a ring reports at once.
const TAKEN_TO_REPORT: u32 = 16;

/// See the module.
pub(super) struct RingState {
    pub(super) completions: VecDeque<Completion>,
    /// The time at which each of them was added, if the owner wants to know.
    pub(super) stamps: Option<VecDeque<u64>>,
    pub(super) capacity: u32,
    pub(super) armed: Armed,
    /// Completions that were taken and not yet reported.
    pub(super) unreported: u32,
    /// Completions taken so far: the number of the first one in the ring.
    pub(super) polled: u64,
    /// The number of the completion that sent an event, until the program fetches that event.
    pub(super) event_of: Option<u64>,
    pub(super) waker: Option<Waker>,
    pub(super) overrun: bool,
    /// No poll can come any more, so completions are not kept.
    pub(super) retired: bool,
}

/// The kind of completion that sends the next event (IB specification 11.4.2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Armed {
    No,
    Solicited,
    Any,
}

/// The result of a poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PolledCompletions {
    pub(crate) count: usize,
    /// The number of completions taken since the last report; zero if it is too early for one.
    pub(crate) to_report: u32,
}

impl PolledCompletions {
    pub(crate) const NONE: PolledCompletions = PolledCompletions { count: 0, to_report: 0 };
}

impl Armed {
    #[inline]
    pub(super) fn wants(self, completion: &Completion) -> bool {
        match self {
            Armed::No => false,
            Armed::Any => true,
            Armed::Solicited => completion.solicited || completion.status != Status::Success,
        }
    }
}

impl RingState {
    pub(super) fn new(capacity: u32, timestamps: bool) -> RingState {
        RingState {
            completions: VecDeque::new(),
            stamps: timestamps.then(VecDeque::new),
            capacity,
            armed: Armed::No,
            unreported: 0,
            polled: 0,
            event_of: None,
            waker: None,
            overrun: false,
            retired: false,
        }
    }

    pub(super) fn check(&self) -> Result<(), CqError> {
        match (self.retired, self.overrun) {
            (true, _) => Err(CqError::Destroyed),
            (_, true) => Err(CqError::Overrun),
            _ => Ok(()),
        }
    }

    /// Notes that a completion found no room. Whether it is the first one that is lost.
    #[cold]
    pub(super) fn note_overrun(&mut self) -> bool {
        !self.retired && !std::mem::replace(&mut self.overrun, true)
    }

    /// The newest completion sends an event, and the next ones do not.
    #[inline]
    pub(super) fn disarm(&mut self) {
        let newest = self.polled + self.completions.len() as u64 - 1;
        self.event_of.get_or_insert(newest);
        self.armed = Armed::No;
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.completions.len() < self.capacity as usize && !self.retired && !self.overrun
    }

    #[inline]
    pub(super) fn push(&mut self, completion: Completion) {
        self.completions.push_back(completion);
        if let Some(stamps) = &mut self.stamps {
            stamps.push_back(clock::now().0);
        }
    }

    /// Takes at most `max` completions out and hands each to `each`, with its timestamp or zero.
    #[inline]
    pub(super) fn take(
        &mut self,
        max: usize,
        mut each: impl FnMut(&Completion, u64),
    ) -> Result<PolledCompletions, CqError> {
        let count = self.completions.len().min(max);
        if count == 0 {
            self.check()?;
        }
        let taken = self.completions.drain(..count);
        match &mut self.stamps {
            None => taken.for_each(|completion| each(&completion, 0)),
            Some(stamps) => {
                taken.zip(stamps.drain(..count)).for_each(|(completion, stamp)| each(&completion, stamp));
            }
        }
        self.polled += count as u64;
        if self.event_of.is_some_and(|number| number < self.polled) {
            self.event_of = None;
        }
        self.unreported += count as u32;
        let is_due = self.unreported >= TAKEN_TO_REPORT;
        Ok(PolledCompletions { count, to_report: if is_due { std::mem::take(&mut self.unreported) } else { 0 } })
    }

    /// Drops the completions of a queue pair. With `shared_recv` it keeps flushed receives.
    pub(super) fn forget(&mut self, qpn: Qpn, shared_recv: bool) {
        let gives_back = |c: &Completion| c.status == Status::WorkRequestFlushed && c.op == CompletionOp::Recv;
        let kept = |c: &Completion| c.qpn != qpn || (shared_recv && gives_back(c));
        if let Some(stamps) = &mut self.stamps {
            let mut kept = self.completions.iter().map(kept);
            stamps.retain(|_| kept.next().unwrap_or(true));
        }
        self.completions.retain(kept);
        self.event_of = None;
    }
}
