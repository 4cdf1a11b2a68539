//! A value that many threads may use at once and one thread may withdraw.
//!
//! ```text
//!            open(value)                      state: | closed | writing | pins |
//!   closed --------------> open
//!     ^                      |  pin() / drop of the pin, any number at once
//!     | last pin dropped     |
//!   closing <----------------+
//!              close() waits here
//! ```
//!
//! Soundness: all state is in one atomic, so its modification order decides every race. A pin is counted by
//! the same addition that reads the closed bit. If the addition comes before the bit is set, `close` counts
//! the pin and waits for it. Otherwise the pin sees the bit and gives up without having touched the value.
//! Dropping a pin releases, and the load that finds no pin left acquires. (Every change in between is a
//! read-modify-write, so the release sequences hold.) Accesses under the pins therefore happen before `close`
//! returns. Opening releases and pinning acquires: the value is written before it is read.
//! `tests/gate_model.rs` checks all interleavings of small cases under the memory model.
//!
//! A pin that gives up is counted for a moment. Hence `open` and `close` wait for the count, but such pins
//! last only two instructions.

use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::{AtomicU32, UnsafeCell, pause};

/// No new pins are given.
const CLOSED: u32 = 1 << 31;
/// The value is being replaced.
const WRITING: u32 = 1 << 30;
/// The number of pins.
const PINS: u32 = WRITING - 1;

/// The value and its gate. The order of the fields puts the beginning of the value into the state's cache
/// line.
#[repr(C)]
pub struct Gate<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: threads share the value by reference only while it is pinned, which needs `T: Sync`. `open` moves
// it in from another thread, which needs `T: Send`. The gate orders the two as the module comment explains.
unsafe impl<T: Send + Sync> Sync for Gate<T> {}
// SAFETY: an owned gate is an owned value.
unsafe impl<T: Send> Send for Gate<T> {}

impl<T: Copy> Gate<T> {
    /// A closed gate. `value` is never seen.
    pub fn closed(value: T) -> Gate<T> {
        Gate { state: AtomicU32::new(CLOSED), value: UnsafeCell::new(value) }
    }

    /// The value, for as long as the pin is held; `None` if the gate is closed.
    #[inline(always)]
    pub fn pin(&self) -> Option<Pin<'_, T>> {
        let pin = Pin { gate: self };
        let before = self.state.fetch_add(1, Acquire);
        debug_assert!(before & PINS < PINS, "one pin per thread cannot count this far");
        // If the gate is closed, dropping the pin here takes the count back.
        (before & CLOSED == 0).then_some(pin)
    }

    /// The value if another pin is held, also while the gate is being closed. Never waits: a signal handler
    /// can use it to find out which access it has interrupted.
    ///
    /// A pinned value is not written, whether the gate is closed or not. One addition counts this pin and
    /// shows that there was another pin, and no writer.
    pub fn pinned(&self) -> Option<Pin<'_, T>> {
        if self.state.load(Relaxed) & PINS == 0 {
            return None;
        }
        let pin = Pin { gate: self };
        let before = self.state.fetch_add(1, Acquire);
        (before & PINS > 0 && before & WRITING == 0).then_some(pin)
    }

    /// Puts a value in and opens the gate.
    ///
    /// # Panics
    /// If the gate is not closed, or another thread is opening it.
    pub fn open(&self, value: T) {
        self.claim();
        // SAFETY: the gate is closed, no pin is held and only this thread has the claim, so no other thread
        // reads or writes the value.
        self.value.with_mut(|place| unsafe { *place = value });
        self.state.fetch_and(!(CLOSED | WRITING), Release);
    }

    /// Closes the gate and waits until no pin is held. Closing a closed gate waits too.
    /// One thread at a time opens and closes a gate.
    ///
    /// Must not be called by a thread that holds a pin: it would wait for itself.
    pub fn close(&self) {
        self.state.fetch_or(CLOSED, Relaxed);
        let mut round = 0;
        while self.state.load(Acquire) & PINS != 0 {
            pause(round);
            round += 1;
        }
    }

    /// Takes the right to write the value.
    fn claim(&self) {
        let mut round = 0;
        loop {
            match self.state.compare_exchange(CLOSED, CLOSED | WRITING, Acquire, Relaxed) {
                Ok(_) => return,
                Err(state) => assert!(
                    state & CLOSED != 0 && state & WRITING == 0,
                    "a gate is opened once, by one thread, after it was closed"
                ),
            }
            pause(round);
            round += 1;
        }
    }
}

/// The right to use the value of a gate.
pub struct Pin<'a, T> {
    gate: &'a Gate<T>,
}

impl<T> Deref for Pin<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a counted pin keeps the value from being written until the pin is dropped. The
        // reference lives no longer than the borrow of the pin.
        self.gate.value.with(|place| unsafe { &*place })
    }
}

impl<T> Drop for Pin<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.gate.state.fetch_sub(1, Release);
    }
}
