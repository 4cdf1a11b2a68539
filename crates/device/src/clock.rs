//! The clock that the transport's time is read from.

use transport::Time;

/// The clock of completion timestamps: nanoseconds of the system's monotonic clock.
pub fn monotonic_ns() -> u64 {
    now().0
}

/// The same as the transport's time.
///
/// By libc, as valgrind wants it: it hides the system's page of fast calls, where rustix looks by itself.
#[inline]
#[allow(unsafe_code)]
pub(crate) fn now() -> Time {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place of ours.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    debug_assert_eq!(result, 0, "every Linux has this clock");
    Time(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
