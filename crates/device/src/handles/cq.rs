//! Completion queues.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::task::Waker;
use std::time::Duration;

use transport::Completion;

use crate::engine::EngineRef;
use crate::engine::nap::NAP;
use crate::error::{CqError, Error};
use crate::handles::channel::CompChannel;
use crate::objects::cq::{Added, CompletionRing, PolledCompletions, RingParts, check_capacity};
use crate::objects::events::AsyncEvents;
use crate::objects::ids::CqId;
use crate::objects::users::{Counted, Lease};

/// The attributes of a new completion queue.
#[derive(Clone, Copy, Debug)]
pub struct CqSpec<'a> {
    /// The number of completions that fit.
    pub capacity: u32,
    /// The channel that its events go to.
    pub channel: Option<&'a CompChannel>,
    /// The value that its events carry.
    pub cookie: u64,
    /// Whether the queue keeps the time at which each completion is added; see [`Cq::poll_each`].
    pub timestamps: bool,
}

/// A completion queue.
#[derive(Clone, Debug)]
pub struct Cq {
    handle: Arc<CqHandle>,
}

/// The owner's hold. Pending events go away with the last clone.
#[derive(Debug)]
struct CqHandle {
    ring: Arc<CompletionRing>,
    engine: EngineRef,
}

impl Cq {
    pub(crate) fn new(engine: &EngineRef, events: &Arc<AsyncEvents>, spec: &CqSpec<'_>) -> Result<Cq, Error> {
        engine.check()?;
        check_capacity(spec.capacity)?;
        let permit = engine.quotas.cqs.take()?;
        let parts = RingParts {
            id: CqId(engine.next_id()),
            cookie: spec.cookie,
            capacity: spec.capacity,
            timestamps: spec.timestamps,
            channel: spec.channel.map(|channel| channel.lease(engine)).transpose()?,
            events: events.clone(),
            permit,
        };
        let ring = Arc::new(CompletionRing::new(parts));
        Ok(Cq { handle: Arc::new(CqHandle { engine: engine.clone(), ring }) })
    }

    #[inline]
    fn ring(&self) -> &Arc<CompletionRing> {
        &self.handle.ring
    }

    /// A child's hold, if this is a completion queue of that engine.
    pub(crate) fn lease(&self, engine: &EngineRef) -> Result<Lease<CompletionRing>, Error> {
        if !engine.is_same(&self.handle.engine) {
            return Err(Error::OtherDevice(CompletionRing::WHAT));
        }
        Lease::new(self.ring())
    }

    /// Its number.
    pub fn id(&self) -> CqId {
        self.ring().id()
    }

    /// The cookie that it was made with.
    pub fn cookie(&self) -> u64 {
        self.ring().cookie()
    }

    /// Moves at most `max` completions to the end of `out` and returns how many.
    ///
    /// If the queue is empty, this drives the device once: it receives packets, handles and answers them. It does not
    /// wait. After an overrun it returns the completions that had room first.
    ///
    /// # Errors
    /// See [`CqError`].
    #[inline]
    pub fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        self.poll_each(max, |completion, _| out.push(*completion))
    }

    /// Polls as [`poll`](Cq::poll) does, for a program that tells how long it has nothing else to do.
    ///
    /// On a busy machine it naps for `longest` at most, and [`poll`](Cq::poll) for some milliseconds. The nap ends when something
    /// arrives, or when a peer on this host changes this process's memory. A program that polls several queues or
    /// descriptors in turn wants no nap.
    ///
    /// # Errors
    /// See [`CqError`].
    pub fn poll_for(&self, out: &mut Vec<Completion>, max: usize, longest: Duration) -> Result<usize, CqError> {
        let CqHandle { engine, ring } = &*self.handle;
        if ring.is_empty() && engine.check().is_ok() {
            match longest {
                Duration::ZERO => {
                    engine.progress();
                }
                _ => engine.progress_for(ring.len(), longest),
            }
            if ring.is_empty() && ring.is_seen_empty()? {
                return Ok(0);
            }
        }
        self.poll(out, max)
    }

    /// Drives the device for a program that has polled in vain and would poll again. Takes no completion.
    ///
    /// On a busy machine it naps until something arrives, for a few milliseconds at most.
    pub fn rest(&self) {
        let CqHandle { engine, ring } = &*self.handle;
        if ring.is_empty() && engine.check().is_ok() {
            engine.progress_for(ring.len(), NAP);
        }
    }

    /// Polls as [`poll`](Cq::poll) does, and hands each completion to `each` with its timestamp.
    ///
    /// The timestamp is the time at which the completion was added, in nanoseconds of the monotonic clock. It is 0 if
    /// the queue was made without timestamps. The queue is locked meanwhile, so `each` must not use it.
    ///
    /// # Errors
    /// See [`CqError`].
    #[inline]
    pub fn poll_each(&self, max: usize, each: impl FnMut(&Completion, u64)) -> Result<usize, CqError> {
        let CqHandle { engine, ring } = &*self.handle;
        engine.check().map_err(|_| CqError::Forked)?;
        if ring.is_empty() {
            engine.progress_for(ring.len(), NAP);
            if ring.is_empty() && ring.is_seen_empty()? {
                return Ok(0);
            }
        } else {
            engine.send_deferred_requests();
        }
        Ok(self.report(ring.take(max, each)?))
    }

    /// Continues a batch that [`poll_each`](Cq::poll_each) began: takes the next completion if there is one.
    ///
    /// It does not drive the device. It leaves a completion whose event nobody has fetched: the thread that fetches
    /// the event polls for it.
    ///
    /// # Errors
    /// See [`CqError`].
    pub fn poll_on(&self, each: impl FnMut(&Completion, u64)) -> Result<usize, CqError> {
        let CqHandle { engine, ring } = &*self.handle;
        engine.check().map_err(|_| CqError::Forked)?;
        if ring.is_empty() && ring.is_seen_empty()? {
            return Ok(0);
        }
        Ok(self.report(ring.take_without_event(each)?))
    }

    /// Tells the engine now and then how many completions the application takes.
    #[inline]
    fn report(&self, taken: PolledCompletions) -> usize {
        if taken.to_report > 0 {
            self.handle.engine.application_took(taken.to_report);
        }
        taken.count
    }

    /// Asks for one event on the channel, and one call of the waker, at the next completion that is added.
    ///
    /// With `solicited_only` it is the next completion that is solicited or has failed. A queue that is armed for any
    /// completion stays so (IB specification 11.4.2.2).
    ///
    /// Completions that are there already cause no event, with one exception. A program may poll, find nothing, arm,
    /// and sleep without another poll; UCX does so. Completions that were added between its last poll and the arming
    /// cause the event at once.
    ///
    /// # Errors
    /// See [`CqError`]. A queue that has overrun cannot be armed.
    pub fn arm(&self, solicited_only: bool) -> Result<(), CqError> {
        let CqHandle { engine, ring } = &*self.handle;
        engine.check().map_err(|_| CqError::Forked)?;
        if ring.arm(solicited_only)? == Added::Notify {
            ring.notify();
        }
        engine.application_may_block();
        Ok(())
    }

    /// Sets the waker, which is called once, at the next completion after [`arm`](Cq::arm).
    pub fn set_waker(&self, waker: Option<Waker>) {
        if self.handle.engine.check().is_ok() {
            self.ring().set_waker(waker);
        }
    }

    /// The events that were taken from the channel and have no ACK yet.
    pub fn unacked_events(&self) -> u32 {
        self.ring().unacked_events()
    }

    /// ACKs `count` events, or all if there are fewer.
    pub fn ack_events(&self, count: u32) {
        self.ring().ack_events(count);
    }

    /// The number of completions that fit.
    pub fn capacity(&self) -> u32 {
        self.ring().capacity()
    }

    /// The number of completions that a poll would find.
    pub fn len(&self) -> u32 {
        self.ring().len().load(Acquire)
    }

    /// Whether there is no completion.
    pub fn is_empty(&self) -> bool {
        self.ring().is_empty()
    }

    /// Changes the capacity.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the queue holds more completions than that, [`Error::Limit`] above the limit.
    pub fn resize(&self, capacity: u32) -> Result<(), Error> {
        self.handle.engine.check()?;
        check_capacity(capacity)?;
        self.ring().resize(capacity)
    }

    /// Destroys it. Completions that nobody has polled are lost.
    ///
    /// # Errors
    /// [`Error::Busy`] while queue pairs use it.
    pub fn destroy(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        self.ring().users().close(CompletionRing::WHAT)?;
        self.ring().retire();
        Ok(())
    }
}

impl Drop for CqHandle {
    fn drop(&mut self) {
        if self.engine.check().is_ok() {
            self.ring.retire();
        }
    }
}
