//! The surroundings that clients and tables ask: time, sleep, and the length of pieces. In a simulation its world answers, so the
//! code that runs there is the same.

use std::time::{Duration, Instant};

use crate::protocol::PIECE_BYTES;
#[cfg(any(test, feature = "sim"))]
use crate::sim::actor;

/// The time, for deadlines.
#[inline]
pub(crate) fn instant() -> Instant {
    #[cfg(any(test, feature = "sim"))]
    if let Some(instant) = actor::instant() {
        return instant;
    }
    Instant::now()
}

/// Lets time pass.
pub(crate) fn sleep(time: Duration) {
    #[cfg(any(test, feature = "sim"))]
    if actor::sleep(time) {
        return;
    }
    std::thread::sleep(time);
}

/// Lets others run.
pub(crate) fn yield_now() {
    #[cfg(any(test, feature = "sim"))]
    if actor::sleep(Duration::from_micros(1)) {
        return;
    }
    std::thread::yield_now();
}

/// Bytes of a value in one message: [`PIECE_BYTES`], but fewer in a simulation.
#[inline]
pub(crate) fn piece_bytes() -> usize {
    #[cfg(any(test, feature = "sim"))]
    if let Some(bytes) = actor::piece_bytes() {
        return bytes;
    }
    PIECE_BYTES
}
