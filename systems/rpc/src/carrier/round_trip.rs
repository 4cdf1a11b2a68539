//! The time after which a message counts as lost, from measured round trips (RFC 6298, sections 2 and 5).

use std::time::Duration;

/// The timeout before anything has been measured.
const FIRST: Duration = Duration::from_millis(20);
/// Shorter timeouts would repeat requests whenever the server's thread is not running.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(1);

/// The smoothed round-trip time, with the time that handlers take.
#[derive(Debug, Default)]
pub(crate) struct RoundTripTime {
    smoothed: Option<Duration>,
    variation: Duration,
    /// Doublings of the timeout since the last measurement.
    backoff: u32,
}

impl RoundTripTime {
    /// A message has been answered that was sent once.
    pub(crate) fn measured(&mut self, time: Duration) {
        self.backoff = 0;
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation) = (Some(time), time / 2);
            return;
        };
        self.variation = (self.variation * 3 + smoothed.abs_diff(time)) / 4;
        self.smoothed = Some((smoothed * 7 + time) / 8);
    }

    /// The time to wait for the answer to a new message. It stays doubled after repetitions until a measurement.
    pub(crate) fn timeout(&self) -> Duration {
        self.doubled(self.backoff)
    }

    /// The time to wait for the answer to a message that has been repeated so often; a second at most.
    pub(crate) fn timeout_after(&mut self, repeated: u32) -> Duration {
        self.backoff = self.backoff.max(repeated);
        self.doubled(repeated)
    }

    fn doubled(&self, times: u32) -> Duration {
        let measured = self.smoothed.map(|smoothed| smoothed + self.variation * 4);
        let timeout = measured.map_or(FIRST, |timeout| timeout.max(SHORTEST));
        timeout.saturating_mul(1 << times.min(10)).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_follow_the_round_trips_and_their_variation() {
        let mut time = RoundTripTime::default();
        assert_eq!(time.timeout(), FIRST);
        for _ in 0..50 {
            time.measured(Duration::from_millis(8));
        }
        let steady = time.timeout();
        assert!(steady < Duration::from_millis(9), "{steady:?}");
        time.measured(Duration::from_millis(16));
        assert!(time.timeout() > steady + Duration::from_millis(5));
        (0..100).for_each(|_| time.measured(Duration::from_micros(5)));
        assert_eq!(time.timeout(), SHORTEST);
    }

    #[test]
    fn repetitions_grow_rare_and_never_end() {
        let mut time = RoundTripTime::default();
        assert_eq!(time.timeout_after(2), FIRST * 4);
        assert_eq!(
            time.timeout(),
            FIRST * 4,
            "handlers that take longer than the timeout are not asked twice each time"
        );
        assert_eq!(time.timeout_after(u32::MAX), LONGEST);
        time.measured(Duration::from_micros(5));
        assert_eq!(time.timeout(), SHORTEST);
    }
}
