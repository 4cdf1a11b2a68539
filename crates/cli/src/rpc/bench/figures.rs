//! Results of measurements.

use std::time::Duration;

use hdrhistogram::Histogram;
use longarm_rpc::Way;
use serde::{Deserialize, Serialize};

use super::case::BenchMode;

/// Where requests and replies travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BenchPath {
    /// Shared memory of this host.
    Host,
    /// Packets between processes of this host.
    Wire,
    /// To another host, or to a server that the user started.
    Remote,
}

impl BenchPath {
    /// The path that this process's environment chooses.
    pub(super) fn of(is_remote: bool) -> BenchPath {
        let packets = std::env::var_os("LONGARM_LOCAL").is_some_and(|value| value == "off");
        match (is_remote, packets) {
            (true, _) => BenchPath::Remote,
            (false, true) => BenchPath::Wire,
            (false, false) => BenchPath::Host,
        }
    }
}

/// One line of results.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum BenchLine {
    Calls(CallFigures),
    Idle(IdleClients),
    /// The server or the device does not have the way.
    Refused {
        way: Way,
        reason: String,
    },
}

/// The result of a measurement of calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CallFigures {
    pub(super) way: Way,
    pub(super) path: BenchPath,
    pub(super) mode: BenchMode,
    pub(super) size_bytes: u32,
    pub(super) reply_bytes: u32,
    pub(super) clients: u32,
    pub(super) threads: u32,
    pub(super) depth: u16,
    /// Calls that ended with a reply.
    pub(super) calls: u64,
    /// Calls that ended otherwise, or did not end within ten seconds after the measurement.
    pub(super) failed: u64,
    pub(super) seconds: f64,
    pub(super) calls_per_second: f64,
    /// Mode load: the rate at which calls were to start.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) planned_per_second: Option<f64>,
    pub(super) latency: CallLatency,
}

/// The server's memory for clients that do nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct IdleClients {
    pub(super) way: Way,
    pub(super) path: BenchPath,
    pub(super) clients: u32,
    /// Growth of the server's resident memory, shared memory included, for each client.
    pub(super) server_bytes_per_client: u64,
}

/// Times from request to reply.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CallLatency {
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
    pub(super) samples: u64,
}

/// The calls of one thread, or of all.
pub(super) struct CallTally {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) elapsed: Duration,
    times: Histogram<u64>,
}

impl Default for CallTally {
    fn default() -> CallTally {
        // Three significant digits up to a minute are valid bounds, so the constructor cannot fail.
        let times = Histogram::new_with_max(60_000_000_000, 3).expect("valid bounds of a histogram");
        CallTally { calls: 0, failed: 0, elapsed: Duration::ZERO, times }
    }
}

impl CallTally {
    /// Counts a call that has ended.
    pub(super) fn count(&mut self, is_ok: bool) {
        self.calls += u64::from(is_ok);
        self.failed += u64::from(!is_ok);
    }

    /// Calls that have ended.
    pub(super) fn ended(&self) -> u64 {
        self.calls + self.failed
    }

    /// Adds a sample.
    pub(super) fn record(&mut self, time: Duration) {
        self.times.saturating_record(time.as_nanos() as u64);
    }

    /// Adds the calls of another thread, which ran at the same time.
    pub(super) fn merge(&mut self, other: &CallTally) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.elapsed = self.elapsed.max(other.elapsed);
        // Both have the same bounds.
        let _ = self.times.add(&other.times);
    }

    pub(super) fn per_second(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    pub(super) fn latency(&self) -> CallLatency {
        CallLatency {
            p50_ns: self.times.value_at_quantile(0.5),
            p99_ns: self.times.value_at_quantile(0.99),
            p999_ns: self.times.value_at_quantile(0.999),
            min_ns: self.times.min(),
            max_ns: self.times.max(),
            samples: self.times.len(),
        }
    }
}
