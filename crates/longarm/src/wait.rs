//! Blocking waits: a short spin, then sleep.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use device::CqError;

use crate::cq::CqCore;

/// The time for which a thread polls before it sleeps: longer than a round trip on one host, far
/// shorter than a scheduler's time slice.
const SPIN: Duration = Duration::from_micros(50);

/// Drives the device until `ready` gives something, or for `timeout`.
///
/// `ready` is asked with a waker when the thread is about to sleep. If it gives nothing then, it
/// must call the waker when that changes.
pub(crate) fn until<T>(
    cq: &CqCore,
    timeout: Duration,
    mut ready: impl FnMut(Option<&Waker>) -> Option<T>,
) -> Result<Option<T>, CqError> {
    // A request that is done already needs no look at the device, which might nap.
    if let Some(found) = ready(None) {
        return Ok(Some(found));
    }
    let start = Instant::now();
    loop {
        let driven = cq.progress();
        if let Some(found) = ready(None) {
            return Ok(Some(found));
        }
        driven?;
        let waited = start.elapsed();
        if waited >= timeout {
            return Ok(None);
        }
        if waited >= SPIN {
            return sleep(cq, timeout.saturating_sub(waited), ready);
        }
        std::hint::spin_loop();
    }
}

fn sleep<T>(
    cq: &CqCore,
    timeout: Duration,
    mut ready: impl FnMut(Option<&Waker>) -> Option<T>,
) -> Result<Option<T>, CqError> {
    let start = Instant::now();
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let _waiting = CqWaiter::on(cq);
    loop {
        if let Some(found) = ready(Some(&waker)) {
            return Ok(Some(found));
        }
        let armed = cq.arm();
        if let Some(found) = ready(Some(&waker)) {
            return Ok(Some(found));
        }
        armed?;
        match timeout.checked_sub(start.elapsed()) {
            None | Some(Duration::ZERO) => return Ok(None),
            Some(left) => thread::park_timeout(left),
        }
    }
}

/// Sleeps until `ready` gives something, or for `timeout`. `ready` must call the waker when that
/// changes. For long waits, where polling does not pay.
pub(crate) fn park<T>(timeout: Duration, mut ready: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    let start = Instant::now();
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut task = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(found) = ready(&mut task) {
            return Some(found);
        }
        match timeout.checked_sub(start.elapsed()) {
            None | Some(Duration::ZERO) => return None,
            Some(left) => thread::park_timeout(left),
        }
    }
}

/// Counts as a waiter while it lives.
pub(crate) struct CqWaiter<'a>(&'a CqCore);

impl<'a> CqWaiter<'a> {
    pub(crate) fn on(cq: &'a CqCore) -> CqWaiter<'a> {
        cq.enter();
        CqWaiter(cq)
    }
}

impl Drop for CqWaiter<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
