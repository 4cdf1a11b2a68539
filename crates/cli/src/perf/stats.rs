//! Latencies as a histogram.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// One-way latencies of a measurement.
pub(crate) struct Latency {
    histogram: Histogram<u64>,
}

/// What of them is told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LatencySummary {
    /// Half of all are below, in nanoseconds.
    pub(crate) p50_ns: u64,
    /// 99 of 100 are below.
    pub(crate) p99_ns: u64,
    /// The smallest.
    pub(crate) min_ns: u64,
    /// The largest.
    pub(crate) max_ns: u64,
    /// How many were measured.
    pub(crate) samples: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        // Three significant digits up to a minute: valid bounds, so this cannot fail.
        Latency { histogram: Histogram::new_with_max(60_000_000_000, 3).expect("valid bounds of a histogram") }
    }
}

impl Latency {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record(latency.as_nanos() as u64);
    }

    pub(crate) fn summary(&self) -> LatencySummary {
        LatencySummary {
            p50_ns: self.histogram.value_at_quantile(0.50),
            p99_ns: self.histogram.value_at_quantile(0.99),
            min_ns: self.histogram.min(),
            max_ns: self.histogram.max(),
            samples: self.histogram.len(),
        }
    }
}
