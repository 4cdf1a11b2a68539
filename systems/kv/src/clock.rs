//! The server's clock, and a client's knowledge of it.
//!
//! A value carries its expiry in the server's clock. A client that reads the value alone has to judge by itself whether it has
//! expired. From each reply that tells the server's time, it knows an interval in which that time lies now. So an expiry is
//! certainly past, certainly to come, or unknown; and then the server decides. Clocks of the day play no part.

use rustix::time::{ClockId, clock_gettime};

#[cfg(any(test, feature = "sim"))]
use crate::sim::actor;

/// Clocks of two machines drift apart by at most one part in so many. (Quartz oscillators are within 100 ppm.)
const DRIFT_DIVISOR: u64 = 2000;
/// A calibration that is older is good for nothing.
const LONGEST_NS: u64 = 600 * 1_000_000_000;

/// Nanoseconds since this machine booted, the time included in which it slept.
pub(crate) fn now_ns() -> u64 {
    #[cfg(any(test, feature = "sim"))]
    if let Some(now_ns) = actor::clock_ns() {
        return now_ns;
    }
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// The time at the server when it answered, and at the client before it asked and after it had the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockReading {
    pub(crate) asked_ns: u64,
    pub(crate) server_ns: u64,
    pub(crate) answered_ns: u64,
}

/// A client's judgement of an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryVerdict {
    /// The value certainly has not expired.
    Live,
    /// It certainly has.
    Expired,
    /// The server has to say.
    Unknown,
}

impl ClockReading {
    /// The earliest and the latest time that the server's clock can show now; `None` if the reading is too old.
    fn interval(&self, now_ns: u64) -> Option<(u64, u64)> {
        let (shortest, longest) = (now_ns.checked_sub(self.answered_ns)?, now_ns.checked_sub(self.asked_ns)?);
        let earliest = self.server_ns.saturating_add(shortest - shortest / DRIFT_DIVISOR);
        let latest = self.server_ns.saturating_add(longest).saturating_add(longest / DRIFT_DIVISOR + 1);
        (longest <= LONGEST_NS).then_some((earliest, latest))
    }

    /// The better reading of both.
    pub(crate) fn better(self, other: ClockReading, now_ns: u64) -> ClockReading {
        let width = |reading: &ClockReading| reading.interval(now_ns).map_or(u64::MAX, |(from, to)| to - from);
        if width(&other) <= width(&self) { other } else { self }
    }

    /// Judges an expiry in the server's clock; zero stands for none.
    pub(crate) fn judge(&self, expires_ns: u64, now_ns: u64) -> ExpiryVerdict {
        match (expires_ns, self.interval(now_ns)) {
            (0, _) => ExpiryVerdict::Live,
            (_, Some((earliest, _))) if expires_ns <= earliest => ExpiryVerdict::Expired,
            (_, Some((_, latest))) if expires_ns > latest => ExpiryVerdict::Live,
            _ => ExpiryVerdict::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn an_expiry_is_certain_only_outside_of_the_interval() {
        let reading = ClockReading { asked_ns: 1000, server_ns: 50 * SECOND, answered_ns: 3000 };
        assert_eq!(reading.interval(3000), Some((50 * SECOND, 50 * SECOND + 2000 + 2)));
        assert_eq!(reading.judge(0, u64::MAX), ExpiryVerdict::Live);
        assert_eq!(reading.judge(50 * SECOND, 3000), ExpiryVerdict::Expired);
        assert_eq!(reading.judge(50 * SECOND + 1, 3000), ExpiryVerdict::Unknown);
        assert_eq!(reading.judge(50 * SECOND + 2003, 3000), ExpiryVerdict::Live);
        // A second later the drift has made the interval wider.
        let (from, to) = reading.interval(3000 + SECOND).unwrap();
        assert_eq!((from, to), (51 * SECOND - SECOND / 2000, 51 * SECOND + 2000 + (SECOND + 2000) / 2000 + 1));
    }

    #[test]
    fn an_old_reading_and_a_clock_that_went_back_know_nothing() {
        let reading = ClockReading { asked_ns: 1000, server_ns: 5 * SECOND, answered_ns: 3000 };
        for now_ns in [1000 + LONGEST_NS + 1, 2999, 0] {
            assert_eq!(reading.judge(1, now_ns), ExpiryVerdict::Unknown);
        }
        let narrow = ClockReading { asked_ns: 2000, ..reading };
        assert_eq!((reading.better(narrow, 3000), narrow.better(reading, 3000)), (narrow, narrow));
    }
}
