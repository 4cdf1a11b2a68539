//! Address, duration and device of all measurements.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::compare::measure::Measure;

/// The address of all measurements.
pub(crate) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Duration and device of the measurements.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    /// The approximate duration of one figure.
    pub(crate) duration: Duration,
    /// Longarm's device that has [`ADDRESS`].
    pub(crate) device: String,
}

impl Effort {
    /// The number of repetitions of an operation that takes about `each_ns` nanoseconds.
    pub(super) fn times(&self, each_ns: f64, least: u32, most: u32) -> u32 {
        let times = self.duration.as_nanos() as f64 / each_ns;
        (times as u32).clamp(least, most)
    }

    /// Rounds of a latency test.
    pub(super) fn rounds(&self, measure: &Measure) -> u32 {
        self.times(8_000.0 + f64::from(measure.size_bytes), 200, 200_000)
    }
}
