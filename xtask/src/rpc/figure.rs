//! One figure: the command that measures it, and its place in the output.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::spin::SpinLoad;

/// Seconds after which a measurement counts as failed, beyond those that it was asked for.
const PATIENCE_S: f64 = 120.0;
/// The part of the planned rate that a measurement under load must reach.
const KEEPS_UP: f64 = 0.95;
/// Processes of a busy machine.
const SPINNING: usize = 4;

/// The program that measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FigureSource {
    Longarm,
    /// The example `peers` of longarm-rpc.
    Peers,
}

/// The number taken from the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FigurePick {
    /// The median, in nanoseconds.
    Median,
    /// The time that 99.9 % stay below, in nanoseconds.
    Tail,
    /// The same, divided by the median.
    TailOverMedian,
    /// Calls per second.
    Calls,
    /// Bytes of replies per second.
    ReplyBytes,
    /// Bytes per second, as `longarm perf` says.
    Bandwidth,
    /// The server's memory for an idle client, in bytes.
    IdleBytes,
}

/// A figure that one command gives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RpcFigure {
    pub(super) source: FigureSource,
    /// The command's arguments.
    pub(super) arguments: String,
    /// Packets between processes of this host in place of shared memory.
    pub(super) wire: bool,
    /// Other processes spin meanwhile.
    pub(super) busy: bool,
    pub(super) pick: FigurePick,
    /// The name in the table: a way, or a peer.
    pub(super) name: String,
}

impl RpcFigure {
    /// Runs the command, whose program is in that directory.
    ///
    /// # Errors
    /// In words, if there is no figure.
    pub(super) fn measure(&self, programs: &Path, seconds: f64) -> Result<f64, String> {
        let _spinning = SpinLoad::start(if self.busy { SPINNING } else { 0 })?;
        let program = match self.source {
            FigureSource::Longarm => "longarm",
            FigureSource::Peers => "examples/peers",
        };
        let mut command = Command::new("timeout");
        command.arg(format!("{}", seconds * 4.0 + PATIENCE_S)).arg(programs.join(program));
        command.args(self.arguments.split_whitespace()).args(["--json", "--seconds", &seconds.to_string()]);
        if self.wire {
            command.env("LONGARM_LOCAL", "off");
        } else {
            command.env_remove("LONGARM_LOCAL");
        }
        let output = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot run timeout: {e}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(said.lines().last().map_or_else(|| output.status.to_string(), String::from));
        }
        self.take(&String::from_utf8_lossy(&output.stdout))
    }

    /// The figure in the output, which is JSON line by line.
    fn take(&self, text: &str) -> Result<f64, String> {
        let mut lines = Vec::new();
        for line in text.lines() {
            lines.push(serde_json::from_str::<Value>(line).map_err(|e| format!("{e}: {line}"))?);
        }
        if let Some(failed) = lines.iter().filter_map(|line| line["failed"].as_u64()).find(|failed| *failed > 0) {
            return Err(format!("{failed} calls failed"));
        }
        if let Some(why) = lines.iter().find_map(|line| self.falls_behind(line)) {
            return Err(why);
        }
        let found = lines.iter().rev().find_map(|line| self.pick.of(line));
        found.filter(|value| value.is_finite() && *value > 0.0).ok_or_else(|| format!("no figure in: {}", text.trim()))
    }

    /// The reason why a ratio of two latencies says nothing: calls queued up, so the median is that of a queue.
    fn falls_behind(&self, line: &Value) -> Option<String> {
        let (planned, reached) = (line["planned_per_second"].as_f64()?, line["calls_per_second"].as_f64()?);
        let is_behind = self.pick == FigurePick::TailOverMedian && reached < KEEPS_UP * planned;
        is_behind.then(|| format!("{reached:.0} calls per second in place of {planned:.0}"))
    }

    /// The command for readers.
    pub(super) fn command(&self) -> String {
        let wire = if self.wire { "LONGARM_LOCAL=off " } else { "" };
        let program = match self.source {
            FigureSource::Longarm => "longarm",
            FigureSource::Peers => "peers",
        };
        format!("`{wire}{program} {}`", self.arguments)
    }
}

impl FigurePick {
    fn of(self, line: &Value) -> Option<f64> {
        let latency = |name: &str| line["latency"][name].as_f64();
        match self {
            FigurePick::Median => latency("p50_ns"),
            FigurePick::Tail => latency("p999_ns"),
            FigurePick::TailOverMedian => Some(latency("p999_ns")? / latency("p50_ns")?),
            FigurePick::Calls => line["calls_per_second"].as_f64(),
            FigurePick::ReplyBytes => Some(line["calls_per_second"].as_f64()? * line["reply_bytes"].as_f64()?),
            FigurePick::Bandwidth => line["bytes_per_second"].as_f64(),
            FigurePick::IdleBytes => line["server_bytes_per_client"].as_f64(),
        }
    }

    /// The value with its unit.
    pub(super) fn show(self, value: f64) -> String {
        match self {
            FigurePick::Median | FigurePick::Tail if value < 1e3 => format!("{value:.0} ns"),
            FigurePick::Median | FigurePick::Tail if value < 1e6 => format!("{:.2} µs", value / 1e3),
            FigurePick::Median | FigurePick::Tail => format!("{:.2} ms", value / 1e6),
            FigurePick::TailOverMedian => format!("{value:.1} ×"),
            FigurePick::Calls if value < 1e4 => format!("{value:.0} /s"),
            FigurePick::Calls if value < 1e6 => format!("{:.0} k/s", value / 1e3),
            FigurePick::Calls => format!("{:.2} M/s", value / 1e6),
            FigurePick::ReplyBytes | FigurePick::Bandwidth => format!("{:.2} GB/s", value / 1e9),
            FigurePick::IdleBytes => format!("{:.1} KiB", value / 1024.0),
        }
    }

    /// Whether less is better.
    pub(super) fn is_cost(self) -> bool {
        !matches!(self, FigurePick::Calls | FigurePick::ReplyBytes | FigurePick::Bandwidth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(pick: FigurePick) -> RpcFigure {
        let (source, arguments, name) = (FigureSource::Longarm, "rpc bench".into(), "ring".into());
        RpcFigure { source, arguments, wire: true, busy: false, pick, name }
    }

    #[test]
    fn figures_are_taken_from_their_line() {
        let text = r#"{"kind":"calls","failed":0,"reply_bytes":1000,"calls_per_second":2e6,"latency":{"p50_ns":400,"p999_ns":1600}}
{"kind":"idle","server_bytes_per_client":2048}"#;
        let take = |pick| figure(pick).take(text);
        assert_eq!(take(FigurePick::Median), Ok(400.0));
        assert_eq!(take(FigurePick::TailOverMedian), Ok(4.0));
        assert_eq!(take(FigurePick::ReplyBytes), Ok(2e9));
        assert_eq!(take(FigurePick::IdleBytes), Ok(2048.0));
        assert!(take(FigurePick::Bandwidth).is_err());
        assert_eq!(figure(FigurePick::Median).command(), "`LONGARM_LOCAL=off longarm rpc bench`");
    }

    #[test]
    fn a_ratio_of_queued_calls_is_no_figure() {
        let text = |reached: f64| {
            let line = serde_json::json!({"planned_per_second": 100.0, "calls_per_second": reached,
                "latency": {"p50_ns": 100, "p999_ns": 200}});
            line.to_string()
        };
        assert_eq!(figure(FigurePick::TailOverMedian).take(&text(96.0)), Ok(2.0));
        assert!(figure(FigurePick::TailOverMedian).take(&text(90.0)).is_err());
        assert_eq!(figure(FigurePick::Tail).take(&text(90.0)), Ok(200.0));
    }

    #[test]
    fn failed_calls_give_no_figure() {
        let text = r#"{"failed":2,"calls_per_second":2e6,"latency":{"p50_ns":400}}"#;
        assert_eq!(figure(FigurePick::Median).take(text), Err("2 calls failed".into()));
        assert!(figure(FigurePick::Median).take("not JSON").is_err());
    }
}
