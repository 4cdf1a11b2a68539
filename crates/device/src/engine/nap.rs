//! Naps of the application: a poll that found nothing sleeps until something arrives.
//!
//! A nap is a poll that takes longer. It comes only after [`RestPolicy`](super::rest::RestPolicy) has found that other
//! threads want the processor: the thread would lose it in any case. It ends with the first packet, frame or completion.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::SeqCst, fence};
use std::time::Duration;

use crate::clock;
use crate::engine::caller::StepCaller;
use crate::engine::rest::Advice;
use crate::engine::scratch::{PathScratch, ThreadScratch};
use crate::engine::watch::{NapTicket, OnWatch, Watcher};
use crate::engine::{Engine, usage};
use crate::objects::counters::EngineCounter;
use crate::path::shm::LanePath;

/// The longest nap. It is longer than a tick of the usual kernels: a timer before the next tick must be programmed, which
/// costs more than the rest of the nap.
pub(crate) const NAP: Duration = Duration::from_millis(5);
/// The longest nap while queue pairs wait for room in a lane: no bell rings when there is some.
const NAP_FOR_ROOM: Duration = Duration::from_micros(100);

impl Engine {
    /// Asks the system whether other threads want the processor, after polls have found nothing for long.
    #[cold]
    pub(crate) fn ask_whether_busy(&self, scratch: &mut ThreadScratch) {
        if self.naps {
            scratch.rest.ask(clock::now(), usage::of_this_thread());
        }
    }

    /// Rests instead of a poll of an empty completion queue, whose length is `wanted`: it naps for `longest` at most if
    /// that is right, and takes what has arrived. False if the thread should poll.
    ///
    /// The first call only announces the nap, and polls. So a program that also polls memory looks at it once more.
    #[cold]
    pub(crate) fn rest(&self, wanted: &AtomicU32, longest: Duration, scratch: &mut ThreadScratch) -> bool {
        if scratch.rest.advise(clock::now()) == Advice::Spin {
            self.stay_awake();
            return false;
        }
        let Some(ticket) = scratch.rest.take_ticket() else { return self.announce_nap(scratch) };
        self.send_everything(&mut scratch.path);
        if !self.watch.is_current(ticket) || !self.nap(|| wanted.load(Acquire) > 0, ticket, longest) {
            return false;
        }
        if self.step(StepCaller::Application, scratch) {
            scratch.rest.found();
        } else if self.shm.as_ref().is_some_and(LanePath::frames_wait) && scratch.rest.is_in_vain() {
            // Another thread was about to take them when it lost its processor.
            std::thread::yield_now();
        }
        scratch.rest.woke(clock::now());
        true
    }

    /// Tells peers on this host, and the other threads, that they must wake the thread when they change the process's
    /// memory. False if they may not hear it: then the thread polls.
    fn announce_nap(&self, scratch: &mut ThreadScratch) -> bool {
        // Other threads hear the first announcement a little later: that one is only made.
        let is_counted = self.watch.count_changes();
        let is_heard = self.shm.as_ref().is_none_or(|shm| shm.export.export().watch_memory());
        if !is_counted || !is_heard {
            return false;
        }
        if self.step(StepCaller::Application, scratch) {
            scratch.rest.found();
        }
        let ticket = self.watch.ticket();
        // A thread that has ended the announcement meanwhile has ended the ticket, or did so before.
        let still_heard = self.shm.as_ref().is_none_or(|shm| shm.export.export().is_memory_watched());
        if still_heard {
            scratch.rest.announce(ticket);
        }
        still_heard
    }

    /// Tells peers on this host that the naps are over, unless another thread naps.
    fn stay_awake(&self) {
        if let (Some(shm), Ok(_on_watch)) = (&self.shm, self.watch.take(Watcher::Application))
            && !self.watch.count_change()
        {
            shm.export.export().stay_awake();
            self.unwatch_memory();
        }
    }

    /// Tells peers on this host that nobody sleeps until memory changes, unless somebody does.
    pub(crate) fn unwatch_memory(&self) {
        let Some(shm) = &self.shm else { return };
        if self.watch.is_napped_on() || self.memory_watchers.are_armed() {
            return;
        }
        shm.export.export().unwatch_memory();
        fence(SeqCst);
        // Threads that have fallen asleep meanwhile announce it once more.
        if self.watch.count_change() {
            self.watch.ring();
        }
        if self.memory_watchers.are_armed() {
            self.memory_watchers.ring();
        }
    }

    /// Sends everything that waits to be sent, before the thread sleeps.
    fn send_everything(&self, scratch: &mut PathScratch) {
        self.schedule.take_backlog(&mut scratch.ready);
        self.send_deferred(scratch);
        self.serve_waiting_frames(scratch);
        self.send_ready(scratch);
        self.settle(scratch);
    }

    /// Sleeps until something arrives. False if another thread had to be woken instead.
    fn nap(&self, is_wanted: impl Fn() -> bool, ticket: NapTicket, longest: Duration) -> bool {
        let napping = self.watch.nap();
        let is_wanted = || is_wanted() || !self.watch.is_current(ticket);
        match self.watch.take(Watcher::Application) {
            Ok(on_watch) => self.nap_on_watch(&on_watch, is_wanted, longest),
            Err(Watcher::Application) => {
                self.sleep(is_wanted, longest, |longest| Ok(self.watch.doze(longest, is_wanted)));
            }
            // The background thread has not noticed yet that the application is there.
            Err(Watcher::Background) => {
                self.schedule.background.kick();
                return false;
            }
        }
        self.services.counters.add(EngineCounter::Naps, 1);
        drop(napping);
        true
    }

    fn nap_on_watch(&self, on_watch: &OnWatch<'_>, is_wanted: impl Fn() -> bool, longest: Duration) {
        let slots = &self.services.slots;
        slots.all().filter_map(|slot| slot.receiver.try_lock()).for_each(|mut receiver| receiver.side.pause());
        let sockets = || slots.all().map(|slot| slot.socket.as_fd());
        let Some(shm) = &self.shm else {
            return self.sleep(is_wanted, longest, |longest| on_watch.wait(sockets(), longest));
        };
        if shm.frames_wait() {
            return;
        }
        let export = shm.export.export();
        let certain = export.fall_asleep(true);
        if certain && !shm.frames_wait() {
            self.sleep(is_wanted, longest, |longest| on_watch.wait(sockets(), longest));
            if !shm.frames_wait() {
                // A change of memory may be for a thread that dozes.
                self.watch.wake_dozing();
            }
        }
        export.wake_up();
    }

    /// Calls `block` with the longest time that it may block, unless there is something to do.
    fn sleep(
        &self,
        is_wanted: impl Fn() -> bool,
        longest: Duration,
        block: impl FnOnce(Duration) -> rustix::io::Result<bool>,
    ) {
        if is_wanted() || self.schedule.has_backlog() {
            return;
        }
        let longest = if self.schedule.stalled.is_empty() { longest } else { NAP_FOR_ROOM.min(longest) };
        if let Err(error) = block(longest)
            && error != rustix::io::Errno::INTR
        {
            log::error!("a poll cannot nap: {error}");
            std::thread::sleep(NAP_FOR_ROOM);
        }
    }
}
