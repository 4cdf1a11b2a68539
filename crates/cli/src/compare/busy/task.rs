//! The tasks of a busy machine: commands, settings and the parsing of results.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use crate::baseline::{Socket, core_number};
use crate::compare::measure::{MessagePath, Quantity, TestVerb};
use crate::compare::tools::{
    Effort, ask, environment, free_port, iperf3_received, perftest_column, perftest_figure, serve,
};
use crate::perf::{LatencySummary, Measurement};

/// The load and placement around a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Setting {
    /// Beside computing processes, two for each of two processors.
    Spinners,
    /// Both sides on one core, without a load.
    OneCore,
    /// Without a load.
    Alone,
}

/// The measured program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum BusyTask {
    Iperf3,
    Blocking(Socket),
    ApiStream(MessagePath, TestVerb),
    ApiLatency(MessagePath),
    PerftestStream(MessagePath, TestVerb),
    PerftestLatency(MessagePath),
    /// This number of processes that all send to each other.
    Mesh(MessagePath, u32),
}

/// A measurement that runs once per round.
pub(super) type BusyJob = (Setting, BusyTask);

/// Bytes of a message in a stream, and in a ping-pong.
const STREAM_BYTES: u32 = 64 << 10;
const ECHO_BYTES: u32 = 64;
/// The additional time that a measurement may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

impl Setting {
    /// Number of computing processes.
    pub(super) fn spinners(self) -> u32 {
        match self {
            Setting::Spinners => 4,
            Setting::OneCore | Setting::Alone => 0,
        }
    }

    /// A command in this setting.
    fn command(self, program: &str) -> Command {
        if self != Setting::OneCore {
            return Command::new(program);
        }
        let mut command = Command::new("taskset");
        command.args(["-c", &core_number(0).to_string(), program]);
        command
    }

    fn this_program(self) -> Result<Command, String> {
        let this = std::env::current_exe().map_err(|e| e.to_string())?;
        Ok(self.command(&this.to_string_lossy()))
    }
}

impl BusyTask {
    pub(super) fn api_stream(message_path: MessagePath, verb: TestVerb) -> BusyTask {
        BusyTask::ApiStream(message_path, verb)
    }

    pub(super) fn perftest_stream(message_path: MessagePath, verb: TestVerb) -> BusyTask {
        BusyTask::PerftestStream(message_path, verb)
    }

    /// The contender's name in the table.
    pub(super) fn contender_name(self) -> String {
        let message_path = |message_path| if message_path == MessagePath::Host { "same host" } else { "wire" };
        match self {
            BusyTask::Iperf3 => "iperf3, one stream".into(),
            BusyTask::Blocking(Socket::Tcp) => "TCP that blocks".into(),
            BusyTask::Blocking(Socket::Unix) => "Unix socket that blocks".into(),
            BusyTask::ApiStream(at, _) | BusyTask::ApiLatency(at) => format!("Longarm, {}", message_path(at)),
            BusyTask::PerftestStream(at, verb) => format!("perftest, {}, `{}`", message_path(at), stream_program(verb)),
            BusyTask::PerftestLatency(at) => format!("perftest, {}, `ib_send_lat`", message_path(at)),
            BusyTask::Mesh(at, processes) => format!("{processes} processes, {}", message_path(at)),
        }
    }

    /// Its figures: bytes or messages per second, or median and 99th percentile of half the round trip.
    pub(super) fn measure(self, setting: Setting, effort: &Effort) -> Result<Vec<f64>, String> {
        match self {
            BusyTask::Iperf3 => iperf3(setting, effort),
            BusyTask::Blocking(socket) => {
                let mut command = setting.this_program()?;
                command.args(["blocking", socket.word(), "--rounds", &rounds(effort).to_string()]);
                let text = ask(&mut command, PATIENCE)?;
                let summary: LatencySummary = serde_json::from_str(text.trim()).map_err(|e| e.to_string())?;
                Ok(both(&summary))
            }
            BusyTask::ApiStream(message_path, verb) => {
                let words = format!("{} -m stream -s {STREAM_BYTES} -d 32", op(verb));
                api(setting, message_path, &words, effort).map(|said| vec![said.bytes_per_second])
            }
            BusyTask::ApiLatency(message_path) => {
                let words = format!("send -m latency -s {ECHO_BYTES} -r {}", rounds(effort));
                let latency = api(setting, message_path, &words, effort)?.latency;
                latency.map(|latency| both(&latency)).ok_or_else(|| "`longarm perf` gave no latency".into())
            }
            BusyTask::PerftestStream(message_path, verb) => {
                let words = format!("-F -N --report_gbits -s {STREAM_BYTES} -t 32 -n {}", messages(effort));
                let text = perftest(setting, message_path, stream_program(verb), &words, effort)?;
                perftest_figure(&text, Quantity::Bandwidth).map(|figure| vec![figure])
            }
            BusyTask::PerftestLatency(message_path) => {
                let words = format!("-F -s {ECHO_BYTES} -n {}", rounds(effort));
                let text = perftest(setting, message_path, "ib_send_lat", &words, effort)?;
                let column = |name| perftest_column(&text, name).map(|us| us * 1e3);
                let figures = column("t_typical").zip(column("99% percentile"));
                figures.map(|(median, p99)| vec![median, p99]).ok_or_else(|| "ib_send_lat gave no latency".into())
            }
            BusyTask::Mesh(message_path, processes) => {
                let mut command = setting.this_program()?;
                command.envs(environment(message_path).iter().copied()).args(["mesh", "--bare", "--processes"]);
                command.args([&processes.to_string(), "-D", &effort.duration.as_secs_f64().to_string()]);
                let text = ask(&mut command, PATIENCE * 2)?;
                text.trim().parse().map(|rate| vec![rate]).map_err(|_| format!("`longarm mesh` said {text}"))
            }
        }
    }
}

fn both(latency: &LatencySummary) -> Vec<f64> {
    vec![latency.p50_ns as f64, latency.p99_ns as f64]
}

fn op(verb: TestVerb) -> &'static str {
    if verb == TestVerb::Write { "write" } else { "send" }
}

fn stream_program(verb: TestVerb) -> &'static str {
    if verb == TestVerb::Write { "ib_write_bw" } else { "ib_send_bw" }
}

/// Rounds of a ping-pong with a round trip of 20 µs.
fn rounds(effort: &Effort) -> u32 {
    (effort.duration.as_micros() / 20).clamp(1000, 1_000_000) as u32
}

/// Messages of a stream of 0.5 GB/s.
fn messages(effort: &Effort) -> u32 {
    let messages = effort.duration.as_secs_f64() * 0.5e9 / f64::from(STREAM_BYTES);
    (messages as u32).clamp(500, 1_000_000).next_multiple_of(32)
}

fn api(setting: Setting, message_path: MessagePath, words: &str, effort: &Effort) -> Result<Measurement, String> {
    let mut command = setting.this_program()?;
    command.envs(environment(message_path).iter().copied()).args(["perf", "--json", "--unpinned"]);
    command.args(words.split_whitespace()).args(["-D", &effort.duration.as_secs_f64().to_string()]);
    let text = ask(&mut command, effort.duration * 4 + PATIENCE)?;
    serde_json::from_str(text.trim()).map_err(|e| format!("`longarm perf` said {e}"))
}

fn perftest(
    setting: Setting,
    message_path: MessagePath,
    program: &str,
    words: &str,
    effort: &Effort,
) -> Result<String, String> {
    let port = free_port()?;
    let side = || -> Result<Command, String> {
        let mut command = setting.this_program()?;
        command.envs(environment(message_path).iter().copied()).args(["run", "--", program]);
        command.args(["-d", &effort.device, "-p", &port.to_string()]).args(words.split_whitespace());
        Ok(command)
    };
    let _server = serve(&mut side()?, port)?;
    ask(side()?.arg(Ipv4Addr::LOCALHOST.to_string()), effort.duration * 8 + PATIENCE)
}

fn iperf3(setting: Setting, effort: &Effort) -> Result<Vec<f64>, String> {
    let (port, address) = (free_port()?, Ipv4Addr::LOCALHOST.to_string());
    let port_word = port.to_string();
    let _server = serve(setting.command("iperf3").args(["-s", "-1", "-B", &address, "-p", &port_word]), port)?;
    let mut client = setting.command("iperf3");
    client.args(["-c", &address, "-p", &port_word, "-J", "-t", &effort.duration.as_secs().max(1).to_string()]);
    iperf3_received(&ask(&mut client, effort.duration * 2 + PATIENCE)?).map(|rate| vec![rate])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_becomes_counts() {
        let effort = Effort { duration: Duration::from_secs(1), device: "la_lo".into() };
        assert_eq!((rounds(&effort), messages(&effort)), (50_000, 7648));
        let little = Effort { duration: Duration::from_millis(1), ..effort };
        assert_eq!((rounds(&little), messages(&little)), (1000, 512));
    }

    #[test]
    fn only_a_pair_on_one_core_is_pinned() {
        assert_eq!(Setting::OneCore.command("x").get_program(), "taskset");
        assert_eq!(Setting::Spinners.command("x").get_program(), "x");
    }
}
