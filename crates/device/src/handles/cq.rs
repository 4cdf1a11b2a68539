//! Completion queues: a bounded ring, its arming, and whom to tell.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::task::Waker;

use memory::QuickMutex;
use transport::{Completion, CompletionOp, Status};
use wire::Qpn;

use crate::clock;
use crate::engine::EngineRef;
use crate::error::{CqError, Error};
use crate::handles::channel::{ChannelShared, CompChannel};
use crate::objects::events::{AsyncEvent, EventQueue};
use crate::objects::limits::LIMITS;
use crate::objects::quota::Place;
use crate::objects::users::{Counted, Lease, Users};

/// The number of a completion queue within its process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CqId(pub u32);

/// What a completion queue is made with.
#[derive(Clone, Copy, Debug)]
pub struct CqSpec<'a> {
    /// Completions that fit.
    pub capacity: u32,
    /// Where its events go.
    pub channel: Option<&'a CompChannel>,
    /// What its events carry.
    pub cookie: u64,
    /// The time at which each completion is added is kept; see [`Cq::poll_each`].
    pub timestamps: bool,
}

/// The engine is told of completions that the application takes when there were so many.
const TAKEN_TO_TELL: u32 = 16;

/// A completion queue.
#[derive(Clone, Debug)]
pub struct Cq {
    handle: Arc<Handle>,
}

/// The owner's hold: when the last clone goes, pending events go with it.
#[derive(Debug)]
struct Handle {
    shared: Arc<CqShared>,
}

/// What queue pairs and the engine see of a completion queue.
pub(crate) struct CqShared {
    id: CqId,
    cookie: u64,
    engine: EngineRef,
    channel: Option<Lease<ChannelShared>>,
    events: Arc<EventQueue>,
    users: Users,
    _place: Place,
    unacked: AtomicU32,
    /// Length of the ring, to see without the lock that there is nothing.
    len: AtomicU32,
    /// It is destroyed or has overrun: look closer.
    trouble: AtomicBool,
    /// The last poll found that nothing was left, and there was no event since.
    found_empty: AtomicBool,
    state: QuickMutex<State>,
}

struct State {
    ring: VecDeque<Completion>,
    /// When each of them was added, if that is kept.
    stamps: Option<VecDeque<u64>>,
    capacity: u32,
    armed: Armed,
    /// Completions taken that the engine was not told of.
    taken: u32,
    /// All completions taken: the number of the first one in the ring.
    polled: u64,
    /// The number of the completion that brought an event, until somebody fetches the event.
    told: Option<u64>,
    waker: Option<Waker>,
    overrun: bool,
    /// Nobody can poll any more: completions are not kept.
    retired: bool,
}

/// Which completion brings the next event (IB specification 11.4.2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Armed {
    No,
    Solicited,
    Any,
}

/// What came of adding a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Added {
    /// It is there, and nobody waits for it.
    Quiet,
    /// It is there; call [`CqShared::notify`] when no lock is held.
    Notify,
    /// There was no room, for the first time.
    Overrun,
}

impl Counted for CqShared {
    const WHAT: &'static str = "completion queue";

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Cq {
    pub(crate) fn new(engine: &EngineRef, events: &Arc<EventQueue>, spec: &CqSpec<'_>) -> Result<Cq, Error> {
        engine.check()?;
        check_capacity(spec.capacity)?;
        let place = engine.quotas.cqs.take()?;
        let channel = spec.channel.map(|channel| lease_channel(engine, channel)).transpose()?;
        let state = State {
            ring: VecDeque::new(),
            stamps: spec.timestamps.then(VecDeque::new),
            capacity: spec.capacity,
            armed: Armed::No,
            taken: 0,
            polled: 0,
            told: None,
            waker: None,
            overrun: false,
            retired: false,
        };
        let shared = CqShared {
            id: CqId(engine.next_id()),
            cookie: spec.cookie,
            engine: engine.clone(),
            channel,
            events: events.clone(),
            users: Users::default(),
            _place: place,
            unacked: AtomicU32::new(0),
            len: AtomicU32::new(0),
            trouble: AtomicBool::new(false),
            found_empty: AtomicBool::new(false),
            state: QuickMutex::new(state),
        };
        Ok(Cq { handle: Arc::new(Handle { shared: Arc::new(shared) }) })
    }

    pub(crate) fn shared(&self) -> &Arc<CqShared> {
        &self.handle.shared
    }

    /// Its number.
    pub fn id(&self) -> CqId {
        self.shared().id
    }

    /// The cookie it was made with.
    pub fn cookie(&self) -> u64 {
        self.shared().cookie
    }

    /// Moves at most `max` completions to the end of `out` and returns how many. If there
    /// are none the device is driven once: packets received, handled and answered.
    ///
    /// Never waits. After an overrun the completions that had room come out first.
    ///
    /// # Errors
    /// See [`CqError`].
    #[inline]
    pub fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        self.poll_each(max, |completion, _| out.push(*completion))
    }

    /// As [`poll`](Cq::poll), but on a busy machine it does not nap either: for whoever looks at several queues or
    /// descriptors in turn, each of which may have something.
    ///
    /// # Errors
    /// See [`CqError`].
    pub fn poll_awake(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        let shared = &*self.handle.shared;
        if shared.len.load(Acquire) == 0 && shared.engine.check().is_ok() {
            shared.engine.progress();
            if shared.len.load(Acquire) == 0 {
                return shared.nothing();
            }
        }
        self.poll(out, max)
    }

    /// For who has polled in vain and would poll again: drives the device, and on a busy machine naps until something
    /// arrives, for a few milliseconds at most. Takes nothing.
    pub fn rest(&self) {
        let shared = &*self.handle.shared;
        if shared.len.load(Acquire) == 0 && shared.engine.check().is_ok() {
            shared.engine.progress_for(&shared.len);
        }
    }

    /// As [`poll`](Cq::poll), but hands each completion to `each`, with the time at which it was
    /// added in nanoseconds of the monotonic clock; 0 if the queue was made without timestamps.
    ///
    /// The queue is locked meanwhile: `each` must not use it.
    ///
    /// # Errors
    /// See [`CqError`].
    #[inline]
    pub fn poll_each(&self, max: usize, each: impl FnMut(&Completion, u64)) -> Result<usize, CqError> {
        let shared = &*self.handle.shared;
        shared.engine.check().map_err(|_| CqError::Forked)?;
        if shared.len.load(Acquire) == 0 {
            shared.engine.progress_for(&shared.len);
            if shared.len.load(Acquire) == 0 {
                return shared.nothing();
            }
        } else {
            shared.engine.send_requests_put_off();
        }
        shared.take(&mut shared.state.lock(), max, each)
    }

    /// Goes on with a batch that [`poll_each`](Cq::poll_each) began: takes the next completion if it is
    /// there. Does not drive the device, and leaves a completion whose event nobody fetched yet:
    /// who fetches that event polls for it.
    ///
    /// # Errors
    /// See [`CqError`].
    pub fn poll_on(&self, each: impl FnMut(&Completion, u64)) -> Result<usize, CqError> {
        let shared = &*self.handle.shared;
        shared.engine.check().map_err(|_| CqError::Forked)?;
        if shared.len.load(Acquire) == 0 {
            return shared.nothing();
        }
        let mut state = shared.state.lock();
        if state.told == Some(state.polled) { Ok(0) } else { shared.take(&mut state, 1, each) }
    }

    /// Asks for one event on the channel (and one call of the waker) at the next completion
    /// that is added from now on; with `solicited_only`, at the next one that is solicited or
    /// has failed. A queue that is armed for any completion stays so
    /// (IB specification 11.4.2.2).
    ///
    /// Completions that are there already cause no event, with one exception. A program may
    /// poll, find nothing, arm, and sleep without polling again; UCX does so. Completions
    /// added between its last look and the arming cause the event at once.
    ///
    /// # Errors
    /// See [`CqError`]; a queue that overran cannot be armed.
    pub fn arm(&self, solicited_only: bool) -> Result<(), CqError> {
        let shared = self.shared();
        shared.engine.check().map_err(|_| CqError::Forked)?;
        let wanted = if solicited_only { Armed::Solicited } else { Armed::Any };
        let unseen = {
            let mut state = shared.state.lock();
            state.check()?;
            state.armed = state.armed.max(wanted);
            shared.fire_for_unseen(&mut state)
        };
        if unseen == Added::Notify {
            shared.notify();
        }
        shared.engine.application_may_block();
        Ok(())
    }

    /// The waker to call, once, at the next completion after [`arm`](Cq::arm).
    pub fn set_waker(&self, waker: Option<Waker>) {
        if self.shared().engine.check().is_ok() {
            let old = std::mem::replace(&mut self.shared().state.lock().waker, waker);
            drop(old);
        }
    }

    /// Events taken from the channel and not yet acknowledged.
    pub fn unacked_events(&self) -> u32 {
        self.shared().unacked.load(Acquire)
    }

    /// Acknowledges `count` events; more than there are counts as all.
    pub fn ack_events(&self, count: u32) {
        let _ = self.shared().unacked.fetch_update(Release, Relaxed, |n| Some(n.saturating_sub(count)));
    }

    /// Completions that fit.
    pub fn capacity(&self) -> u32 {
        self.shared().state.lock().capacity
    }

    /// Completions that are there.
    pub fn len(&self) -> u32 {
        self.shared().len.load(Acquire)
    }

    /// Whether no completion is there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Changes the capacity.
    ///
    /// # Errors
    /// [`Error::Invalid`] below what is there, [`Error::Limit`] above the limit.
    pub fn resize(&self, capacity: u32) -> Result<(), Error> {
        self.shared().engine.check()?;
        check_capacity(capacity)?;
        let mut state = self.shared().state.lock();
        if state.ring.len() > capacity as usize {
            return Err(Error::Invalid("the completion queue holds more completions than that"));
        }
        state.capacity = capacity;
        Ok(())
    }

    /// Destroys it; completions that are still there are lost.
    ///
    /// # Errors
    /// [`Error::Busy`] while queue pairs use it.
    pub fn destroy(&self) -> Result<(), Error> {
        let shared = self.shared();
        shared.engine.check()?;
        shared.users.close(CqShared::WHAT)?;
        shared.retire();
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.engine.check().is_ok() {
            self.shared.retire();
        }
    }
}

impl CqShared {
    pub(crate) fn engine(&self) -> &EngineRef {
        &self.engine
    }

    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Somebody fetched an event.
    pub(crate) fn note_event(&self) {
        self.unacked.fetch_add(1, Relaxed);
        self.state.lock().told = None;
    }

    /// Adds a completion. Called with a queue pair locked: does nothing but that.
    #[inline]
    pub(crate) fn add(&self, completion: Completion) -> Added {
        let mut state = self.state.lock();
        if state.ring.len() >= state.capacity as usize || state.retired || state.overrun {
            self.trouble.store(true, Release);
            return state.refuse();
        }
        state.ring.push_back(completion);
        if let Some(stamps) = &mut state.stamps {
            stamps.push_back(clock::now().0);
        }
        self.len.store(state.ring.len() as u32, Release);
        if state.armed.wants(&completion) { self.fire(&mut state) } else { Added::Quiet }
    }

    #[inline]
    fn fire(&self, state: &mut State) -> Added {
        let newest = state.polled + state.ring.len() as u64 - 1;
        state.told.get_or_insert(newest);
        state.armed = Armed::No;
        self.found_empty.store(false, Relaxed);
        Added::Notify
    }

    /// Fires for what came after a poll that found nothing left, and without an event since.
    fn fire_for_unseen(&self, state: &mut State) -> Added {
        if !self.found_empty.load(Relaxed) {
            return Added::Quiet;
        }
        let armed = state.armed;
        if state.ring.iter().any(|completion| armed.wants(completion)) { self.fire(state) } else { Added::Quiet }
    }

    /// Tells those who wait. Called with no lock held: wakers run foreign code.
    pub(crate) fn notify(self: &Arc<Self>) {
        let waker = self.state.lock().waker.take();
        if let Some(channel) = &self.channel {
            channel.push(self.clone());
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Tells the owner that completions were lost; the waiting are woken to see it.
    pub(crate) fn report_overrun(self: &Arc<Self>) {
        self.events.push(AsyncEvent::CqError { cq: self.id, cookie: self.cookie });
        self.notify();
    }

    #[inline]
    fn take(&self, state: &mut State, max: usize, mut each: impl FnMut(&Completion, u64)) -> Result<usize, CqError> {
        let count = state.ring.len().min(max);
        if count == 0 {
            state.check()?;
        }
        let taken = state.ring.drain(..count);
        match &mut state.stamps {
            None => taken.for_each(|completion| each(&completion, 0)),
            Some(stamps) => {
                taken.zip(stamps.drain(..count)).for_each(|(completion, stamp)| each(&completion, stamp));
            }
        }
        self.len.store(state.ring.len() as u32, Release);
        self.found_empty.store(count < max, Relaxed);
        state.polled += count as u64;
        if state.told.is_some_and(|told| told < state.polled) {
            state.told = None;
        }
        state.taken += count as u32;
        if state.taken >= TAKEN_TO_TELL {
            self.engine.application_took(std::mem::take(&mut state.taken));
        }
        Ok(count)
    }

    /// An empty queue: well, or in error.
    #[inline]
    fn nothing(&self) -> Result<usize, CqError> {
        if !self.found_empty.load(Relaxed) {
            self.found_empty.store(true, Relaxed);
        }
        if self.trouble.load(Acquire) { self.what_is_wrong() } else { Ok(0) }
    }

    #[cold]
    fn what_is_wrong(&self) -> Result<usize, CqError> {
        if self.users.is_closed() {
            return Err(CqError::Destroyed);
        }
        self.state.lock().check().map(|()| 0)
    }

    /// Drops the completions of a queue pair that begins anew: nobody must take what
    /// belongs to its former life for something of the new one.
    /// What only gives back a receive of a shared queue (`shared_recv`) is kept.
    pub(crate) fn forget(&self, qpn: Qpn, shared_recv: bool) {
        let gives_back = |c: &Completion| c.status == Status::WorkRequestFlushed && c.op == CompletionOp::Recv;
        let kept = |c: &Completion| c.qpn != qpn || (shared_recv && gives_back(c));
        let mut state = self.state.lock();
        let State { ring, stamps, .. } = &mut *state;
        if let Some(stamps) = stamps {
            let mut kept = ring.iter().map(kept);
            stamps.retain(|_| kept.next().unwrap_or(true));
        }
        ring.retain(kept);
        state.told = None;
        self.len.store(state.ring.len() as u32, Release);
    }

    fn retire(&self) {
        let waker = {
            let mut state = self.state.lock();
            self.trouble.store(true, Release);
            state.retired = true;
            state.ring = VecDeque::new();
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

impl Armed {
    #[inline]
    fn wants(self, completion: &Completion) -> bool {
        match self {
            Armed::No => false,
            Armed::Any => true,
            Armed::Solicited => completion.solicited || completion.status != Status::Success,
        }
    }
}

impl State {
    fn check(&self) -> Result<(), CqError> {
        match (self.retired, self.overrun) {
            (true, _) => Err(CqError::Destroyed),
            (_, true) => Err(CqError::Overrun),
            _ => Ok(()),
        }
    }

    #[cold]
    fn refuse(&mut self) -> Added {
        if self.retired || self.overrun {
            return Added::Quiet;
        }
        self.overrun = true;
        Added::Overrun
    }
}

impl std::fmt::Debug for CqShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cq").field("id", &self.id.0).field("cookie", &self.cookie).finish_non_exhaustive()
    }
}

fn check_capacity(capacity: u32) -> Result<(), Error> {
    match capacity {
        0 => Err(Error::Invalid("a completion queue needs room for at least one completion")),
        n if n > LIMITS.max_cqe => {
            Err(Error::Limit { what: "completion queue size", asked: n.into(), max: LIMITS.max_cqe.into() })
        }
        _ => Ok(()),
    }
}

fn lease_channel(engine: &EngineRef, channel: &CompChannel) -> Result<Lease<ChannelShared>, Error> {
    if !engine.is_same(channel.shared.engine()) {
        return Err(Error::OtherDevice(ChannelShared::WHAT));
    }
    Lease::new(&channel.shared)
}
