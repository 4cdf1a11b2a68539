//! ucx_perftest, of Debian's ucx-utils.

use std::process::Command;
use std::time::Duration;

use super::effort::{ADDRESS, Effort};
use super::sides::{CLIENT, SERVER, ask, free_port, pinned, serve};
use crate::compare::measure::{Measure, Quantity, TestVerb};

/// Bytes of a megabyte as ucx_perftest counts them.
const MIB: f64 = 1_048_576.0;

/// Measures over these transports, which carry about `rate` bytes per second.
pub(super) fn measure(measure: &Measure, transports: &str, rate: f64, effort: &Effort) -> Result<f64, String> {
    let port = free_port()?;
    let count = match measure.quantity {
        Quantity::Latency if measure.verb.is_one_sided() => effort.times(200.0, 1000, 5_000_000),
        Quantity::Latency => effort.rounds(measure),
        // The constant part, the time of 500 bytes, is that of a message without payload.
        _ => effort.times(f64::from(measure.size_bytes) * 1e9 / rate + 500e9 / rate, 500, 20_000_000),
    };
    let mut server = ucx(SERVER, transports, port);
    let _server = serve(&mut server, port)?;
    let mut client = ucx(CLIENT, transports, port);
    client.arg(ADDRESS.to_string()).args(["-t", measure.ucx_test(), "-s", &measure.size_bytes.to_string()]);
    client.args(["-n", &count.to_string(), "-w", &(count / 10).clamp(10, 1000).to_string()]);
    parse(&ask(&mut client, effort.duration * 4 + Duration::from_secs(30))?, measure)
}

fn ucx(core: usize, transports: &str, port: u16) -> Command {
    let mut command = pinned(core, "ucx_perftest");
    command.env("UCX_TLS", transports).env("UCX_WARN_UNUSED_ENV_VARS", "n").args(["-p", &port.to_string()]);
    command
}

/// Parses the last line of figures: iterations, then latency in µs (median, average, overall),
/// bandwidth and message rate (average, overall).
fn parse(text: &str, measure: &Measure) -> Result<f64, String> {
    let last = text.lines().rfind(|line| line.starts_with("Final:"));
    let figures: Vec<f64> =
        last.map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect()).unwrap_or_default();
    let [_, median_us, _, overall_us, _, overall_mib, _, overall_rate] = figures[..] else {
        return Err(format!("ucx_perftest said: {}", text.lines().last().unwrap_or("nothing")));
    };
    Ok(match (measure.quantity, measure.verb) {
        // A ping-pong has a median; operations that are posted one by one have only a mean.
        (Quantity::Latency, TestVerb::Send | TestVerb::Write) => median_us * 1e3,
        (Quantity::Latency, _) => overall_us * 1e3,
        (Quantity::Bandwidth, _) => overall_mib * MIB,
        (Quantity::Rate, _) => overall_rate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::Contender;

    const SAID: &str = "\
+--------------+--------------+------------------------------+---------------------+-----------------------+
|              |              |        latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
[thread 0]             10000      0.104     0.310     0.310       24.61      24.61     3225806     3225806
Final:                 50000      0.105     7.710     7.720        0.98       0.99      129708      129709
";

    #[test]
    fn the_last_line_is_read() {
        let figure = |quantity, verb| parse(SAID, &Measure::new(Contender::UcxShm, quantity, verb, 8)).unwrap();
        assert_eq!(figure(Quantity::Latency, TestVerb::Send), 105.0);
        assert_eq!(figure(Quantity::Latency, TestVerb::Read), 7720.0);
        assert_eq!(figure(Quantity::Bandwidth, TestVerb::Write), 0.99 * 1_048_576.0);
        assert_eq!(figure(Quantity::Rate, TestVerb::Send), 129_709.0);
        let refused = "UCX  ERROR A device must be specified with -d flag for UCT test\n";
        let why = parse(refused, &Measure::new(Contender::UcxShm, Quantity::Rate, TestVerb::Send, 8)).unwrap_err();
        assert!(why.contains("A device must be specified"), "{why}");
    }
}
