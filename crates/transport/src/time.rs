//! Time as the transport sees it: nanoseconds on a clock that only moves forward.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time, in nanoseconds since a start that the caller chose.
/// The real device uses the monotonic clock, the simulator a virtual one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Time(pub u64);

impl Time {
    /// Later than every other time.
    pub const NEVER: Time = Time(u64::MAX);

    /// The same, and [`NEVER`](Time::NEVER) for none: the earliest of several is then one comparison each.
    #[inline]
    pub(crate) fn or_never(time: Option<Time>) -> Time {
        time.unwrap_or(Time::NEVER)
    }

    /// The time that has passed since `earlier`; zero if `earlier` lies ahead.
    #[inline]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    #[inline]
    fn add(self, delay: Duration) -> Time {
        Time(self.0.saturating_add(delay.as_nanos() as u64))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, delay: Duration) -> Time {
        Time(self.0.saturating_sub(delay.as_nanos() as u64))
    }
}
