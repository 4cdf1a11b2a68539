//! The round trip time of a session and the timeout that follows from it.

use std::time::{Duration, Instant};

/// No timeout is longer, unless the shortest is.
const LONGEST: Duration = Duration::from_secs(1);
/// Before the first measurement the timeout is this many times the shortest.
const UNMEASURED: u32 = 4;

/// A smoothed round trip time and its variation, by RFC 6298, sections 2.2 and 2.3.
pub(crate) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    /// The shortest timeout.
    floor: Duration,
    /// Timeouts in a row, of whichever call, since the last measurement: the round trip may have grown. Without this no
    /// packet would ever be measured again, because all are sent twice (RFC 6298, section 5.7).
    unsure: u32,
    unsure_at: Option<Instant>,
}

impl RoundTrip {
    pub(crate) fn new(floor: Duration) -> RoundTrip {
        RoundTrip { smoothed: None, variation: Duration::ZERO, floor, unsure: 0, unsure_at: None }
    }

    /// Adds a measurement. Packets that were sent twice give none (RFC 6298, section 3).
    pub(crate) fn add(&mut self, rtt: Duration) {
        self.unsure = 0;
        match &mut self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
                *smoothed = (*smoothed * 7 + rtt) / 8;
            }
        }
    }

    /// An answer was late. Those that are late together count once.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.unsure_at.is_none_or(|at| now.saturating_duration_since(at) >= self.timeout(0)) {
            self.unsure += 1;
            self.unsure_at = Some(now);
        }
    }

    /// The answer that was late had another reason than the network.
    pub(crate) fn is_sure(&mut self) {
        self.unsure = 0;
    }

    /// The timeout of a packet after so many timeouts in a row: each doubles it, up to a second.
    pub(crate) fn timeout(&self, in_a_row: u32) -> Duration {
        let first = match self.smoothed {
            None => self.floor * UNMEASURED,
            Some(smoothed) => (smoothed + self.variation * 4).max(self.floor),
        };
        first.saturating_mul(1 << in_a_row.max(self.unsure).min(20)).min(LONGEST.max(self.floor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_timeout_follows_the_measurements_and_doubles() {
        let mut rtt = RoundTrip::new(MS);
        assert_eq!(rtt.timeout(0), 4 * MS);
        rtt.add(8 * MS);
        assert_eq!(rtt.timeout(0), 24 * MS);
        assert_eq!(rtt.timeout(2), 96 * MS);
        assert_eq!(rtt.timeout(u32::MAX), LONGEST);
        for _ in 0..100 {
            rtt.add(MS / 10);
        }
        assert_eq!(rtt.timeout(0), MS, "the floor");
    }

    #[test]
    fn late_answers_double_the_timeout_of_all_until_one_is_measured() {
        let (mut rtt, now) = (RoundTrip::new(MS), Instant::now());
        rtt.add(MS / 10);
        rtt.on_timeout(now);
        rtt.on_timeout(now + MS);
        assert_eq!(rtt.timeout(0), 2 * MS, "both were late together");
        rtt.on_timeout(now + 2 * MS);
        assert_eq!((rtt.timeout(0), rtt.timeout(1)), (4 * MS, 4 * MS));
        rtt.add(MS / 10);
        assert_eq!(rtt.timeout(0), MS);
    }
}
