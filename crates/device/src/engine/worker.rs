//! The background thread: it drives the engine while the application is away, and only then.
//!
//! ```text
//!        the application drives                  traffic, or just after it
//!   nap ◄────────────────────────── decide ─────────────────► serve ──┐
//!    │  deadlines only, sockets       ▲                         │ quiet │
//!    └── are not polled ────────────►─┴──◄── block ◄────────────┘◄──────┘
//!                                         until a packet, a kick or a deadline
//! ```
//!
//! While the application polls often the thread naps. When the application has stopped, the thread takes over: it serves,
//! continues for a short while after traffic, and then blocks. Without deadlines it blocks for ever, so an idle process
//! costs nothing.
//!
//! An application may poll often and stop for a moment, for instance to read memory that a peer's WRITE changes. When
//! packets were not received during a nap, the thread stands in for the application, once.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hub::client::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smallvec::{SmallVec, smallvec};
use transport::Time;

use crate::clock;
use crate::engine::Engine;
use crate::engine::caller::StepCaller;
use crate::engine::scratch::ThreadScratch;
use crate::engine::watch::Watcher;
use crate::objects::counters::EngineCounter;
use crate::path::shm::LanePath;
use crate::schedule::activity::ActivitySnapshot;
use crate::schedule::background::{Background, BackgroundMode, POLLS_TO_YIELD, become_this_thread};

/// The length of a nap at first, and at most after several in a row.
const NAP_MIN: Duration = Duration::from_micros(100);
const NAP_MAX: Duration = Duration::from_millis(1);
/// The time for which the thread relies on a napping application. It is longer than a nap of the application, which
/// serves the deadlines afterwards. (A timer before the kernel's next tick would delay the message that is under way.)
const ATTENDING: Duration = Duration::from_millis(8);
/// The time for which the thread blocks at first while a lane has no room; at most as long as the longest nap.
const PAUSE_MIN: Duration = Duration::from_micros(50);
/// The number of polls during a nap that shows that the application still drives.
const POLLS_TO_NAP_ON: u64 = 2;
/// The time that packets wait without a poll until the thread stands in.
const ALONE: Duration = Duration::from_micros(200);
/// The time for which the thread continues to poll after the last traffic.
const SPIN: Duration = Duration::from_micros(30);

/// The descriptors that the thread waits for: its own, the hub's, those of links, the bell, and a few sockets.
type WaitedFds<'a> = SmallVec<[PollFd<'a>; 6]>;

/// The sources that have ended a wait.
struct Wakeup {
    kicked: bool,
    hub: bool,
    links: bool,
}

/// Starts the thread.
///
/// # Errors
/// If the system has no thread left.
pub(crate) fn spawn(engine: Arc<Engine>, session: Option<Session>) -> io::Result<JoinHandle<()>> {
    let worker = Worker {
        engine,
        session,
        session_due: None,
        before: ActivitySnapshot::default(),
        nap: NAP_MIN,
        pause: PAUSE_MIN,
        naps: 0,
    };
    guest::spawn("longarm", move || {
        become_this_thread();
        worker.run();
    })
}

pub(crate) struct Worker {
    pub(crate) engine: Arc<Engine>,
    pub(crate) session: Option<Session>,
    /// The time at which the session must be called at the latest.
    pub(crate) session_due: Option<Instant>,
    /// The application's activity when the thread decided last.
    before: ActivitySnapshot,
    /// The length of the next nap.
    nap: Duration,
    /// The length of the next block while a lane has no room.
    pause: Duration,
    /// The number of naps of the application when the thread decided last.
    naps: u64,
}

impl Worker {
    fn run(mut self) {
        let engine = self.engine.clone();
        // Peers on this host see at once if this thread dies, and so the process.
        let _life = engine.shm.as_ref().and_then(|shm| shm.export.export().hold_life());
        self.maintain();
        while !self.background().is_stopped() {
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
        &self.engine.schedule.background
    }

    /// Whether the application has driven the engine since the last decision.
    fn application_drives(&mut self) -> bool {
        let least = if self.nap > NAP_MIN { POLLS_TO_NAP_ON } else { POLLS_TO_YIELD };
        let before = std::mem::replace(&mut self.before, self.engine.activity.snapshot());
        self.engine.activity.drives_since(before, least)
    }

    /// Attends an application that naps on a busy machine and takes arrivals itself. The thread serves the deadlines that
    /// come up during a nap, and packets that wait while the application does something else. It wakes threads that doze
    /// when the one with the watch has left: nobody would hear the bell.
    fn attend(&mut self) {
        self.nap(ATTENDING);
        self.step(StepCaller::StandIn);
        self.engine.watch.wake_if_unwatched();
    }

    fn take_a_nap(&mut self) {
        self.nap(self.nap);
        self.nap = (self.nap * 2).min(NAP_MAX);
        if self.is_left_alone() {
            self.nap = NAP_MIN;
            self.engine.services.counters.add(EngineCounter::BackgroundStandIns, 1);
            self.step(StepCaller::StandIn);
        }
    }

    fn nap(&mut self, time: Duration) {
        self.background().set(BackgroundMode::Napping);
        self.wait(false, Some(time));
    }

    /// Whether packets wait, and the application, which has polled until a moment ago, does something else. It may read
    /// memory that a peer writes to, or have lost its processor.
    fn is_left_alone(&mut self) -> bool {
        if !self.packets_wait() {
            return false;
        }
        let before = self.traces();
        // The thread sleeps, since the application may run on this processor, too.
        self.nap(ALONE);
        self.traces() == before && self.packets_wait()
    }

    fn packets_wait(&self) -> bool {
        let mut fds: WaitedFds<'_> =
            self.engine.services.slots.all().map(|slot| PollFd::new(&slot.socket, PollFlags::IN)).collect();
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
    }

    /// Values that change while any thread drives the engine.
    fn traces(&self) -> (ActivitySnapshot, [u64; 2]) {
        let counters = &self.engine.services.counters;
        (
            self.engine.activity.snapshot(),
            [EngineCounter::TxCalls, EngineCounter::RxCalls].map(|counter| counters.get(counter)),
        )
    }

    /// Drives the engine until there was no traffic for a while. False if the application drives again.
    fn serve(&mut self) -> bool {
        if std::mem::replace(&mut self.nap, NAP_MIN) != NAP_MIN {
            self.engine.services.counters.add(EngineCounter::BackgroundTakeovers, 1);
        }
        let mut last_traffic = None;
        while !self.background().is_stopped() {
            if self.step(StepCaller::Background) {
                last_traffic = Some(Instant::now());
            }
            if self.engine.activity.drives_since(self.before, POLLS_TO_YIELD) {
                return false;
            }
            if last_traffic.is_none_or(|at| at.elapsed() >= SPIN) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Makes one step. It reports and survives a defect that shows as a panic: the locks are free again, and the other
    /// queue pairs must be served.
    fn step(&self, caller: StepCaller) -> bool {
        let step = || ThreadScratch::with(|scratch| self.engine.step(caller, scratch));
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| {
            self.engine.services.counters.add(EngineCounter::BackgroundPanics, 1);
            std::thread::sleep(NAP_MAX);
            true
        })
    }

    /// Blocks until something arrives, another thread kicks, or a deadline comes.
    fn block(&mut self) {
        let engine = self.engine.clone();
        let Ok(_on_watch) = engine.watch.take(Watcher::Background) else { return };
        let deadline = self.engine.earliest_deadline();
        self.background().block(deadline, self.engine.activity.snapshot());
        let certain = self.fall_asleep();
        // A thread that left work before this mode was set did not kick.
        let timeout = match self.has_work(deadline) {
            true => Some(Duration::ZERO),
            false => self.time_to(deadline),
        };
        let pause = self.pause_for_room().or((!certain || self.engine.links_are_unfinished()).then_some(NAP_MAX));
        let timeout = [timeout, pause].into_iter().flatten().min();
        self.wait(true, timeout);
        if let Some(shm) = &self.engine.shm {
            shm.export.export().wake_up();
        }
    }

    /// The time for which the thread may block while queue pairs wait for room in a lane: longer each time.
    fn pause_for_room(&mut self) -> Option<Duration> {
        let waits = !self.engine.schedule.stalled.is_empty();
        let next = if waits { (self.pause * 2).min(NAP_MAX) } else { PAUSE_MIN };
        let pause = std::mem::replace(&mut self.pause, next);
        waits.then_some(pause)
    }

    /// Tells peers on this host that they have to wake the thread. False if some may not hear it.
    fn fall_asleep(&self) -> bool {
        self.engine.shm.as_ref().is_none_or(|shm| shm.export.export().fall_asleep(false))
    }

    /// Whether there is something to do before the deadline.
    fn has_work(&self, deadline: Time) -> bool {
        let engine = &self.engine;
        engine.schedule.has_work()
            || engine.shm.as_ref().is_some_and(LanePath::frames_wait)
            || engine.earliest_deadline() < deadline
            || self.background().is_stopped()
    }

    /// The time until a deadline, or until the session must be called.
    fn time_to(&self, deadline: Time) -> Option<Duration> {
        let timers = (deadline != Time::NEVER).then(|| deadline.since(clock::now()));
        let session = self.session_due.map(|due| due.saturating_duration_since(Instant::now()));
        match (timers, session) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Waits for a kick and for the hub; with `poll_sockets` also for packets and for peers on this host. Then it serves
    /// all of these but the packets and frames.
    fn wait(&mut self, poll_sockets: bool, timeout: Option<Duration>) {
        let Wakeup { kicked, hub, links } = self.sleep(poll_sockets, timeout);
        let engine = &self.engine;
        let background = &engine.schedule.background;
        background.set(BackgroundMode::Running);
        if kicked {
            background.clear_wake();
        }
        if links || engine.links_are_unfinished() {
            engine.serve_links();
        }
        if background.take_wants_hub() {
            self.ask_hub();
        }
        if hub || self.session_due.is_some_and(|due| due <= Instant::now()) {
            self.maintain();
        }
    }

    fn sleep(&self, poll_sockets: bool, timeout: Option<Duration>) -> Wakeup {
        let engine = &self.engine;
        let wake = engine.schedule.background.wake_fd();
        let unused = PollFd::from_borrowed_fd(wake, PollFlags::empty());
        let mut fds: WaitedFds<'_> =
            smallvec![PollFd::from_borrowed_fd(wake, PollFlags::IN), unused.clone(), unused.clone(), unused];
        if let Some(session) = &self.session {
            fds[1] = PollFd::from_borrowed_fd(session.poll_fd(), PollFlags::IN);
        }
        if let Some(shm) = &engine.shm {
            fds[2] = PollFd::from_borrowed_fd(shm.links.list.sockets(), PollFlags::IN);
        }
        if poll_sockets {
            fds[3] = PollFd::new(&engine.watch.bell, PollFlags::IN);
            fds.extend(engine.services.slots.all().map(|slot| PollFd::new(&slot.socket, PollFlags::IN)));
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        if let Err(error) = poll(&mut fds, timeout.as_ref())
            && error != rustix::io::Errno::INTR
        {
            log::error!("the background thread cannot wait: {error}");
            std::thread::sleep(NAP_MAX);
        }
        let [kicked, hub, links, bell] = [0, 1, 2, 3].map(|index: usize| !fds[index].revents().is_empty());
        if bell {
            engine.watch.silence();
            engine.memory_watchers.note_change();
        }
        Wakeup { kicked, hub, links }
    }
}

impl Engine {
    /// Counts pages of registered memory that the program should not have unmapped.
    fn count_unmapped(&self) {
        let counters = &self.services.counters;
        let counted = counters.get(EngineCounter::UnmappedPages);
        let pages = memory::unmapped_pages().saturating_sub(counted);
        if pages == 0 {
            return;
        }
        counters.add(EngineCounter::UnmappedPages, pages);
        if counted == 0 {
            log::warn!(
                "the program has unmapped registered memory that queue pairs still use; bytes written there are lost"
            );
        }
    }
}
