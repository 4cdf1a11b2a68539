//! The queue that events wait in.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::task::Waker;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use crate::connections::IdKey;
use crate::error::Error;
use crate::event::{EventDetails, EventKind, Param};
use crate::id::{Id, IdHandle};
use crate::takeover::is_taken_from;

/// An event of an id.
#[derive(Clone, Debug)]
pub struct Event {
    /// The id. That of a [`ConnectRequest`](EventKind::ConnectRequest) is the new one, and this its only
    /// handle: dropping the event rejects the request.
    pub id: Id,
    /// The listening id of a connect request.
    pub listener: Option<Id>,
    /// The kind of event.
    pub kind: EventKind,
    /// Zero; a negative errno; or the reason of a rejection, positive.
    pub status: i32,
    /// The event's parameters.
    pub param: Param,
}

/// A queue of events: an event channel of `rdma_create_event_channel(3)`. Clones are the same queue.
#[derive(Clone, Debug)]
pub struct EventQueue {
    shared: Arc<SharedQueue>,
}

#[derive(Debug)]
struct SharedQueue {
    /// The process that made the queue. A forked child has the descriptor, which it shares with its parent, but no
    /// events.
    process: u32,
    signal: OwnedFd,
    events: Mutex<VecDeque<QueuedEvent>>,
    waker: Mutex<Option<Waker>>,
}

/// An event that was not fetched. It keeps no id alive but the new one of a connect request.
#[derive(Debug)]
pub(crate) struct QueuedEvent {
    /// The id whose owner gets the event: for a new id, the listener.
    pub(crate) owner: IdKey,
    pub(crate) id: EventId,
    pub(crate) details: EventDetails,
}

/// The id of a queued event.
#[derive(Debug)]
pub(crate) enum EventId {
    /// An id that its owner holds.
    Known(Weak<IdHandle>),
    /// A new id, and the listener that got the request.
    New { id: Id, listener: Weak<IdHandle> },
}

impl QueuedEvent {
    /// The key of a new id.
    pub(crate) fn new_id(&self) -> Option<IdKey> {
        match &self.id {
            EventId::New { id, .. } => Some(id.key()),
            EventId::Known(_) => None,
        }
    }

    /// The event for the caller; `None` if the id is gone.
    fn open(self) -> Option<Event> {
        let (id, listener) = match self.id {
            EventId::Known(handle) => (Id::of(handle.upgrade()?), None),
            EventId::New { id, listener } => {
                let listener = listener.upgrade()?;
                listener.count_fetched();
                (id, Some(Id::of(listener)))
            }
        };
        let EventDetails { kind, status, param } = self.details;
        Some(Event { id, listener, kind, status, param })
    }
}

impl EventQueue {
    /// An empty queue.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> Result<EventQueue, Error> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let signal = eventfd(0, flags).map_err(std::io::Error::from)?;
        let process = std::process::id();
        let shared = SharedQueue { process, signal, events: Mutex::default(), waker: Mutex::default() };
        Ok(EventQueue { shared: Arc::new(shared) })
    }

    /// Whether this process made the queue, or has [taken it over](crate::take_over). Other children get no events
    /// from it.
    pub fn is_ours(&self) -> bool {
        let maker = self.shared.process;
        maker == std::process::id() || is_taken_from(maker)
    }

    /// Takes the oldest event. Never waits.
    #[allow(clippy::should_implement_trait, reason = "an iterator would look finished between events")]
    pub fn next(&self) -> Option<Event> {
        if !self.is_ours() {
            return None;
        }
        loop {
            let queued = {
                let mut events = self.shared.events.lock();
                let queued = events.pop_front()?;
                self.lower();
                queued
            };
            if let Some(event) = queued.open() {
                return Some(event);
            }
        }
    }

    /// A descriptor that is readable exactly while the queue holds events. Do not read from it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.signal.as_fd()
    }

    /// Sets the waker for the next event; it is called once. Events in the queue do not call it: fetch them after
    /// setting it. It is called with locks held, so it must only pass the signal on.
    pub fn set_waker(&self, waker: Option<Waker>) {
        let old = std::mem::replace(&mut *self.shared.waker.lock(), waker);
        drop(old);
    }

    /// Whether both are the same queue.
    pub fn is(&self, other: &EventQueue) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn push(&self, event: QueuedEvent) {
        {
            let mut events = self.shared.events.lock();
            events.push_back(event);
            // Fails only at 2^64 - 2 events.
            let _ = rustix::io::write(&self.shared.signal, &1u64.to_ne_bytes());
        }
        let waker = self.shared.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes all events for an id's owner. The caller must drop them with no lock held.
    pub(crate) fn take_of(&self, owner: IdKey) -> Vec<QueuedEvent> {
        self.take(|queued| queued.owner == owner)
    }

    /// Takes some events. The caller must drop them with no lock held if they may hold ids.
    pub(crate) fn take(&self, which: impl FnMut(&QueuedEvent) -> bool) -> Vec<QueuedEvent> {
        let mut events = self.shared.events.lock();
        let (taken, kept): (Vec<_>, Vec<_>) = events.drain(..).partition(which);
        events.extend(kept);
        taken.iter().for_each(|_| self.lower());
        taken
    }

    /// Takes one from the descriptor's count, which the events' lock keeps equal to their number.
    fn lower(&self) {
        let _ = rustix::io::read(&self.shared.signal, &mut [0; 8]);
    }
}
