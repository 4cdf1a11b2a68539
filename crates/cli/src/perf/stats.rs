//! Latencies as a histogram.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// One-way latencies of a measurement.
pub(crate) struct Latency {
    histogram: Histogram<u64>,
}

/// Percentiles and extremes of the latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LatencySummary {
    /// The median, in nanoseconds.
    pub(crate) p50_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub(crate) p99_ns: u64,
    /// The smallest, in nanoseconds.
    pub(crate) min_ns: u64,
    /// The largest, in nanoseconds.
    pub(crate) max_ns: u64,
    /// Number of samples.
    pub(crate) samples: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        // Three significant digits up to a minute are valid bounds, so the constructor cannot fail.
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
