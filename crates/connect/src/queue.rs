//! The queue that events wait in.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::task::Waker;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use wire::Gid;

use crate::error::Error;
use crate::event::{Event, EventKind, Param};
use crate::id::{Handle, Id, IdKey};
use crate::process::takeover::is_taken_from;

/// A queue of events: an event channel of `rdma_create_event_channel(3)`. Clones are the same queue.
#[derive(Clone, Debug)]
pub struct EventQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// A forked child has the descriptor, which it shares with its parent, but no events.
    process: u32,
    signal: OwnedFd,
    pending: Mutex<VecDeque<Pending>>,
    waker: Mutex<Option<Waker>>,
}

/// An event that nobody has fetched. It keeps no id alive but one that nobody has seen yet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The id whose owner this event is for: the listener for a new id.
    pub(crate) owner: IdKey,
    pub(crate) whose: Whose,
    pub(crate) kind: EventKind,
    pub(crate) status: i32,
    pub(crate) param: Param,
}

/// Whose event it is.
#[derive(Debug)]
pub(crate) enum Whose {
    /// An id that its owner holds.
    Known(Weak<Handle>),
    /// A new one, and the listener that it came to.
    New {
        /// The new id.
        id: Id,
        /// The listener.
        listener: Weak<Handle>,
    },
}

impl Pending {
    /// Whether it says that this group is joined.
    pub(crate) fn is_join_of(&self, group: Gid) -> bool {
        let joined = |param: &Param| matches!(param, Param::Datagram(joined) if joined.address.destination == group);
        self.kind == EventKind::MulticastJoin && joined(&self.param)
    }

    /// The key of a new id that it brings.
    pub(crate) fn new_id(&self) -> Option<IdKey> {
        match &self.whose {
            Whose::New { id, .. } => Some(id.key()),
            Whose::Known(_) => None,
        }
    }

    fn open(self) -> Option<Event> {
        let (id, listener) = match self.whose {
            Whose::Known(handle) => (Id::of(handle.upgrade()?), None),
            Whose::New { id, listener } => {
                let listener = listener.upgrade()?;
                listener.request_fetched();
                (id, Some(Id::of(listener)))
            }
        };
        Some(Event { id, listener, kind: self.kind, status: self.status, param: self.param })
    }
}

impl EventQueue {
    /// An empty one.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> Result<EventQueue, Error> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let signal = eventfd(0, flags).map_err(std::io::Error::from)?;
        let process = std::process::id();
        let shared = Shared { process, signal, pending: Mutex::default(), waker: Mutex::default() };
        Ok(EventQueue { shared: Arc::new(shared) })
    }

    /// Whether this process made it, or has [taken it over](crate::take_over): other children get no events out of it.
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
            let pending = {
                let mut queue = self.shared.pending.lock();
                let pending = queue.pop_front()?;
                self.lower();
                pending
            };
            if let Some(event) = pending.open() {
                return Some(event);
            }
        }
    }

    /// A descriptor that is readable exactly while events are pending. Do not read from it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.signal.as_fd()
    }

    /// The waker to call, once, at the next event. Events that are there already do not call it:
    /// look after setting it. It is called with locks held, so it must only pass the news on.
    pub fn set_waker(&self, waker: Option<Waker>) {
        let old = std::mem::replace(&mut *self.shared.waker.lock(), waker);
        drop(old);
    }

    /// Whether both are the same queue.
    pub fn is(&self, other: &EventQueue) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn push(&self, event: Pending) {
        {
            let mut queue = self.shared.pending.lock();
            queue.push_back(event);
            // Fails only at 2^64 - 2 events pending.
            let _ = rustix::io::write(&self.shared.signal, &1u64.to_ne_bytes());
        }
        let waker = self.shared.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes out the events for an id's owner. They must be dropped with no lock held.
    pub(crate) fn take_of(&self, key: IdKey) -> Vec<Pending> {
        self.take(|pending| pending.owner == key)
    }

    /// Takes out some events. They must be dropped with no lock held if they may hold ids.
    pub(crate) fn take(&self, which: impl FnMut(&Pending) -> bool) -> Vec<Pending> {
        let mut queue = self.shared.pending.lock();
        let (taken, kept): (Vec<_>, Vec<_>) = queue.drain(..).partition(which);
        queue.extend(kept);
        taken.iter().for_each(|_| self.lower());
        taken
    }

    fn lower(&self) {
        // Under the queue's lock there is one count per event.
        let _ = rustix::io::read(&self.shared.signal, &mut [0; 8]);
    }
}
