//! The clock of the transport's time.

use std::time::Duration;

use transport::Time;

/// The clock of completion timestamps: nanoseconds of the system's monotonic clock.
pub fn monotonic_ns() -> u64 {
    now().0
}

/// The same clock as the transport's time.
///
/// It calls libc, since valgrind hides the system's page of fast calls, which rustix would read by itself.
#[inline]
pub(crate) fn now() -> Time {
    Time(read(libc::CLOCK_MONOTONIC))
}

/// The time for which the calling thread has run on a processor.
pub(crate) fn thread_cpu_time() -> Duration {
    Duration::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Nanoseconds of a clock.
#[inline(always)]
#[allow(unsafe_code)]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local value of the type that `clock_gettime` writes.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(result, 0, "every Linux has these clocks");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
