//! The objects behind completion queues.

use std::cell::UnsafeCell;

use device::{Completion, Cq};
use parking_lot::lock_api::RawMutex as _;
use parking_lot::{Condvar, Mutex, RawMutex};

use crate::boundary::Errno;
use crate::object::CObject;
use crate::verbs::unacked::Unacked;
use abi::*;

/// Our part of a completion queue. Every queue has the extended structure, which begins with
/// the plain one.
pub(crate) struct CqOwn {
    pub(crate) cq: Cq,
    pub(crate) unacked: Unacked,
    /// The position of an extended poll.
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
        // SAFETY: the contract of `of`: null, or created; `ibv_cq_ex` begins with an `ibv_cq`.
        unsafe { CObject::<ibv_cq_ex, CqOwn>::of(cq.cast()) }
    }

    /// For calls that a driver serves without the kernel.
    ///
    /// # Safety
    /// As [`of`](Self::of).
    #[inline]
    pub(crate) unsafe fn whatever_handle<'a>(cq: *mut ibv_cq) -> Result<&'a CqOwn, Errno> {
        // SAFETY: the contract of `whatever_handle`, which is that of `of`. The extended structure begins with the plain one.
        unsafe { CObject::<ibv_cq_ex, CqOwn>::whatever_handle(cq.cast()) }
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

    /// Counts events as acknowledged, and wakes a destroy that waits for them.
    pub(crate) fn acknowledge(&self, count: u32) {
        self.cq.ack_events(count);
        let (lock, changed) = &self.acknowledged;
        drop(lock.lock());
        changed.notify_all();
    }

    /// Waits until every event that a program fetched is acknowledged.
    pub(super) fn wait_until_acknowledged(&self) {
        let (lock, changed) = &self.acknowledged;
        let mut guard = lock.lock();
        while self.cq.unacked_events() > 0 {
            changed.wait(&mut guard);
        }
        drop(guard);
        self.unacked.wait();
    }
}

/// The current completion of an extended poll. The lock is held from a successful
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
