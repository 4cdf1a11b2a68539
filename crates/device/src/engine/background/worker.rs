//! The thread itself.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hub::client::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smallvec::{SmallVec, smallvec};
use transport::Time;

use super::{Background, Mode, POLLS_TO_YIELD};
use crate::clock;
use crate::engine::Engine;
use crate::engine::activity::Look;
use crate::engine::progress::Driver;
use crate::engine::scratch::Scratch;
use crate::engine::watch::Watcher;
use crate::objects::counters::Counter;

/// A nap's length at first, and at most after several in a row.
const NAP_MIN: Duration = Duration::from_micros(100);
const NAP_MAX: Duration = Duration::from_millis(1);
/// How long the application's naps are trusted: longer than a nap, after which the application sees to deadlines.
/// (A timer before the kernel's next tick would cost the message that is under way 20 µs in a virtual machine.)
const ATTENDING: Duration = Duration::from_millis(8);
/// How long it blocks at first while there is no room in a lane; at most as long as the longest nap.
const PAUSE_MIN: Duration = Duration::from_micros(50);
/// So many during a nap mean that it still does.
const POLLS_TO_NAP_ON: u64 = 2;
/// How long, at least, nobody has polled while packets wait when the thread sees to them.
const ALONE: Duration = Duration::from_micros(200);
/// How long the thread goes on looking after the last traffic.
const SPIN: Duration = Duration::from_micros(30);

/// What the thread waits for: its own descriptor, the hub's, those of links, the bell, and a few sockets.
type Waited<'a> = SmallVec<[PollFd<'a>; 6]>;

thread_local! {
    static IS_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn become_this_thread() {
    IS_BACKGROUND.set(true);
}

/// Whether this is the background thread of some engine, which must not wait for what only it can fetch.
pub(crate) fn is_this_thread() -> bool {
    IS_BACKGROUND.get()
}

/// Starts the thread.
pub(crate) fn spawn(engine: Arc<Engine>, session: Option<Session>) -> io::Result<JoinHandle<()>> {
    let worker =
        Worker { engine, session, session_due: None, look: Look::default(), nap: NAP_MIN, pause: PAUSE_MIN, naps: 0 };
    guest::spawn("longarm", move || {
        become_this_thread();
        worker.run();
    })
}

pub(crate) struct Worker {
    pub(crate) engine: Arc<Engine>,
    pub(crate) session: Option<Session>,
    /// When the session wants to be called at the latest.
    pub(crate) session_due: Option<Instant>,
    /// The application's activity at the last look.
    look: Look,
    nap: Duration,
    /// How long it blocks next while there is no room in a lane.
    pause: Duration,
    /// The application's naps at the last look.
    naps: u64,
}

impl Worker {
    fn run(mut self) {
        self.maintain();
        while !self.background().stop.load(SeqCst) {
            self.engine.count_unmapped();
            if self.engine.watch.was_napped_on(&mut self.naps) {
                self.attend();
            } else if self.application_drives() {
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

    /// The application naps on a busy machine, and sees to what arrives. Left are deadlines that come up during a nap,
    /// and what is lying there when it came back from a nap and does something else.
    fn attend(&mut self) {
        self.nap(ATTENDING);
        self.step(Driver::StandIn);
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
        let mut fds: Waited<'_> =
            self.engine.slots.all().map(|slot| PollFd::new(&slot.socket, PollFlags::IN)).collect();
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
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
        let engine = self.engine.clone();
        let Ok(_on_watch) = engine.watch.take(Watcher::Background) else { return };
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
        let Some(shm) = &self.engine.shm else { return true };
        let export = shm.export.export();
        if asleep {
            return export.fall_asleep(false);
        }
        export.wake_up();
        true
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

    /// Waits for a kick, for the hub and, with `watch_sockets`, for packets and peers on this host; and sees to all
    /// but those.
    fn wait(&mut self, watch_sockets: bool, timeout: Option<Duration>) {
        let [kicked, hub, links] = self.sleep(watch_sockets, timeout);
        let engine = &self.engine;
        engine.background.set(Mode::Running);
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

    /// Whether it was a kick, the hub, or a link.
    fn sleep(&self, watch_sockets: bool, timeout: Option<Duration>) -> [bool; 3] {
        let engine = &self.engine;
        let nothing = PollFd::new(&engine.background.wake, PollFlags::empty());
        let mut fds: Waited<'_> =
            smallvec![PollFd::new(&engine.background.wake, PollFlags::IN), nothing.clone(), nothing.clone(), nothing];
        if let Some(session) = &self.session {
            fds[1] = PollFd::from_borrowed_fd(session.poll_fd(), PollFlags::IN);
        }
        if let Some(shm) = &engine.shm {
            fds[2] = PollFd::from_borrowed_fd(shm.links.sockets(), PollFlags::IN);
        }
        if watch_sockets {
            fds[3] = PollFd::new(&engine.watch.bell, PollFlags::IN);
            fds.extend(engine.slots.all().map(|slot| PollFd::new(&slot.socket, PollFlags::IN)));
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        if let Err(error) = poll(&mut fds, timeout.as_ref())
            && error != rustix::io::Errno::INTR
        {
            log::error!("the background thread cannot wait: {error}");
            std::thread::sleep(NAP_MAX);
        }
        if !fds[3].revents().is_empty() {
            engine.watch.silence();
        }
        [0, 1, 2].map(|place: usize| !fds[place].revents().is_empty())
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
}
