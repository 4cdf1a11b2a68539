//! A lock that costs one atomic operation to take and a store to release.
//!
//! The locks of the hot path are held for some tens of nanoseconds and hardly ever contended. A lock with
//! sleeping waiters needs a second atomic operation to find out if there is a waiter to wake. On that path
//! each such operation counts, so waiters here poll the lock. They spin, then yield, then sleep for a moment,
//! in case the holder was scheduled away.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::time::Duration;

use parking_lot::lock_api::{self, GuardNoSend, RawMutex};

/// Rounds after which a waiter yields, and rounds after which it sleeps.
const SPINS: u32 = 128;
const YIELDS: u32 = 256;
const NAP: Duration = Duration::from_micros(20);

/// A mutex for values that are held for a moment only.
pub type QuickMutex<T> = lock_api::Mutex<RawQuick, T>;
/// The guard of a locked [`QuickMutex`].
pub type QuickGuard<'a, T> = lock_api::MutexGuard<'a, RawQuick, T>;

/// The lock of a [`QuickMutex`].
pub struct RawQuick {
    taken: AtomicBool,
}

// SAFETY: by one atomic exchange only one caller at a time finds `taken` false and sets it, and only the
// holder's unlock clears it. Taking acquires the writes that unlocking released.
unsafe impl RawMutex for RawQuick {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait wants a constant to start from")]
    const INIT: RawQuick = RawQuick { taken: AtomicBool::new(false) };
    type GuardMarker = GuardNoSend;

    #[inline(always)]
    fn lock(&self) {
        if self.taken.swap(true, Acquire) {
            self.wait();
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        !self.taken.load(Relaxed) && !self.taken.swap(true, Acquire)
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        self.taken.store(false, Release);
    }
}

impl RawQuick {
    #[cold]
    fn wait(&self) {
        let mut round = 0;
        loop {
            while self.taken.load(Relaxed) {
                match round {
                    0..SPINS => core::hint::spin_loop(),
                    SPINS..YIELDS => std::thread::yield_now(),
                    _ => std::thread::sleep(NAP),
                }
                round += 1;
            }
            if !self.taken.swap(true, Acquire) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let counter = QuickMutex::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        let mut guard = counter.lock();
                        let before = *guard;
                        core::hint::black_box(before);
                        *guard = before + 1;
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 200_000);
    }

    #[test]
    fn trying_does_not_wait() {
        let lock = QuickMutex::new(());
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn a_long_holder_is_waited_for() {
        let lock = QuickMutex::new(1);
        std::thread::scope(|scope| {
            let mut held = lock.lock();
            let waiter = scope.spawn(|| *lock.lock());
            std::thread::sleep(Duration::from_millis(20));
            *held = 2;
            drop(held);
            assert_eq!(waiter.join().unwrap(), 2);
        });
    }
}
