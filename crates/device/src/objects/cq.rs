//! The ring of a completion queue, its arming, and its notifications.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::task::Waker;

use memory::QuickMutex;
use transport::Completion;
use wire::Qpn;

use crate::error::{CqError, Error};
use crate::objects::channel::CompletionEvents;
pub(crate) use crate::objects::cq_state::PolledCompletions;
use crate::objects::cq_state::{Armed, RingState};
use crate::objects::events::{AsyncEvent, AsyncEvents};
use crate::objects::ids::CqId;
use crate::objects::limits::LIMITS;
use crate::objects::quota::QuotaPermit;
use crate::objects::users::{Counted, Lease, UserCount};

/// The channel of completion queues.
pub(crate) type CqChannel = CompletionEvents<CompletionRing>;

/// A completion queue as queue pairs and the engine see it.
pub(crate) struct CompletionRing {
    id: CqId,
    cookie: u64,
    channel: Option<Lease<CqChannel>>,
    events: Arc<AsyncEvents>,
    users: UserCount,
    _permit: QuotaPermit,
    unacked_events: AtomicU32,
    /// The number of completions, so that an empty ring shows without its lock.
    len: AtomicU32,
    /// The ring was destroyed or has overrun: the state below tells which.
    broken: AtomicBool,
    /// The last poll left nothing behind, and no event was sent since. It changes under the lock only.
    seen_empty: AtomicBool,
    state: QuickMutex<RingState>,
}

/// The values that a completion ring is made from.
pub(crate) struct RingParts {
    pub(crate) id: CqId,
    pub(crate) cookie: u64,
    pub(crate) capacity: u32,
    /// Whether the time of each completion is kept.
    pub(crate) timestamps: bool,
    pub(crate) channel: Option<Lease<CqChannel>>,
    pub(crate) events: Arc<AsyncEvents>,
    pub(crate) permit: QuotaPermit,
}

/// The result of adding a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Added {
    /// The ring holds it, and no event is due.
    Quiet,
    /// The ring holds it. The caller must call [`CompletionRing::notify`] once it holds no lock.
    Notify,
    /// The ring was full for the first time. The completion is lost.
    Overrun,
}

impl Counted for CompletionRing {
    const WHAT: &'static str = "completion queue";

    fn users(&self) -> &UserCount {
        &self.users
    }
}

impl CompletionRing {
    pub(crate) fn new(parts: RingParts) -> CompletionRing {
        let state = RingState::new(parts.capacity, parts.timestamps);
        CompletionRing {
            id: parts.id,
            cookie: parts.cookie,
            channel: parts.channel,
            events: parts.events,
            users: UserCount::default(),
            _permit: parts.permit,
            unacked_events: AtomicU32::new(0),
            len: AtomicU32::new(0),
            broken: AtomicBool::new(false),
            seen_empty: AtomicBool::new(false),
            state: QuickMutex::new(state),
        }
    }

    pub(crate) fn id(&self) -> CqId {
        self.id
    }

    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.state.lock().capacity
    }

    /// The number of completions, kept up to date under the ring's lock.
    #[inline]
    pub(crate) fn len(&self) -> &AtomicU32 {
        &self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Acquire) == 0
    }

    /// Adds a completion. The caller has a queue pair locked, so this calls nothing else.
    #[inline]
    pub(crate) fn add(&self, completion: Completion) -> Added {
        let mut state = self.state.lock();
        if !state.has_room() {
            self.broken.store(true, Release);
            let is_first = state.note_overrun();
            return if is_first { Added::Overrun } else { Added::Quiet };
        }
        state.push(completion);
        self.len.store(state.completions.len() as u32, Release);
        if state.armed.wants(&completion) { self.fire(&mut state) } else { Added::Quiet }
    }

    /// Takes at most `max` completions out and hands each to `each`, with its timestamp or zero.
    #[inline]
    pub(crate) fn take(&self, max: usize, each: impl FnMut(&Completion, u64)) -> Result<PolledCompletions, CqError> {
        self.take_locked(&mut self.state.lock(), max, each)
    }

    /// Takes the next completion, unless it has sent an event that nobody has fetched.
    pub(crate) fn take_without_event(&self, each: impl FnMut(&Completion, u64)) -> Result<PolledCompletions, CqError> {
        let mut state = self.state.lock();
        if state.event_of == Some(state.polled) {
            Ok(PolledCompletions::NONE)
        } else {
            self.take_locked(&mut state, 1, each)
        }
    }

    #[inline]
    fn take_locked(
        &self,
        state: &mut RingState,
        max: usize,
        each: impl FnMut(&Completion, u64),
    ) -> Result<PolledCompletions, CqError> {
        let polled = state.take(max, each)?;
        self.len.store(state.completions.len() as u32, Release);
        self.seen_empty.store(polled.count < max, Relaxed);
        Ok(polled)
    }

    /// Notes that a poll found the ring empty, and tells whether it still is. If not, a completion came meanwhile.
    ///
    /// # Errors
    /// If the ring is empty because it was destroyed or has overrun.
    #[inline]
    pub(crate) fn is_seen_empty(&self) -> Result<bool, CqError> {
        if !self.seen_empty.load(Relaxed) && !self.note_empty() {
            return Ok(false);
        }
        if self.broken.load(Acquire) { self.why_broken().map(|()| true) } else { Ok(true) }
    }

    /// Only under the lock: a completion that comes at this moment, and its event, are either seen here or come later.
    fn note_empty(&self) -> bool {
        let state = self.state.lock();
        let is_empty = state.completions.is_empty();
        if is_empty {
            self.seen_empty.store(true, Relaxed);
        }
        is_empty
    }

    #[cold]
    fn why_broken(&self) -> Result<(), CqError> {
        if self.users.is_closed() {
            return Err(CqError::Destroyed);
        }
        self.state.lock().check()
    }

    /// Arms the ring for one event. [`Added::Notify`] if completions that the last poll did not see send it at once.
    pub(crate) fn arm(&self, solicited_only: bool) -> Result<Added, CqError> {
        let wanted = if solicited_only { Armed::Solicited } else { Armed::Any };
        let mut state = self.state.lock();
        state.check()?;
        state.armed = state.armed.max(wanted);
        Ok(self.fire_for_unseen(&mut state))
    }

    #[inline]
    fn fire(&self, state: &mut RingState) -> Added {
        state.disarm();
        self.seen_empty.store(false, Relaxed);
        Added::Notify
    }

    /// Fires for completions that came after a poll left nothing behind, if no event was sent since.
    fn fire_for_unseen(&self, state: &mut RingState) -> Added {
        if !self.seen_empty.load(Relaxed) {
            return Added::Quiet;
        }
        let armed = state.armed;
        if state.completions.iter().any(|completion| armed.wants(completion)) { self.fire(state) } else { Added::Quiet }
    }

    /// Sends the event and calls the waker. The caller holds no lock, since wakers run foreign code.
    pub(crate) fn notify(self: &Arc<Self>) {
        let waker = self.state.lock().waker.take();
        if let Some(channel) = &self.channel {
            channel.push(self.clone());
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Tells the owner that completions were lost, and wakes the threads that wait for some.
    pub(crate) fn report_overrun(self: &Arc<Self>) {
        self.events.push(AsyncEvent::CqError { cq: self.id, cookie: self.cookie });
        self.notify();
    }

    /// Replaces the waker.
    pub(crate) fn set_waker(&self, waker: Option<Waker>) {
        // The old one is foreign code: it must not be dropped under the lock.
        let old = std::mem::replace(&mut self.state.lock().waker, waker);
        drop(old);
    }

    /// Notes that the program has fetched an event of this ring.
    pub(crate) fn note_event_fetched(&self) {
        self.unacked_events.fetch_add(1, Relaxed);
        self.state.lock().event_of = None;
    }

    pub(crate) fn unacked_events(&self) -> u32 {
        self.unacked_events.load(Acquire)
    }

    /// ACKs `count` events, or all if there are fewer.
    pub(crate) fn ack_events(&self, count: u32) {
        let _ = self.unacked_events.fetch_update(Release, Relaxed, |n| Some(n.saturating_sub(count)));
    }

    /// Changes the capacity.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the ring holds more completions than that.
    pub(crate) fn resize(&self, capacity: u32) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.completions.len() > capacity as usize {
            return Err(Error::Invalid("the completion queue holds more completions than that"));
        }
        state.capacity = capacity;
        Ok(())
    }

    /// Drops the completions of a queue pair that goes to Reset, so that they are not taken for new ones.
    ///
    /// With `shared_recv` it keeps flushed receives: they give work requests of a shared queue back.
    pub(crate) fn forget(&self, qpn: Qpn, shared_recv: bool) {
        let mut state = self.state.lock();
        state.forget(qpn, shared_recv);
        self.len.store(state.completions.len() as u32, Release);
    }

    /// Forgets everything: no handle can poll the ring any more.
    pub(crate) fn retire(&self) {
        let waker = {
            let mut state = self.state.lock();
            self.broken.store(true, Release);
            state.retired = true;
            state.completions = VecDeque::new();
            state.stamps = None;
            self.len.store(0, Release);
            state.waker.take()
        };
        drop(waker);
        if let Some(channel) = &self.channel {
            channel.forget(self);
        }
        self.events.forget(|event| matches!(event, AsyncEvent::CqError { cq, .. } if *cq == self.id));
    }
}

impl std::fmt::Debug for CompletionRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cq").field("id", &self.id.0).field("cookie", &self.cookie).finish_non_exhaustive()
    }
}

/// Refuses a capacity that no completion queue can have.
pub(crate) fn check_capacity(capacity: u32) -> Result<(), Error> {
    match capacity {
        0 => Err(Error::Invalid("a completion queue needs room for at least one completion")),
        n if n > LIMITS.max_cqe => {
            Err(Error::Limit { what: "completion queue size", asked: n.into(), max: LIMITS.max_cqe.into() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use transport::CompletionOp;

    use super::*;
    use crate::objects::quota::Quota;

    fn ring() -> CompletionRing {
        CompletionRing::new(RingParts {
            id: CqId(1),
            cookie: 0,
            capacity: 16,
            timestamps: false,
            channel: None,
            events: Arc::new(AsyncEvents::new().expect("events")),
            permit: Quota::new("completion queues", 1).take().expect("a permit"),
        })
    }

    #[test]
    fn a_completion_that_comes_during_a_poll_sends_one_event() {
        const TURNS: u32 = 200_000;
        let ring = ring();
        let turn = AtomicU32::new(0);
        let mut late_events = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..TURNS {
                    while turn.load(Acquire) == number {
                        std::hint::spin_loop();
                    }
                    (0..number % 97).for_each(|_| std::hint::spin_loop());
                    ring.add(Completion::success(1, Qpn::GSI, CompletionOp::Send, 0));
                }
            });
            for _ in 0..TURNS {
                ring.arm(false).expect("a whole ring");
                turn.fetch_add(1, Release);
                while ring.is_empty() && ring.is_seen_empty().expect("a whole ring") {}
                // The completion has sent its event when it came.
                late_events += u32::from(ring.arm(false) == Ok(Added::Notify));
                ring.take(1, |_, _| {}).expect("a whole ring");
            }
        });
        assert_eq!(late_events, 0);
    }
}
