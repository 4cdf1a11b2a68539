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

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hub::client::{IntroductionRefusal, Session, SessionEvent};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use transport::Time;

use crate::clock;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::engine::activity::{Activity, Look};
use crate::engine::progress::Driver;
use crate::engine::scratch::Scratch;

/// A nap's length at first, and at most after several in a row.
const NAP_MIN: Duration = Duration::from_micros(100);
const NAP_MAX: Duration = Duration::from_millis(1);
/// How long it blocks at first while there is no room in a lane; at most as long as the longest nap.
const PAUSE_MIN: Duration = Duration::from_micros(50);
/// So many polls since the last look mean that the application drives by itself now.
const POLLS_TO_YIELD: u64 = 16;
/// So many during a nap mean that it still does.
const POLLS_TO_NAP_ON: u64 = 2;
/// How long, at least, nobody has polled while packets wait when the thread sees to them.
const ALONE: Duration = Duration::from_micros(200);
/// How long the thread goes on looking after the last traffic.
const SPIN: Duration = Duration::from_micros(30);

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
pub(super) struct Background {
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

/// A descriptor to wake a background thread with.
pub(crate) fn wake_descriptor() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

impl Background {
    pub(super) fn new(wake: OwnedFd) -> Background {
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
    pub(super) fn kick(&self) {
        if self.is_blocked() {
            self.unblock();
        }
    }

    /// The application has polled. If it drives by itself the thread need not wait for
    /// packets any more: each would wake it for nothing.
    #[inline]
    pub(super) fn note_activity(&self, activity: &Activity) {
        if self.is_blocked() && activity.drives_since(*self.before.lock(), POLLS_TO_YIELD) {
            self.unblock();
        }
    }

    /// Whether it waits for something to arrive.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.is(Mode::Blocked)
    }

    /// There is something to do at this time.
    #[inline]
    pub(super) fn deadline(&self, at: Time) {
        if self.is_blocked() && at.0 < self.until.load(SeqCst) {
            self.unblock();
        }
    }

    pub(super) fn stop(&self) {
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
    /// A copy of what wakes the background thread.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn wake_descriptor(&self) -> io::Result<OwnedFd> {
        self.background.wake.try_clone()
    }

    /// There is something for the background thread, should nobody else come to it.
    #[inline]
    pub(super) fn kick_background(&self) {
        self.background.kick();
    }

    /// Somebody waits for an introduction to a peer, or for another slot: the background thread asks the hub.
    pub(crate) fn look_at_wishes(&self) {
        self.background.look_at_wishes();
    }

    /// The application has taken completions that were there already.
    #[inline]
    pub(crate) fn application_took(&self, completions: usize) {
        self.activity.took(completions);
    }

    /// The application will wait for an event: it stops polling now.
    #[inline]
    pub(crate) fn application_may_block(&self) {
        self.activity.armed();
        if self.background.is(Mode::Napping) {
            self.background.wake();
        }
    }
}

/// Starts the thread.
pub(super) fn spawn(engine: Arc<Engine>, session: Option<Session>) -> io::Result<JoinHandle<()>> {
    let worker = Worker { engine, session, session_due: None, look: Look::default(), nap: NAP_MIN, pause: PAUSE_MIN };
    std::thread::Builder::new().name("longarm".into()).spawn(move || worker.run())
}

struct Worker {
    engine: Arc<Engine>,
    session: Option<Session>,
    /// When the session wants to be called at the latest.
    session_due: Option<Instant>,
    /// The application's activity at the last look.
    look: Look,
    nap: Duration,
    /// How long it blocks next while there is no room in a lane.
    pause: Duration,
}

impl Worker {
    fn run(mut self) {
        self.maintain();
        while !self.background().stop.load(SeqCst) {
            self.engine.count_unmapped();
            if self.application_drives() {
                self.take_a_nap();
            } else if self.serve() {
                self.block();
            }
        }
    }

    fn background(&self) -> &Background {
        &self.engine.background
    }

    /// Whether the application has driven by itself since the last look.
    fn application_drives(&mut self) -> bool {
        let least = if self.nap > NAP_MIN { POLLS_TO_NAP_ON } else { POLLS_TO_YIELD };
        let look = std::mem::replace(&mut self.look, self.engine.activity.look());
        self.engine.activity.drives_since(look, least)
    }

    fn take_a_nap(&mut self) {
        self.nap(self.nap);
        self.nap = (self.nap * 2).min(NAP_MAX);
        if self.is_left_alone() {
            self.nap = NAP_MIN;
            self.engine.counters.add(Counter::BackgroundStandIns, 1);
            self.step(Driver::StandIn);
        }
    }

    fn nap(&mut self, time: Duration) {
        self.background().set(Mode::Napping);
        self.wait(false, Some(time));
    }

    /// Whether packets wait, and the application, which has polled until a moment ago, does something else: it
    /// looks at memory that a peer writes to, say, or was scheduled away.
    fn is_left_alone(&mut self) -> bool {
        if !self.packets_wait() {
            return false;
        }
        let before = self.traces();
        // Asleep: the application may be on this processor, too.
        self.nap(ALONE);
        self.traces() == before && self.packets_wait()
    }

    fn packets_wait(&self) -> bool {
        let mut fds: Vec<_> = self.engine.slots.all().map(|slot| PollFd::new(&slot.socket, PollFlags::IN)).collect();
        matches!(poll(&mut fds, Some(&timespec(Duration::ZERO))), Ok(1..))
    }

    /// What changes while anybody drives the engine.
    fn traces(&self) -> (Look, [u64; 2]) {
        let counters = &self.engine.counters;
        (self.engine.activity.look(), [Counter::TxCalls, Counter::RxCalls].map(|counter| counters.get(counter)))
    }

    /// Drives until it has been quiet for a while; false if the application does it again.
    fn serve(&mut self) -> bool {
        if std::mem::replace(&mut self.nap, NAP_MIN) != NAP_MIN {
            self.engine.counters.add(Counter::BackgroundTakeovers, 1);
        }
        let mut last_traffic = None;
        while !self.background().stop.load(Relaxed) {
            if self.step(Driver::Background) {
                last_traffic = Some(Instant::now());
            }
            if self.engine.activity.drives_since(self.look, POLLS_TO_YIELD) {
                return false;
            }
            if last_traffic.is_none_or(|at| at.elapsed() >= SPIN) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// One step. A defect that shows as a panic is reported and survived: the locks are free
    /// again, and the other queue pairs still want to be served.
    fn step(&self, driver: Driver) -> bool {
        let step = || Scratch::with(|scratch| self.engine.step(driver, scratch));
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| {
            self.engine.counters.add(Counter::BackgroundPanics, 1);
            std::thread::sleep(NAP_MAX);
            true
        })
    }

    /// Blocks until something arrives, somebody kicks, or a deadline comes.
    fn block(&mut self) {
        let deadline = self.engine.earliest_deadline();
        self.background().until.store(deadline.0, SeqCst);
        *self.background().before.lock() = self.engine.activity.look();
        self.background().set(Mode::Blocked);
        let certain = self.say_asleep(true);
        // Whoever came before saw another mode and did not kick.
        let timeout = match self.left_undone(deadline) {
            true => Some(Duration::ZERO),
            false => self.time_to(deadline),
        };
        let pause = self.pause_for_room().or((!certain || self.engine.links_are_unfinished()).then_some(NAP_MAX));
        let timeout = [timeout, pause].into_iter().flatten().min();
        self.wait(true, timeout);
        self.say_asleep(false);
    }

    /// How long it may block while queue pairs wait for room in a lane: longer from time to time.
    fn pause_for_room(&mut self) -> Option<Duration> {
        let waits = self.engine.stalled.any();
        let next = if waits { (self.pause * 2).min(NAP_MAX) } else { PAUSE_MIN };
        let pause = std::mem::replace(&mut self.pause, next);
        waits.then_some(pause)
    }

    /// Tells peers on this host whether they have to wake us. False if some may not hear it.
    fn say_asleep(&self, asleep: bool) -> bool {
        self.engine.near.as_ref().is_none_or(|near| near.export.export().set_asleep(asleep))
    }

    fn left_undone(&self, deadline: Time) -> bool {
        let engine = &self.engine;
        engine.due.any()
            || engine.later.any_acks()
            || engine.frames_wait()
            || engine.background.wishes.load(SeqCst)
            || engine.backlogged.load(SeqCst)
            || engine.earliest_deadline() < deadline
            || engine.background.stop.load(SeqCst)
    }

    /// How long until a deadline, or until the session wants to be called.
    fn time_to(&self, deadline: Time) -> Option<Duration> {
        let timers = (deadline != Time::NEVER).then(|| deadline.since(clock::now()));
        let session = self.session_due.map(|due| due.saturating_duration_since(Instant::now()));
        match (timers, session) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Waits for a kick, for the hub and, with `watch_sockets`, for packets.
    fn wait(&mut self, watch_sockets: bool, timeout: Option<Duration>) {
        let engine = &self.engine;
        let nothing = PollFd::new(&engine.background.wake, PollFlags::empty());
        let mut fds = vec![PollFd::new(&engine.background.wake, PollFlags::IN), nothing.clone(), nothing];
        if let Some(session) = &self.session {
            fds[1] = PollFd::from_borrowed_fd(session.poll_fd(), PollFlags::IN);
        }
        if let Some(near) = &engine.near {
            fds[2] = PollFd::from_borrowed_fd(near.links.sockets(), PollFlags::IN);
        }
        if watch_sockets {
            fds.extend(engine.slots.all().map(|slot| PollFd::new(&slot.socket, PollFlags::IN)));
        }
        let timeout = timeout.map(timespec);
        let ready = poll(&mut fds, timeout.as_ref());
        let [kicked, hub, links] = [0, 1, 2].map(|place: usize| !fds[place].revents().is_empty());
        engine.background.set(Mode::Running);
        if let Err(error) = ready
            && error != rustix::io::Errno::INTR
        {
            log::error!("the background thread cannot wait: {error}");
            std::thread::sleep(NAP_MAX);
        }
        if kicked {
            engine.background.woken();
        }
        if links || engine.links_are_unfinished() {
            engine.serve_links();
        }
        if engine.background.wishes.swap(false, SeqCst) {
            self.ask_for_wishes();
        }
        if hub || self.session_due.is_some_and(|due| due <= Instant::now()) {
            self.maintain();
        }
    }

    /// Asks the hub for what somebody waits for.
    fn ask_for_wishes(&mut self) {
        let near = self.engine.near.as_ref();
        if let Some(near) = near {
            near.links.ask(self.session.as_mut());
        }
        if self.engine.slots.is_short() {
            self.engine.slots.grow(self.session.as_mut(), near.map(|near| &*near.export));
            // The hub may have said something else before its answer.
            self.maintain();
        }
    }

    /// Sees to the session with the hub.
    fn maintain(&mut self) {
        let Some(session) = &mut self.session else { return };
        self.session_due = session.maintain(Instant::now());
        while let Some(event) = session.next_event() {
            self.engine.session_event(event);
        }
    }
}

impl Engine {
    /// Tells of memory that the program should not have unmapped.
    fn count_unmapped(&self) {
        let counted = self.counters.get(Counter::UnmappedPages);
        let pages = memory::unmapped_pages().saturating_sub(counted);
        if pages == 0 {
            return;
        }
        self.counters.add(Counter::UnmappedPages, pages);
        if counted == 0 {
            log::warn!(
                "the program has unmapped registered memory that queue pairs still use; what they write there is lost"
            );
        }
    }

    fn session_event(&self, event: SessionEvent) {
        match event {
            SessionEvent::DevicesChanged(records) => self.devices.replace(records),
            SessionEvent::Introduced(introduction) => self.introduced(introduction),
            SessionEvent::NotIntroduced { slot, reason } => {
                log::debug!("no introduction to slot {slot}: {reason:?}");
                match (&self.near, reason) {
                    (Some(near), IntroductionRefusal::Already { slots }) => near.links.already(slot, &slots),
                    (Some(near), _) => near.links.refused(slot),
                    (None, _) => {}
                }
            }
            SessionEvent::HubLost => log::info!("the hub is gone; looking for another"),
            SessionEvent::Reattached => log::info!("attached to a new hub"),
            // Without an offer of ours there are no introductions.
            SessionEvent::Detached { reason } => {
                log::error!("the hub has taken our slot away: {reason}");
                self.devices.fatal();
            }
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
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
