//! The clock of a simulated machine: it measures durations a little wrong.

use fastrand::Rng;

use crate::term::DRIFT_DIVISOR;

/// A clock with a rate that changes at times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimClock {
    /// A true moment, and the time that the clock showed then.
    true_ns: u64,
    shown_ns: u64,
    /// Nanoseconds that it gains in a second.
    gain: i64,
}

impl SimClock {
    /// A clock that shows anything.
    pub(crate) fn new(random: &mut Rng) -> SimClock {
        SimClock { true_ns: 0, shown_ns: random.u64(..1 << 60), gain: 0 }
    }

    /// The time that it shows at a true moment.
    pub(crate) fn show(&self, true_ns: u64) -> u64 {
        let passed = (true_ns - self.true_ns) as i128;
        (self.shown_ns as i128 + passed + passed * self.gain as i128 / 1_000_000_000) as u64
    }

    /// The true moment at which it shows that; not before `true_ns`.
    pub(crate) fn when(&self, shown_ns: u64, true_ns: u64) -> u64 {
        let left = shown_ns.saturating_sub(self.show(true_ns)) as i128;
        true_ns + (left - left * self.gain as i128 / 1_000_000_000 + 1) as u64
    }

    /// From this true moment on it runs at another rate: up to `times` the bound.
    pub(crate) fn change_rate(&mut self, true_ns: u64, random: &mut Rng, times: i64) {
        let most = 1_000_000_000 / DRIFT_DIVISOR as i64 * times;
        *self = SimClock { true_ns, shown_ns: self.show(true_ns), gain: random.i64(-most..=most) };
    }
}
