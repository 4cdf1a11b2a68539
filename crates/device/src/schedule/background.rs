//! The background thread as the other threads see it: its mode, and how to wake it.
//!
//! An application that polls drives the engine itself; a wake-up for each packet would only take its processor away. So
//! the thread naps while the application polls often, and blocks while nothing is under way. The thread itself is in
//! `engine/worker.rs`.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use transport::Time;

use crate::schedule::activity::{Activity, ActivitySnapshot};

/// The number of polls since a snapshot that shows that the application drives the engine itself.
pub(crate) const POLLS_TO_YIELD: u64 = 16;

thread_local! {
    static IS_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// Makes the calling thread a background thread.
pub(crate) fn become_this_thread() {
    IS_BACKGROUND.set(true);
}

/// Whether the calling thread is the background thread of an engine. It must not wait for what only it can fetch.
pub(crate) fn is_this_thread() -> bool {
    IS_BACKGROUND.get()
}

/// The thread's activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum BackgroundMode {
    Running,
    Napping,
    Blocked,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Background {
    wake: OwnedFd,
    mode: AtomicU8,
    /// While it is blocked: the time at which it will wake by itself.
    until: AtomicU64,
    /// The application's activity when it blocked.
    before: Mutex<ActivitySnapshot>,
    /// Another thread waits for something that only the hub can give.
    wants_hub: AtomicBool,
    stop: AtomicBool,
}

/// A descriptor to wake a thread with.
pub(crate) fn wake_descriptor() -> io::Result<OwnedFd> {
    Ok(guest::high(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
}

impl Background {
    pub(crate) fn new(wake: OwnedFd) -> Background {
        Background {
            wake,
            wants_hub: AtomicBool::new(false),
            mode: AtomicU8::new(BackgroundMode::Running as u8),
            until: AtomicU64::new(Time::NEVER.0),
            before: Mutex::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// Wakes the thread because there is something to do. In any mode but blocked it will see that by itself, and the
    /// call costs one load.
    #[inline]
    pub(crate) fn kick(&self) {
        if self.is_blocked() {
            self.unblock();
        }
    }

    /// Wakes the thread if its deadline is later than `at`.
    #[inline]
    pub(crate) fn deadline(&self, at: Time) {
        if self.is_blocked() && at.0 < self.until.load(SeqCst) {
            self.unblock();
        }
    }

    /// Ends the thread's wait for packets if the application drives by itself: each packet would wake it for nothing.
    #[inline]
    pub(crate) fn note_activity(&self, activity: &Activity) {
        if self.is_blocked() && activity.drives_since(*self.before.lock(), POLLS_TO_YIELD) {
            self.unblock();
        }
    }

    /// Ends a nap of the thread, because the application is about to block.
    pub(crate) fn end_nap(&self) {
        if self.is(BackgroundMode::Napping) {
            self.wake();
        }
    }

    /// Lets the thread ask the hub for everything that other threads wait for.
    pub(crate) fn ask_hub(&self) {
        self.wants_hub.store(true, SeqCst);
        self.wake();
    }

    /// Whether the hub is to be asked for something.
    pub(crate) fn wants_hub(&self) -> bool {
        self.wants_hub.load(SeqCst)
    }

    /// Whether the hub is to be asked, now by the caller.
    pub(crate) fn take_wants_hub(&self) -> bool {
        self.wants_hub.swap(false, SeqCst)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(SeqCst)
    }

    /// Whether it waits for something to arrive.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.is(BackgroundMode::Blocked)
    }

    /// The thread blocks from now on, until `deadline` at the latest.
    pub(crate) fn block(&self, deadline: Time, activity: ActivitySnapshot) {
        self.until.store(deadline.0, SeqCst);
        *self.before.lock() = activity;
        self.set(BackgroundMode::Blocked);
    }

    pub(crate) fn set(&self, mode: BackgroundMode) {
        self.mode.store(mode as u8, SeqCst);
    }

    /// The descriptor that is readable after the thread was woken.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Makes the descriptor unreadable.
    pub(crate) fn clear_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    /// Wakes the blocked thread. Only the first of several callers does.
    #[cold]
    fn unblock(&self) {
        let (blocked, running) = (BackgroundMode::Blocked as u8, BackgroundMode::Running as u8);
        if self.mode.compare_exchange(blocked, running, SeqCst, SeqCst).is_ok() {
            self.wake();
        }
    }

    fn is(&self, mode: BackgroundMode) -> bool {
        self.mode.load(SeqCst) == mode as u8
    }

    #[cold]
    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kicked(background: &Background) -> bool {
        rustix::io::read(&background.wake, &mut [0; 8]).is_ok()
    }

    #[test]
    fn only_a_blocked_thread_is_kicked() {
        let background = Background::new(wake_descriptor().unwrap());
        for mode in [BackgroundMode::Running, BackgroundMode::Napping] {
            background.set(mode);
            background.kick();
            background.deadline(Time(0));
            assert!(!kicked(&background), "{mode:?}");
        }
        background.set(BackgroundMode::Blocked);
        background.kick();
        assert!(kicked(&background));
        background.kick();
        assert!(!kicked(&background), "once is enough");
    }

    #[test]
    fn an_application_that_polls_often_ends_the_wait() {
        let background = Background::new(wake_descriptor().unwrap());
        let activity = Activity::default();
        background.set(BackgroundMode::Blocked);
        for _ in 1..POLLS_TO_YIELD {
            activity.polled(1);
            background.note_activity(&activity);
        }
        assert!(!kicked(&background));
        activity.polled(1);
        background.note_activity(&activity);
        assert!(kicked(&background) && !background.is_blocked());
    }

    #[test]
    fn only_an_earlier_deadline_wakes() {
        let background = Background::new(wake_descriptor().unwrap());
        background.block(Time(100), ActivitySnapshot::default());
        background.deadline(Time(100));
        assert!(!kicked(&background));
        background.deadline(Time(99));
        assert!(kicked(&background));
    }
}
