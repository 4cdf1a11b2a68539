//! The Rust API, measured by `longarm perf` of this program.

use std::process::Command;
use std::time::Duration;

use super::effort::{ADDRESS, Effort};
use super::sides;
use crate::compare::measure::{Measure, MessagePath, Quantity, TestVerb};
use crate::perf::Measurement;

/// The plan of faults of both sides of a lossy wire.
const LOSS: &str = "seed=1,loss=0.01";
/// Rounds between two reads of the clock on one host. On the wire each round is a sample, as with sockets.
const TOGETHER: u32 = 16;

/// The environment that makes Longarm's messages take a path.
pub(crate) fn environment(message_path: MessagePath) -> &'static [(&'static str, &'static str)] {
    match message_path {
        MessagePath::Host => &[],
        MessagePath::Wire => &[("LONGARM_LOCAL", "off")],
        MessagePath::Lossy => &[("LONGARM_LOCAL", "off"), ("LONGARM_FAULTS", LOSS)],
    }
}

pub(super) fn measure(measure: &Measure, message_path: MessagePath, effort: &Effort) -> Result<f64, String> {
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(this);
    command.envs(environment(message_path).iter().copied()).args(arguments(measure, message_path, effort));
    parse(&sides::ask(&mut command, effort.duration * 4 + Duration::from_secs(60))?, measure)
}

/// The arguments of `longarm perf`.
fn arguments(measure: &Measure, message_path: MessagePath, effort: &Effort) -> Vec<String> {
    let op = match measure.verb {
        TestVerb::Send => "send",
        TestVerb::Write => "write",
        TestVerb::Read => "read",
        TestVerb::FetchAdd => "fetch-add",
    };
    let mode = if measure.quantity == Quantity::Latency { "latency" } else { "stream" };
    let together = if message_path == MessagePath::Host { TOGETHER } else { 1 };
    let text = format!(
        "perf {op} --json --together {together} --address {ADDRESS} --mode {mode} --size {} --depth {} --qps {} \
         --threads {} --rounds {} --seconds {}",
        measure.size_bytes,
        measure.depth(),
        measure.qps,
        measure.threads,
        effort.rounds(measure),
        effort.duration.as_secs_f64(),
    );
    let mut words: Vec<String> = text.split_whitespace().map(String::from).collect();
    words.extend(measure.stopped.then(|| "--stopped".to_owned()));
    words
}

/// The figure in the output of `longarm perf --json`.
fn parse(text: &str, measure: &Measure) -> Result<f64, String> {
    let result: Measurement = serde_json::from_str(text.trim()).map_err(|e| format!("`longarm perf` said {e}"))?;
    match measure.quantity {
        Quantity::Latency => {
            result.latency.map(|latency| latency.p50_ns as f64).ok_or_else(|| "`longarm perf` gave no latency".into())
        }
        Quantity::Bandwidth => Ok(result.bytes_per_second),
        Quantity::Rate => Ok(result.messages_per_second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::Contender;

    #[test]
    fn the_figure_asked_for_is_taken() {
        let text = r#"{"test":{"op":"send","transport":"rc","mode":"latency","size_bytes":8,"depth":16,"qps":1,
            "threads":1,"rounds":10,"together":16,"duration_ms":0},"latency":{"p50_ns":91,"p99_ns":95,"min_ns":88,
            "max_ns":2000,"samples":10},"messages_per_second":3.5,"bytes_per_second":28.0,"lost_messages":0,
            "retransmitted_packets":0}"#;
        let figure =
            |quantity| parse(text, &Measure::new(Contender::Api(MessagePath::Host), quantity, TestVerb::Send, 8));
        assert_eq!(figure(Quantity::Latency), Ok(91.0));
        assert_eq!(figure(Quantity::Rate), Ok(3.5));
        assert_eq!(figure(Quantity::Bandwidth), Ok(28.0));
        assert!(
            parse("{}", &Measure::new(Contender::Api(MessagePath::Host), Quantity::Rate, TestVerb::Send, 8)).is_err()
        );
    }
}
