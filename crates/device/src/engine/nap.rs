//! Naps of the application: a poll that found nothing sleeps until something arrives.
//!
//! A nap is a poll that takes longer, and only where [`Rest`](super::rest::Rest) has found that others want the
//! processor: the thread would lose it anyway, and for as long. It ends with the first packet, frame or completion.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::Acquire};
use std::time::Duration;

use crate::clock;
use crate::engine::progress::Driver;
use crate::engine::rest::Advice;
use crate::engine::scratch::Scratch;
use crate::engine::watch::{OnWatch, Watcher};
use crate::engine::{Engine, usage};
use crate::objects::counters::Counter;

/// The longest nap. It is longer than a tick of the usual kernels: a timer that comes before the next tick has to be
/// programmed, which costs more than all the rest of the nap (20 µs in a virtual machine).
const NAP: Duration = Duration::from_millis(5);
/// The same while queue pairs wait for room in a lane: nobody rings when there is some.
const NAP_FOR_ROOM: Duration = Duration::from_micros(100);

impl Engine {
    /// Polls have found nothing for long: asks the system whether others want the processor.
    #[cold]
    pub(crate) fn ask_whether_busy(&self, scratch: &mut Scratch) {
        if self.naps {
            scratch.rest.ask(clock::now(), usage::of_this_thread());
        }
    }

    /// A thread that rests polls a completion queue that has `wanted` completions, which is none: it naps, if that is
    /// right, and takes what has arrived. False if it should poll.
    #[cold]
    pub(crate) fn rest(&self, wanted: &AtomicU32, scratch: &mut Scratch) -> bool {
        if scratch.rest.advise(clock::now()) == Advice::Spin {
            self.stay_awake();
            return false;
        }
        self.leave_nothing_undone(scratch);
        if !self.nap(wanted) {
            return false;
        }
        if self.step(Driver::Application, scratch) {
            scratch.rest.found();
        } else if self.frames_wait() && scratch.rest.is_in_vain() {
            // Another thread was about to take them when it lost its processor.
            std::thread::yield_now();
        }
        scratch.rest.woke(clock::now());
        true
    }

    /// Tells peers on this host that the naps are over.
    fn stay_awake(&self) {
        if let (Some(shm), Ok(_on_watch)) = (&self.shm, self.watch.take(Watcher::Application)) {
            shm.export.export().stay_awake();
        }
    }

    fn leave_nothing_undone(&self, scratch: &mut Scratch) {
        self.take_backlog(scratch);
        self.send_put_off(scratch);
        self.do_later(scratch);
        self.pump_touched(scratch);
        self.settle(scratch);
    }

    /// Sleeps until something arrives. False if it did not come to that.
    fn nap(&self, wanted: &AtomicU32) -> bool {
        let napping = self.watch.nap();
        match self.watch.take(Watcher::Application) {
            Ok(on_watch) => self.nap_on_watch(&on_watch, wanted),
            Err(Watcher::Application) => {
                self.sleep(wanted, |longest| Ok(self.watch.doze(longest, || wanted.load(Acquire) > 0)));
            }
            // It has not noticed yet that the application is there.
            Err(Watcher::Background) => {
                self.background.kick();
                return false;
            }
        }
        self.counters.add(Counter::Naps, 1);
        drop(napping);
        true
    }

    fn nap_on_watch(&self, on_watch: &OnWatch<'_>, wanted: &AtomicU32) {
        self.slots.all().filter_map(|slot| slot.rx.try_lock()).for_each(|mut rx| rx.pause());
        let sockets = || self.slots.all().map(|slot| slot.socket.as_fd());
        let Some(shm) = &self.shm else { return self.sleep(wanted, |longest| on_watch.wait(sockets(), longest)) };
        if self.frames_wait() {
            return;
        }
        let export = shm.export.export();
        let certain = export.fall_asleep(true);
        if certain && !self.frames_wait() {
            self.sleep(wanted, |longest| on_watch.wait(sockets(), longest));
        }
        export.wake_up();
    }

    /// Calls `block`, unless there is something to do, with the longest time that it may block.
    fn sleep(&self, wanted: &AtomicU32, block: impl FnOnce(Duration) -> rustix::io::Result<bool>) {
        if wanted.load(Acquire) > 0 || self.is_backlogged() {
            return;
        }
        let longest = if self.stalled.any() { NAP_FOR_ROOM } else { NAP };
        if let Err(error) = block(longest)
            && error != rustix::io::Errno::INTR
        {
            log::error!("a poll cannot nap: {error}");
            std::thread::sleep(NAP_FOR_ROOM);
        }
    }
}
