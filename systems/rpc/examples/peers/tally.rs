//! Counts calls and takes their times.

use std::time::Duration;

use clap::ValueEnum;
use hdrhistogram::Histogram;

use super::{PeerKind, PeerOptions};

/// The calls of a measurement.
pub(super) struct PeerTally {
    pub(super) calls: u64,
    pub(super) elapsed: Duration,
    times: Histogram<u64>,
}

impl Default for PeerTally {
    fn default() -> PeerTally {
        // Three significant digits up to a minute are valid bounds, so the constructor cannot fail.
        let times = Histogram::new_with_max(60_000_000_000, 3).expect("valid bounds of a histogram");
        PeerTally { calls: 0, elapsed: Duration::ZERO, times }
    }
}

impl PeerTally {
    pub(super) fn record(&mut self, time: Duration) {
        self.times.saturating_record(time.as_nanos() as u64);
    }

    /// Adds the calls of another task, which ran at the same time.
    pub(super) fn merge(&mut self, other: &PeerTally) {
        self.calls += other.calls;
        self.elapsed = self.elapsed.max(other.elapsed);
        // Both have the same bounds.
        let _ = self.times.add(&other.times);
    }

    pub(super) fn per_second(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The result in one line, for people or as JSON.
    pub(super) fn line(&self, peer: PeerKind, options: &PeerOptions) -> String {
        let at = |part| self.times.value_at_quantile(part);
        let (p50, p99, p999, rate) = (at(0.5), at(0.99), at(0.999), self.per_second());
        if !options.json {
            return format!("{:12} p50 {p50} ns  p99 {p99} ns  p99.9 {p999} ns  {rate:.0} calls/s", peer.name());
        }
        let mode = options.mode.to_possible_value().map(|value| value.get_name().to_owned());
        serde_json::json!({
            "peer": peer.name(),
            "mode": mode,
            "size_bytes": options.size,
            "depth": options.depth(),
            "calls": self.calls,
            "seconds": self.elapsed.as_secs_f64(),
            "calls_per_second": rate,
            "latency": {
                "p50_ns": p50, "p99_ns": p99, "p999_ns": p999,
                "min_ns": self.times.min(), "max_ns": self.times.max(), "samples": self.times.len(),
            },
        })
        .to_string()
    }
}
