//! The thread of an open device: it fetches events of completion queues and asynchronous events.
//!
//! The thread owns the context. When the device's last handle is gone it closes the context and ends.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use abi::{Zeroed, ibv_async_event, ibv_comp_channel, ibv_context};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};

use crate::channel::CqEvents;
use crate::events::{self, PendingEvents};
use crate::opened::OpenedContext;
use crate::signal::EventSignal;

/// See the module. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Reactor {
    shared: Arc<ReactorShared>,
}

#[derive(Debug)]
struct ReactorShared {
    context: OpenedContext,
    channel: NonNull<ibv_comp_channel>,
    queues: Mutex<HashMap<u64, Weak<CqEvents>>>,
    last_key: AtomicU64,
    events: PendingEvents,
    ends: AtomicBool,
    wake: EventSignal,
}

// SAFETY: the functions of libibverbs may be called with a channel by any thread.
unsafe impl Send for ReactorShared {}
// SAFETY: as above, and by several threads at once.
unsafe impl Sync for ReactorShared {}

impl Reactor {
    /// Starts the thread of an open device.
    ///
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub(crate) fn start(context: OpenedContext) -> io::Result<Reactor> {
        // SAFETY: an open context.
        let channel = unsafe { (context.library.ibv_create_comp_channel)(context.context.as_ptr()) };
        let channel = NonNull::new(channel).ok_or_else(io::Error::last_os_error)?;
        let shared = Arc::new(ReactorShared {
            context,
            channel,
            queues: Mutex::default(),
            last_key: AtomicU64::new(0),
            events: PendingEvents::new()?,
            ends: AtomicBool::new(false),
            wake: EventSignal::new()?,
        });
        shared.descriptors().into_iter().try_for_each(|fd| rustix::io::ioctl_fionbio(fd, true))?;
        let reactor = Reactor { shared: shared.clone() };
        guest::spawn("longarm-verbs", move || shared.run())?;
        Ok(reactor)
    }

    pub(crate) fn context(&self) -> *mut ibv_context {
        self.shared.context.context.as_ptr()
    }

    /// The channel for all completion queues of the device.
    pub(crate) fn channel(&self) -> *mut ibv_comp_channel {
        self.shared.channel.as_ptr()
    }

    /// The asynchronous events.
    pub(crate) fn events(&self) -> &PendingEvents {
        &self.shared.events
    }

    /// Enters a completion queue to be; returns the key for its `cq_context`.
    pub(crate) fn enter(&self, events: &Arc<CqEvents>) -> u64 {
        let key = self.shared.last_key.fetch_add(1, Relaxed) + 1;
        self.shared.queues.lock().insert(key, Arc::downgrade(events));
        key
    }

    /// Forgets a completion queue.
    pub(crate) fn leave(&self, key: u64) {
        self.shared.queues.lock().remove(&key);
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.shared.ends.store(true, SeqCst);
        self.shared.wake.raise();
    }
}

impl ReactorShared {
    fn run(&self) {
        while !self.ends.load(SeqCst) {
            let [completions, asynchronous] = self.descriptors();
            let mut waits =
                [completions, asynchronous, self.wake.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // An interrupted wait goes on in the next turn.
            let _ = poll(&mut waits, None);
            self.fetch_completion_events();
            self.fetch_async_events();
        }
    }

    /// The descriptors of the channel and of the context.
    fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        // SAFETY: the channel and the context exist while this value does, and with them their descriptors.
        unsafe {
            let (channel, context) = (self.channel.as_ref(), self.context.context.as_ref());
            [BorrowedFd::borrow_raw(channel.fd), BorrowedFd::borrow_raw(context.async_fd)]
        }
    }

    fn fetch_completion_events(&self) {
        let library = self.context.library;
        let (mut cq, mut key) = (null_mut(), null_mut());
        // SAFETY: a channel that exists, and places for the answer. The queue of an event exists until it is ACKed.
        while unsafe { (library.ibv_get_cq_event)(self.channel.as_ptr(), &mut cq, &mut key) } == 0 {
            // SAFETY: the queue exists, as above. Its key is a number, never a pointer.
            unsafe { (library.ibv_ack_cq_events)(cq, 1) };
            let queue = self.queue(key.addr() as u64);
            queue.inspect(|queue| queue.deliver());
        }
    }

    fn fetch_async_events(&self) {
        let library = self.context.library;
        let mut event = ibv_async_event::zeroed();
        // SAFETY: an open context and a place for the event. Its object exists until it is ACKed.
        while unsafe { (library.ibv_get_async_event)(self.context.context.as_ptr(), &mut event) } == 0 {
            let cookie = |key| self.queue(key).map_or(0, |queue| queue.cookie());
            // SAFETY: the object of the event exists, as above.
            let told = unsafe { events::of_c(&event, cookie) };
            // SAFETY: fetched just now, and not ACKed yet.
            unsafe { (library.ibv_ack_async_event)(&mut event) };
            told.into_iter().for_each(|event| self.events.push(event));
        }
    }

    fn queue(&self, key: u64) -> Option<Arc<CqEvents>> {
        self.queues.lock().get(&key).and_then(Weak::upgrade)
    }
}

impl Drop for ReactorShared {
    fn drop(&mut self) {
        // SAFETY: all completion queues are gone, and the thread has ended, or never began.
        unsafe { (self.context.library.ibv_destroy_comp_channel)(self.channel.as_ptr()) };
    }
}
