//! The window of a session: how many of its credits may be under way.
//!
//! Timely's control by the gradient of the round trip time (Mittal et al., "TIMELY: RTT-based Congestion Control for the
//! Datacenter", SIGCOMM 2015, section 4), with a window in place of the rate. As in eRPC (Kalia et al., "Datacenter RPCs
//! can be General and Fast", NSDI 2019, section 5.2.2), an uncongested session leaves the window alone. As in eRPC's
//! source, each measurement counts by the part of a round trip that has passed since the last one. A timeout halves
//! the window.

use std::time::{Duration, Instant};

/// The weight of the newest difference (Timely's α). It is small, as in eRPC: round trips of software vary by themselves.
const NEWEST: f64 = 0.1;
/// The part by which congestion shrinks the window (Timely's β).
const SHRINK: f64 = 0.8;
/// One measurement leaves at least this part, as in eRPC.
const LEFT: f64 = 0.5;
/// Packets that the window grows in a round trip (Timely's δ).
const STEP: f64 = 1.0;
/// After so many steps of growth in a row the steps are longer, as many times.
const HASTE: f64 = 5.0;
/// No round trip is taken for shorter: it divides.
const SHORTEST: Duration = Duration::from_micros(1);

/// Round trip times between which the gradient counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RttThresholds {
    /// Below this there is no congestion.
    pub(crate) low: Duration,
    /// Above this there is congestion, even if the queues do not grow.
    pub(crate) high: Duration,
}

impl Default for RttThresholds {
    /// 1 ms and 10 ms. eRPC has 50 µs and 1 ms, above the queues of a switch. Here software carries the packets, and the
    /// queue of one peer that is busy for a while is as long as that.
    fn default() -> RttThresholds {
        RttThresholds { low: Duration::from_millis(1), high: Duration::from_millis(10) }
    }
}

/// A window between one packet and all credits.
pub(crate) struct TimelyWindow {
    packets: f64,
    most: f64,
    thresholds: RttThresholds,
    /// The shortest round trip ever, in nanoseconds.
    shortest_ns: f64,
    previous_ns: f64,
    /// The smoothed difference of successive round trips.
    change_ns: f64,
    /// Growth in a row, in steps.
    grown: f64,
    updated: Option<Instant>,
    halved: Option<Instant>,
}

impl TimelyWindow {
    /// Begins with all credits, as eRPC begins with the rate of the link.
    pub(crate) fn new(credits: u32, thresholds: RttThresholds) -> TimelyWindow {
        let most = f64::from(credits);
        TimelyWindow {
            packets: most,
            most,
            thresholds,
            shortest_ns: f64::INFINITY,
            previous_ns: 0.0,
            change_ns: 0.0,
            grown: 0.0,
            updated: None,
            halved: None,
        }
    }

    /// Packets that may be under way.
    pub(crate) fn packets(&self) -> u32 {
        self.packets as u32
    }

    /// A packet's answer has come after `rtt`, without the time that the handler took.
    pub(crate) fn on_rtt(&mut self, rtt: Duration, now: Instant) {
        let rtt_ns = rtt.max(SHORTEST).as_nanos() as f64;
        self.shortest_ns = self.shortest_ns.min(rtt_ns);
        let Some(updated) = self.updated else {
            (self.updated, self.previous_ns) = (Some(now), rtt_ns);
            return;
        };
        if self.packets >= self.most && rtt <= self.thresholds.low {
            (self.updated, self.previous_ns, self.change_ns) = (Some(now), rtt_ns, 0.0);
            return;
        }
        let passed_ns = now.saturating_duration_since(updated).as_nanos() as f64;
        self.updated = Some(now);
        self.adapt(rtt, rtt_ns, (passed_ns / self.shortest_ns).min(1.0));
    }

    /// Timely's algorithm 1; `part` is the part of a round trip for which the measurement stands.
    fn adapt(&mut self, rtt: Duration, rtt_ns: f64, part: f64) {
        let difference = rtt_ns - self.previous_ns;
        self.previous_ns = rtt_ns;
        self.change_ns += NEWEST * (difference - self.change_ns);
        if rtt < self.thresholds.low {
            self.grow(STEP * part);
        } else if rtt > self.thresholds.high {
            self.shrink(part * (1.0 - self.thresholds.high.as_nanos() as f64 / rtt_ns));
        } else if self.change_ns <= 0.0 {
            self.grown += part;
            self.grow(STEP * part * if self.grown >= HASTE { HASTE } else { 1.0 });
        } else {
            self.shrink(part * (self.change_ns / self.shortest_ns).min(1.0));
        }
    }

    fn grow(&mut self, by: f64) {
        self.packets = (self.packets + by).min(self.most);
    }

    fn shrink(&mut self, part: f64) {
        self.grown = 0.0;
        self.packets = (self.packets * (1.0 - SHRINK * part).max(LEFT)).max(1.0);
    }

    /// Packets were lost. Losses within `rtt` of each other are one.
    pub(crate) fn on_timeout(&mut self, rtt: Duration, now: Instant) {
        if self.halved.is_some_and(|halved| now.saturating_duration_since(halved) < rtt) {
            return;
        }
        self.halved = Some(now);
        self.grown = 0.0;
        self.packets = (self.packets / 2.0).max(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: RttThresholds = RttThresholds { low: Duration::from_micros(50), high: Duration::from_millis(1) };

    const US: Duration = Duration::from_micros(1);

    struct Clock(TimelyWindow, Instant);

    impl Clock {
        fn new() -> Clock {
            Clock(TimelyWindow::new(32, THRESHOLDS), Instant::now())
        }

        /// The window after round trips of that many microseconds, one after the other.
        fn after(&mut self, round_trips: impl IntoIterator<Item = u32>) -> u32 {
            for us in round_trips {
                self.1 += US * us;
                self.0.on_rtt(US * us, self.1);
            }
            self.0.packets()
        }
    }

    #[test]
    fn an_uncongested_session_uses_all_credits() {
        assert_eq!(Clock::new().after([10; 100]), 32);
    }

    #[test]
    fn growing_round_trips_shrink_the_window_and_falling_ones_open_it() {
        let mut clock = Clock::new();
        let shrunk = clock.after((0..20).map(|turn| 60 + 30 * turn));
        assert!(shrunk < 8, "{shrunk} packets");
        assert_eq!(clock.after((0..40).map(|turn| 660 - 15 * turn)), 32);
    }

    #[test]
    fn round_trips_above_the_threshold_shrink_it_although_they_do_not_grow() {
        let mut clock = Clock::new();
        assert_eq!(clock.after([10_000; 50]), 1, "never less than one");
        assert_eq!(clock.after([10; 40]), 32);
    }

    #[test]
    fn timeouts_halve_it_once_in_a_round_trip() {
        let (mut window, now) = (TimelyWindow::new(32, THRESHOLDS), Instant::now());
        window.on_timeout(100 * US, now);
        window.on_timeout(100 * US, now + 99 * US);
        assert_eq!(window.packets(), 16);
        window.on_timeout(100 * US, now + 100 * US);
        assert_eq!(window.packets(), 8);
    }
}
