//! The objects behind completion queues.

use std::cell::UnsafeCell;

use device::{Completion, Cq};
use parking_lot::lock_api::RawMutex as _;
use parking_lot::{Condvar, Mutex, RawMutex};

use crate::abi::*;
use crate::boundary::Errno;
use crate::object::Object;
use crate::verbs::unacked::Unacked;

/// What belongs to a completion queue. Every one has the extended structure, which begins with
/// the plain one.
pub(crate) struct CqOwn {
    pub(crate) cq: Cq,
    pub(crate) unacked: Unacked,
    /// Where an extended poll stands.
    pub(crate) cursor: PollCursor,
    acknowledged: (Mutex<()>, Condvar),
}

/// Behind either view of a queue.
pub(crate) struct CqObject;

impl CqObject {
    /// # Safety
    /// Null, or created.
    #[inline]
    pub(crate) unsafe fn of<'a>(cq: *mut ibv_cq) -> Result<&'a CqOwn, Errno> {
        // SAFETY: the caller's promise; `ibv_cq_ex` begins with an `ibv_cq`.
        unsafe { Object::<ibv_cq_ex, CqOwn>::of(cq.cast()) }
    }

    /// For what a driver does without the kernel.
    ///
    /// # Safety
    /// As [`of`](Self::of).
    #[inline]
    pub(crate) unsafe fn whatever_handle<'a>(cq: *mut ibv_cq) -> Result<&'a CqOwn, Errno> {
        // SAFETY: the caller's promise, as above.
        unsafe { Object::<ibv_cq_ex, CqOwn>::whatever_handle(cq.cast()) }
    }
}

impl CqOwn {
    pub(super) fn new(cq: Cq) -> CqOwn {
        CqOwn {
            cq,
            unacked: Unacked::default(),
            cursor: PollCursor::default(),
            acknowledged: (Mutex::new(()), Condvar::new()),
        }
    }

    /// Counts events as acknowledged, and lets a destroy that waits for them go on.
    pub(crate) fn acknowledge(&self, count: u32) {
        self.cq.ack_events(count);
        let (lock, changed) = &self.acknowledged;
        drop(lock.lock());
        changed.notify_all();
    }

    /// Waits until every event that a program fetched is acknowledged.
    pub(super) fn wait_for_acknowledges(&self) {
        let (lock, changed) = &self.acknowledged;
        let mut guard = lock.lock();
        while self.cq.unacked_events() > 0 {
            changed.wait(&mut guard);
        }
        drop(guard);
        self.unacked.wait();
    }
}

/// The completion that an extended poll stands at. The lock is held from a successful
/// `start_poll` to `end_poll`, as providers do it: other threads wait.
pub(crate) struct PollCursor {
    pub(super) lock: RawMutex,
    pub(super) at: UnsafeCell<Option<(Completion, u64)>>,
}

impl Default for PollCursor {
    fn default() -> PollCursor {
        PollCursor { lock: RawMutex::INIT, at: UnsafeCell::new(None) }
    }
}
