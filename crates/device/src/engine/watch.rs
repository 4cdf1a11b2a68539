//! The watch over the sockets: one thread at a time waits for arrivals.
//!
//! A packet, or the bell that peers on this host ring, should wake one thread: the one that will make use of it. So
//! there is one *watch*. The background thread has it while it blocks; a thread of the application takes it for a nap.
//! Other threads that nap meanwhile [doze](SocketWatch::doze). A thread that adds completions [rings](SocketWatch::ring): that wakes
//! everybody who naps at that moment, once.
//!
//! A program may also poll memory that its peers WRITE, and no completion tells it. Another thread may take such a WRITE
//! out of a socket or lane. So a thread gets a [`NapTicket`] before its program looks at the memory once more, and the
//! ticket tells whether anything was taken since:
//!
//! ```text
//!   thread that takes a WRITE              thread that naps
//!   count a change                         count a napper
//!   nappers? ─► ring                       is the ticket still current? ─► sleep
//! ```
//!
//! This is Dekker's pattern: both store, then both load, and at least one sees the other's store.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::epoll;

use crate::schedule::background::wake_descriptor;

/// See the module.
#[derive(Debug)]
pub(crate) struct SocketWatch {
    /// The bell: readable when a peer on this host has rung it.
    pub(crate) bell: OwnedFd,
    /// Written to when the napping thread with the watch should poll its completion queue.
    call: OwnedFd,
    /// Zero, or the number of the [`Watcher`] that has the watch.
    taken: AtomicU8,
    nappers: AtomicU32,
    /// Whether `call` was written to since the thread with the watch woke last.
    called: AtomicBool,
    /// The number of calls, for threads that doze.
    calls: Mutex<u64>,
    dozing: Condvar,
    /// The number of naps so far.
    naps: AtomicU64,
    /// A thread has got a ticket at some time: from then on threads count what they take.
    has_tickets: AtomicBool,
    /// The number of times that a thread has taken something, or has ended the watch over memory.
    changes: AtomicU64,
    /// An epoll instance with all of these and the sockets, so that one system call waits for all of them.
    all: OwnedFd,
    /// The number of sockets in it.
    sockets: AtomicUsize,
}

/// The threads that may have the watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Watcher {
    Background = 1,
    Application,
}

/// The watch, which is free again when this is dropped.
pub(crate) struct OnWatch<'a>(&'a SocketWatch);

/// The right of a thread to nap, as long as no thread takes anything out of the sockets and lanes of this watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct NapTicket {
    /// The address of the watch: a thread may poll the queues of several devices.
    watch: usize,
    changes: u64,
}

/// A nap of the application, which ends when this is dropped.
pub(crate) struct Napping<'a>(&'a SocketWatch);

impl SocketWatch {
    /// A watch with the bell that peers on this host ring.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub(crate) fn new(bell: OwnedFd) -> io::Result<SocketWatch> {
        let call = wake_descriptor()?;
        let all = guest::high(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        // Each ring is an event of its own, so no thread has to read the bell before the next one.
        add(&all, bell.as_fd(), epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        add(&all, call.as_fd(), epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(SocketWatch {
            bell,
            call,
            all,
            sockets: AtomicUsize::new(0),
            taken: AtomicU8::new(0),
            nappers: AtomicU32::new(0),
            called: AtomicBool::new(false),
            calls: Mutex::new(0),
            dozing: Condvar::new(),
            naps: AtomicU64::new(0),
            has_tickets: AtomicBool::new(false),
            changes: AtomicU64::new(0),
        })
    }

    /// Takes the watch.
    ///
    /// # Errors
    /// The thread that has it.
    pub(crate) fn take(&self, who: Watcher) -> Result<OnWatch<'_>, Watcher> {
        match self.taken.compare_exchange(0, who as u8, SeqCst, SeqCst) {
            Ok(_) => Ok(OnWatch(self)),
            Err(taken) if taken == Watcher::Background as u8 => Err(Watcher::Background),
            Err(_) => Err(Watcher::Application),
        }
    }

    /// Adds new sockets to the epoll instance. The caller always gives the same sockets, with new ones at the end.
    fn add_sockets<'a>(&self, sockets: impl Iterator<Item = BorrowedFd<'a>>) -> rustix::io::Result<()> {
        for socket in sockets.skip(self.sockets.load(Relaxed)) {
            add(&self.all, socket, epoll::EventFlags::IN)?;
            self.sockets.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// A copy of the bell.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub(crate) fn copy_bell(&self) -> io::Result<OwnedFd> {
        guest::copy(&self.bell)
    }

    /// Starts a nap.
    pub(crate) fn nap(&self) -> Napping<'_> {
        self.nappers.fetch_add(1, SeqCst);
        self.naps.store(self.naps.load(Relaxed) + 1, Relaxed);
        Napping(self)
    }

    /// Makes threads count what they take from now on. False if they did not until now.
    pub(crate) fn count_changes(&self) -> bool {
        self.has_tickets.swap(true, SeqCst)
    }

    /// A ticket for a nap. The program must look at its memory once more before the nap begins.
    pub(crate) fn ticket(&self) -> NapTicket {
        NapTicket { watch: std::ptr::from_ref(self).addr(), changes: self.changes.load(SeqCst) }
    }

    /// Whether a thread may still nap with this ticket. A thread that naps asks after it has counted itself.
    pub(crate) fn is_current(&self, ticket: NapTicket) -> bool {
        self.ticket() == ticket
    }

    /// Notes that the calling thread has taken packets or frames, which may have changed memory. It wakes the threads that nap.
    #[inline]
    pub(crate) fn note_change(&self) {
        if self.has_tickets.load(Relaxed) {
            self.note_change_now();
        }
    }

    #[cold]
    fn note_change_now(&self) {
        if self.count_change() {
            self.ring();
        }
    }

    /// Ends all tickets. Whether a thread naps that had one.
    pub(crate) fn count_change(&self) -> bool {
        self.changes.fetch_add(1, SeqCst);
        self.nappers.load(SeqCst) > 0
    }

    /// Whether a thread of the application naps.
    #[inline]
    pub(crate) fn is_napped_on(&self) -> bool {
        self.nappers.load(Relaxed) != 0
    }

    /// Whether threads of the application nap, or have napped since the count was `before`, which it updates.
    pub(crate) fn was_napped_on(&self, before: &mut u64) -> bool {
        let naps = self.naps.load(Relaxed);
        std::mem::replace(before, naps) != naps || self.is_napped_on()
    }

    /// Wakes all napping threads.
    #[cold]
    pub(crate) fn ring(&self) {
        if !self.called.swap(true, SeqCst) {
            let _ = rustix::io::write(&self.call, &1u64.to_ne_bytes());
        }
        self.wake_dozing_now();
    }

    /// Wakes the napping threads without the watch, if there are any: the bell may have been for them.
    pub(crate) fn wake_dozing(&self) {
        self.changes.fetch_add(1, SeqCst);
        if self.nappers.load(SeqCst) > 1 {
            self.wake_dozing_now();
        }
    }

    /// Wakes the threads that doze if the one with the watch has left: one of them takes it over.
    pub(crate) fn wake_if_unwatched(&self) {
        if self.taken.load(SeqCst) == 0 && self.nappers.load(SeqCst) > 0 {
            self.wake_dozing_now();
        }
    }

    fn wake_dozing_now(&self) {
        *self.calls.lock() += 1;
        self.dozing.notify_all();
    }

    /// Blocks a napping thread while another one has the watch, until a call, but no longer than `longest`. Whether there
    /// was a call, or `is_wanted` was true from the start.
    pub(crate) fn doze(&self, longest: Duration, is_wanted: impl FnOnce() -> bool) -> bool {
        let mut calls = self.calls.lock();
        let before = *calls;
        is_wanted() || !self.dozing.wait_while_for(&mut calls, |calls| *calls == before, longest).timed_out()
    }

    /// Makes the bell unreadable. A peer may have rung it because it has changed memory.
    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.note_change();
    }
}

impl OnWatch<'_> {
    /// Blocks until a packet, the bell or a call comes, but no longer than `longest`. Whether one came.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)` and `epoll_wait(2)`.
    pub(crate) fn wait<'a>(
        &self,
        sockets: impl Iterator<Item = BorrowedFd<'a>>,
        longest: Duration,
    ) -> rustix::io::Result<bool> {
        self.0.add_sockets(sockets)?;
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; 4];
        let is_wanted = !guest::epoll_wait(&self.0.all, &mut events, Some(longest))?.is_empty();
        self.0.called.store(false, SeqCst);
        Ok(is_wanted)
    }
}

fn add(all: &OwnedFd, fd: BorrowedFd<'_>, flags: epoll::EventFlags) -> rustix::io::Result<()> {
    epoll::add(all, fd, epoll::EventData::new_u64(0), flags)
}

impl Drop for OnWatch<'_> {
    fn drop(&mut self) {
        self.0.taken.store(0, SeqCst);
    }
}

impl Drop for Napping<'_> {
    fn drop(&mut self) {
        self.0.nappers.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(60);

    fn is_woken(on_watch: &OnWatch<'_>, longest: Duration) -> bool {
        on_watch.wait([].into_iter(), longest).unwrap()
    }

    #[test]
    fn one_thread_has_the_watch() {
        let watch = SocketWatch::new(wake_descriptor().unwrap()).unwrap();
        let first = watch.take(Watcher::Background);
        assert!(first.is_ok());
        assert_eq!(watch.take(Watcher::Application).err(), Some(Watcher::Background));
        drop(first);
        let second = watch.take(Watcher::Application);
        assert!(second.is_ok());
        assert_eq!(watch.take(Watcher::Background).err(), Some(Watcher::Application));
    }

    #[test]
    fn a_call_wakes_each_napping_thread_once() {
        let watch = SocketWatch::new(wake_descriptor().unwrap()).unwrap();
        let _naps = (watch.nap(), watch.nap());
        let on_watch = watch.take(Watcher::Application).unwrap();
        let before = *watch.calls.lock();
        std::thread::scope(|scope| {
            let dozing = scope.spawn(|| watch.doze(LONG, || false));
            // This thread rings until the other one has slept and was woken.
            while !dozing.is_finished() {
                watch.ring();
                std::thread::yield_now();
            }
            assert!(dozing.join().unwrap());
        });
        assert!(*watch.calls.lock() > before && is_woken(&on_watch, LONG));
        // Both still nap, and there was no further call.
        assert!(!watch.doze(SHORT, || false) && !is_woken(&on_watch, SHORT));
        watch.ring();
        assert!(is_woken(&on_watch, LONG) && watch.is_napped_on());
    }

    #[test]
    fn a_thread_that_is_wanted_does_not_doze() {
        let watch = SocketWatch::new(wake_descriptor().unwrap()).unwrap();
        assert!(watch.doze(LONG, || true));
    }

    /// A peer rings once for each nap, and no thread reads the bell in between.
    #[test]
    fn each_ring_ends_a_wait() {
        let watch = SocketWatch::new(wake_descriptor().unwrap()).unwrap();
        let on_watch = watch.take(Watcher::Application).unwrap_or_else(|_| panic!("nobody has it"));
        let (socket, peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let waits = |longest| !on_watch.wait([socket.as_fd()].into_iter(), longest).unwrap();
        let is_woken = || !waits(Duration::from_secs(60));
        for _ in 0..3 {
            rustix::io::write(&watch.bell, &1u64.to_ne_bytes()).unwrap();
            assert!(is_woken());
        }
        assert!(waits(Duration::from_millis(1)));
        rustix::io::write(&peer, b"a packet").unwrap();
        assert!(is_woken(), "sockets are seen, too");
        watch.ring();
        assert!(is_woken());
    }

    #[test]
    fn a_ticket_ends_with_anything_that_a_thread_takes() {
        let watch = SocketWatch::new(wake_descriptor().unwrap()).unwrap();
        let other = SocketWatch::new(wake_descriptor().unwrap()).unwrap();
        assert!(!watch.count_changes() && watch.count_changes());
        let ticket = watch.ticket();
        assert!(watch.is_current(ticket) && !other.is_current(ticket), "it is for naps on this watch");
        watch.note_change();
        assert!(!watch.is_current(ticket));
        for change in [SocketWatch::wake_dozing, SocketWatch::silence] {
            let ticket = watch.ticket();
            change(&watch);
            assert!(!watch.is_current(ticket));
        }
        assert!(!watch.count_change());
        let _nap = watch.nap();
        assert!(watch.count_change(), "a thread naps");
    }

    #[test]
    fn a_thread_that_takes_something_wakes_those_that_nap() {
        let watch = SocketWatch::new(wake_descriptor().unwrap()).unwrap();
        let on_watch = watch.take(Watcher::Application).unwrap();
        watch.note_change();
        assert!(!is_woken(&on_watch, SHORT), "nobody naps");
        let _nap = watch.nap();
        watch.note_change();
        assert!(!is_woken(&on_watch, SHORT), "nobody has got a ticket");
        watch.count_changes();
        watch.note_change();
        assert!(is_woken(&on_watch, LONG));
    }

    #[test]
    fn threads_that_doze_are_woken_when_nobody_has_the_watch() {
        let watch = SocketWatch::new(wake_descriptor().unwrap()).unwrap();
        let calls = || *watch.calls.lock();
        watch.wake_if_unwatched();
        assert_eq!(calls(), 0, "nobody naps");
        let _naps = (watch.nap(), watch.nap());
        let on_watch = watch.take(Watcher::Application).unwrap();
        watch.wake_if_unwatched();
        assert_eq!(calls(), 0, "a thread has the watch");
        drop(on_watch);
        watch.wake_if_unwatched();
        assert_eq!(calls(), 1);
    }

    #[test]
    fn naps_are_noticed_afterwards() {
        let watch = SocketWatch::new(wake_descriptor().unwrap()).unwrap();
        let mut before = 0;
        assert!(!watch.was_napped_on(&mut before));
        drop(watch.nap());
        assert!(watch.was_napped_on(&mut before) && !watch.was_napped_on(&mut before));
    }
}
