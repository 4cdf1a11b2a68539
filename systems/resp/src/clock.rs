//! Between the clock of the table, which counts from the machine's start, and the clock of the day, in which clients tell expiries.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MILLISECOND: i128 = 1_000_000;
/// Two readings of both clocks differ by so much though nobody has set a clock.
const JITTER_NS: i128 = 300_000;

/// Both clocks. An expiry that a client tells in milliseconds comes back as the same number: the distance of the clocks stays
/// what it was until somebody sets one.
#[derive(Debug, Default)]
pub(crate) struct DoorClock {
    /// The clock of the day less that of the table.
    distance_ns: i128,
}

impl DoorClock {
    /// Looks at the clock of the day, while the other shows `table_ns`.
    pub(crate) fn look(&mut self, table_ns: u64) {
        let distance = unix_time().as_nanos() as i128 - i128::from(table_ns);
        if (distance - self.distance_ns).abs() > JITTER_NS {
            self.distance_ns = distance;
        }
    }

    /// The clock of the day in milliseconds.
    pub(crate) fn unix_ms(&self, table_ns: u64) -> i64 {
        i64::try_from((i128::from(table_ns) + self.distance_ns).div_euclid(MILLISECOND)).unwrap_or(i64::MAX)
    }

    /// An expiry of the table in milliseconds of the clock of the day.
    pub(crate) fn expiry_ms(&self, expires_ns: u64) -> i64 {
        let unix_ns = i128::from(expires_ns) + self.distance_ns;
        i64::try_from((unix_ns + MILLISECOND / 2).div_euclid(MILLISECOND)).unwrap_or(i64::MAX)
    }

    /// Nanoseconds from now to a time of the day; `None` if it is past.
    pub(crate) fn until_ns(&self, unix_ms: i64, table_ns: u64) -> Option<u64> {
        let ns = i128::from(unix_ms) * MILLISECOND - self.distance_ns - i128::from(table_ns);
        (ns > 0).then(|| u64::try_from(ns).unwrap_or(u64::MAX / 2))
    }
}

/// The time since 1970.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_day_comes_back() {
        let mut clock = DoorClock { distance_ns: 0 };
        clock.look(5_000_123_456);
        for at in [2_000_000_000_001, 4_000_000_000_999] {
            let ns = clock.until_ns(at, 6_000_000_001).unwrap();
            clock.look(5_000_123_456 + 1000);
            assert_eq!(clock.expiry_ms(6_000_000_001 + ns), at);
        }
        assert_eq!(clock.until_ns(1000, 6_000_000_001), None);
    }
}
