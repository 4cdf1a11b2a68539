//! Asynchronous events of a device, and the queue that they wait in.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::Waker;

use parking_lot::Mutex;
use transport::QpEvent;
use wire::Qpn;

use crate::objects::ids::{CqId, SrqId};
use crate::objects::signal::PendingSignal;

/// An event of a device or of one of its objects that no call has asked for.
///
/// When an object goes, its events go with it unless the program has fetched them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AsyncEvent {
    /// About a queue pair.
    Qp {
        /// The queue pair.
        qpn: Qpn,
        /// The event.
        event: QpEvent,
    },
    /// A completion queue overran; the queue pairs that use it fail.
    CqError {
        /// The completion queue.
        cq: CqId,
        /// The cookie it was made with.
        cookie: u64,
    },
    /// A shared receive queue holds fewer work requests than its limit; the limit is disarmed.
    SrqLimitReached(SrqId),
    /// The interface came up.
    PortActive,
    /// The interface went down.
    PortError,
    /// The GID table changed.
    GidChange,
    /// The device cannot work any more.
    DeviceFatal,
}

/// The number of unfetched events that are kept; later ones are lost.
const MAX_PENDING: usize = 1 << 16;

/// The events of one open device.
#[derive(Debug)]
pub(crate) struct AsyncEvents {
    signal: PendingSignal,
    pending: Mutex<VecDeque<AsyncEvent>>,
    waker: Mutex<Option<Waker>>,
}

impl AsyncEvents {
    pub(crate) fn new() -> io::Result<AsyncEvents> {
        Ok(AsyncEvents { signal: PendingSignal::new()?, pending: Mutex::default(), waker: Mutex::default() })
    }

    pub(crate) fn push(&self, event: AsyncEvent) {
        {
            let mut pending = self.pending.lock();
            if pending.len() < MAX_PENDING {
                pending.push_back(event);
                self.signal.raise();
            }
        }
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The waker to call, once, at the next event.
    pub(crate) fn set_waker(&self, waker: Option<Waker>) {
        let old = std::mem::replace(&mut *self.waker.lock(), waker);
        drop(old);
    }

    pub(crate) fn pop(&self) -> Option<AsyncEvent> {
        let mut pending = self.pending.lock();
        let event = pending.pop_front()?;
        self.signal.lower();
        Some(event)
    }

    /// Drops the pending events about an object that is gone.
    pub(crate) fn forget(&self, is_about: impl Fn(&AsyncEvent) -> bool) {
        let mut pending = self.pending.lock();
        let before = pending.len();
        pending.retain(|event| !is_about(event));
        for _ in pending.len()..before {
            self.signal.lower();
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }
}
