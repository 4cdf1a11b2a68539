//! The clock that the transport's time is read from.

use rustix::time::{ClockId, clock_gettime};
use transport::Time;

/// The clock of completion timestamps: nanoseconds of the system's monotonic clock.
pub fn monotonic_ns() -> u64 {
    now().0
}

/// The same as the transport's time.
#[inline]
pub(crate) fn now() -> Time {
    let time = clock_gettime(ClockId::Monotonic);
    Time(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
