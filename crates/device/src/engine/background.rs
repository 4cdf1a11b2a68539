//! The background thread: serves when the application is away, and only then.
//!
//! ```text
//!          driven by the application                  traffic, or just after it
//!   nap ◄──────────────────────────────── look ────────────────► serve ──┐
//!    │  timer only, the socket is           ▲                      │ quiet │
//!    └── not watched ─────────────────────►─┴──◄── block ◄─────────┘◄──────┘
//!                                              until a packet, a kick or a deadline
//! ```
//!
//! An application that polls drives the engine itself; a wake-up for each packet would only
//! take its processor away. So while it polls often the thread naps. When it stopped, the
//! thread takes over: it serves, goes on for a short while after traffic, and then blocks.
//! Without deadlines it blocks for ever, so an idle process costs nothing.
//!
//! An application may poll often and look away in between, as one does that waits for a peer's WRITE by looking
//! at its memory. After a nap in which packets were left lying the thread stands in for it, once.

mod session;
mod worker;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use transport::Time;

use crate::engine::Engine;
use crate::engine::activity::{Activity, Look};

#[cfg(test)]
pub(crate) use worker::become_this_thread;
pub(crate) use worker::is_this_thread;
pub(crate) use worker::spawn;

/// So many polls since the last look mean that the application drives by itself now.
const POLLS_TO_YIELD: u64 = 16;

/// What the thread is doing, for those who may want to wake it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Mode {
    Running,
    Napping,
    Blocked,
}

/// The thread as the others see it.
#[derive(Debug)]
pub(crate) struct Background {
    wake: OwnedFd,
    mode: AtomicU8,
    /// When it will wake by itself, while blocked.
    until: AtomicU64,
    /// The application's activity when it blocked.
    before: Mutex<Look>,
    /// Somebody waits for something that the hub has to give.
    wishes: AtomicBool,
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
            wishes: AtomicBool::new(false),
            mode: AtomicU8::new(Mode::Running as u8),
            until: AtomicU64::new(Time::NEVER.0),
            before: Mutex::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// Somebody waits for something that the hub has to give.
    fn look_at_wishes(&self) {
        self.wishes.store(true, SeqCst);
        self.wake();
    }

    /// There is something to do at once. Costs a load unless the thread is blocked: in any
    /// other mode it will see by itself.
    #[inline]
    pub(crate) fn kick(&self) {
        if self.is_blocked() {
            self.unblock();
        }
    }

    /// The application has polled. If it drives by itself the thread need not wait for
    /// packets any more: each would wake it for nothing.
    #[inline]
    pub(crate) fn note_activity(&self, activity: &Activity) {
        if self.is_blocked() && activity.drives_since(*self.before.lock(), POLLS_TO_YIELD) {
            self.unblock();
        }
    }

    /// Whether it waits for something to arrive.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.is(Mode::Blocked)
    }

    /// There is something to do at this time.
    #[inline]
    pub(crate) fn deadline(&self, at: Time) {
        if self.is_blocked() && at.0 < self.until.load(SeqCst) {
            self.unblock();
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake();
    }

    /// Wakes the blocked thread; only the first of several does.
    #[cold]
    fn unblock(&self) {
        let (blocked, running) = (Mode::Blocked as u8, Mode::Running as u8);
        if self.mode.compare_exchange(blocked, running, SeqCst, SeqCst).is_ok() {
            self.wake();
        }
    }

    fn is(&self, mode: Mode) -> bool {
        self.mode.load(SeqCst) == mode as u8
    }

    fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, SeqCst);
    }

    #[cold]
    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn woken(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}

impl Engine {
    /// A copy of the bell that peers on this host ring.
    pub(crate) fn wake_descriptor(&self) -> io::Result<OwnedFd> {
        guest::copy(&self.watch.bell)
    }

    /// Whether a thread of the application naps.
    #[inline]
    pub(crate) fn is_napped_on(&self) -> bool {
        self.watch.is_napped_on()
    }

    /// There is something for the background thread, should nobody else come to it.
    #[inline]
    pub(crate) fn kick_background(&self) {
        self.background.kick();
    }

    /// Somebody waits for an introduction to a peer, or for another slot: the background thread asks the hub.
    pub(crate) fn look_at_wishes(&self) {
        self.background.look_at_wishes();
    }

    /// The application has taken so many completions.
    #[inline]
    pub(crate) fn application_took(&self, completions: u32) {
        self.activity.took(completions);
    }

    /// The application will wait for an event: it stops polling now.
    #[inline]
    pub(crate) fn application_may_block(&self) {
        self.activity.armed();
        crate::engine::scratch::Scratch::with(|scratch| scratch.rest.spin());
        if self.background.is(Mode::Napping) {
            self.background.wake();
        }
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
        for mode in [Mode::Running, Mode::Napping] {
            background.set(mode);
            background.kick();
            background.deadline(Time(0));
            assert!(!kicked(&background), "{mode:?}");
        }
        background.set(Mode::Blocked);
        background.kick();
        assert!(kicked(&background));
        background.kick();
        assert!(!kicked(&background), "once is enough");
    }

    #[test]
    fn an_application_that_polls_often_ends_the_wait() {
        let background = Background::new(wake_descriptor().unwrap());
        let activity = Activity::default();
        background.set(Mode::Blocked);
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
        background.until.store(100, SeqCst);
        background.set(Mode::Blocked);
        background.deadline(Time(100));
        assert!(!kicked(&background));
        background.deadline(Time(99));
        assert!(kicked(&background));
    }
}
