//! Events of completion queues, and the channels that collect them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::Waker;

use device::Error;
use parking_lot::Mutex;

use crate::signal::EventSignal;

/// The receivers of a completion queue's events.
#[derive(Debug)]
pub(crate) struct CqEvents {
    cookie: u64,
    channel: Option<CompChannel>,
    waker: Mutex<Option<Waker>>,
}

impl CqEvents {
    pub(crate) fn new(cookie: u64, channel: Option<CompChannel>) -> CqEvents {
        CqEvents { cookie, channel, waker: Mutex::default() }
    }

    /// Sets the waker for the next event.
    pub(crate) fn set_waker(&self, waker: Option<Waker>) {
        let old = std::mem::replace(&mut *self.waker.lock(), waker);
        drop(old);
    }

    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Hands an event to the channel and to the waker.
    pub(crate) fn deliver(&self) {
        self.channel.iter().for_each(|channel| channel.push(self.cookie));
        let waker = self.waker.lock().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// A descriptor for the events of many completion queues.
#[derive(Clone, Debug)]
pub struct CompChannel {
    shared: Arc<ChannelShared>,
}

#[derive(Debug)]
struct ChannelShared {
    signal: EventSignal,
    /// The cookies of queues with an event, each once.
    pending: Mutex<VecDeque<u64>>,
}

impl CompChannel {
    pub(crate) fn new() -> Result<CompChannel, Error> {
        Ok(CompChannel { shared: Arc::new(ChannelShared { signal: EventSignal::new()?, pending: Mutex::default() }) })
    }

    /// Readable exactly while there are events. Do not read from it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.signal.as_fd()
    }

    /// Takes the oldest event: the cookie of its completion queue.
    #[allow(clippy::should_implement_trait, reason = "an iterator would look finished between events")]
    pub fn next(&self) -> Option<u64> {
        let mut pending = self.shared.pending.lock();
        let cookie = pending.pop_front()?;
        self.shared.signal.lower();
        Some(cookie)
    }

    fn push(&self, cookie: u64) {
        let mut pending = self.shared.pending.lock();
        if !pending.contains(&cookie) {
            pending.push_back(cookie);
            self.shared.signal.raise();
        }
    }
}
