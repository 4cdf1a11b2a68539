//! The command line of `longarm targets`, and its rounds.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use comfy_table::{Table, presets};
use device::Device;

use super::peers;
use super::report;
use super::rows::{Goal, HEADER, Row};
use super::scale::idle_cost;
use crate::baseline;
use crate::error::Error;
use crate::perf::{Control, LocalServer, Mode, Op, Request, Test, Transport, measure, open};
use crate::report::{bytes_per_second, count_per_second, nanoseconds};

/// Measure the project's goals beside TCP, UDP, iperf3 and UCX, and write docs/performance.md
#[derive(Args, Debug)]
pub(crate) struct TargetsArgs {
    /// Rounds; the medians count
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds per figure
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Queue pairs of the scale goals
    #[arg(long, default_value_t = 10_000)]
    qps: u32,
    /// Where performance.md and performance.svg go
    #[arg(long, default_value = "docs", value_name = "DIR")]
    dir: PathBuf,
}

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LOSS: &str = "seed=1,loss=0.01";

/// Two processes, joined, and how long a figure takes.
struct Bench {
    _server: LocalServer,
    control: Control,
    device: Device,
    duration: Duration,
}

impl Bench {
    fn start(duration: Duration, faults: Option<&str>) -> Result<Bench, Error> {
        let server = LocalServer::start(ADDRESS, faults)?;
        let control = server.connect()?;
        Ok(Bench { control, _server: server, device: open(ADDRESS)?, duration })
    }

    fn latency(&mut self, op: Op, size_bytes: u32) -> Result<f64, Error> {
        let rounds = (self.duration.as_secs_f64() * 20_000.0) as u32;
        let test = Test {
            op,
            transport: Transport::Rc,
            mode: Mode::Latency,
            size_bytes,
            depth: 16,
            qps: 1,
            rounds,
            duration_ms: 0,
        };
        let result = measure(&mut self.control, &self.device, ADDRESS, &test)?;
        Ok(result.latency.map_or(f64::NAN, |latency| latency.p50_ns as f64))
    }

    /// Bytes and messages per second.
    fn stream(&mut self, op: Op, size_bytes: u32, depth: u32, qps: u32) -> Result<(f64, f64), Error> {
        let duration_ms = self.duration.as_millis() as u64;
        let test =
            Test { op, transport: Transport::Rc, mode: Mode::Stream, size_bytes, depth, qps, rounds: 1, duration_ms };
        let result = measure(&mut self.control, &self.device, ADDRESS, &test)?;
        Ok((result.bytes_per_second, result.messages_per_second))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.control.say(&Request::Bye);
    }
}

/// `longarm targets`
pub(crate) fn run(args: &TargetsArgs) -> Result<(), Error> {
    let duration = Duration::from_secs_f64(args.seconds.clamp(0.05, 60.0));
    let (mut rows, mut notes) = (rows(args.qps), Vec::new());
    // First of all, while nothing of this process's memory is free to be used again.
    let idle = idle_cost(&open(ADDRESS)?, ADDRESS, args.qps)?;
    for round in 1..=args.rounds.max(1) {
        eprintln!("round {round} of {}", args.rounds.max(1));
        one_round(&mut rows, &mut notes, duration, args.qps)?;
    }
    rows.retain(|row| !row.theirs.is_empty());
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(HEADER);
    for row in &rows {
        table.add_row(row.cells());
    }
    println!("{table}");
    println!(
        "idle: {} bytes per QP, {} ns CPU per second with {} QPs",
        idle.bytes_per_qp, idle.cpu_ns_per_second, idle.qps
    );
    notes.dedup();
    report::write(&args.dir, &rows, &idle, &notes, args.rounds.max(1))
}

/// The goals without figures, in the order in which [`one_round`] fills them.
fn rows(qps: u32) -> Vec<Row> {
    let ns = |value: f64| nanoseconds(value as u64);
    let row = |id, what: &str, peer: &str, unit, goal| Row {
        id,
        what: what.into(),
        peer: peer.into(),
        theirs: Vec::new(),
        ours: Vec::new(),
        unit,
        goal,
    };
    vec![
        row("W1", "RC SEND 64 B, one way", "UDP ping-pong", ns, Goal::AtMost(1.3)),
        row("W1", "RC SEND 64 B, one way", "TCP ping-pong", ns, Goal::AtMost(1.0)),
        row("W2", "RC WRITE 64 KiB", "iperf3, one stream", bytes_per_second, Goal::AtLeast(1.5)),
        row("W2", "RC SEND 64 KiB", "iperf3, one stream", bytes_per_second, Goal::AtLeast(1.5)),
        row("W2", "RC WRITE 1 MiB", "iperf3, one stream", bytes_per_second, Goal::AtLeast(1.5)),
        row("W2", "RC SEND 1 MiB", "iperf3, one stream", bytes_per_second, Goal::AtLeast(1.5)),
        row("W2", "RC WRITE 64 KiB", "UCX over TCP, tag_bw", bytes_per_second, Goal::AtLeast(2.5)),
        row("W3", "RC SEND 64 B, depth 128", "UDP, one sendto each", count_per_second, Goal::AtLeast(5.0)),
        row("W4", "RC WRITE 64 KiB, 1 % loss", "the same without loss", bytes_per_second, Goal::AtLeast(0.5)),
        row("C1", &format!("RC SEND 64 B over {qps} QPs"), "over 10 QPs", count_per_second, Goal::AtLeast(0.9)),
    ]
}

fn one_round(rows: &mut [Row], notes: &mut Vec<String>, duration: Duration, qps: u32) -> Result<(), Error> {
    let rounds = (duration.as_secs_f64() * 20_000.0) as u32;
    let udp = baseline::udp_ping_pong(ADDRESS, 64, rounds)?.summary().p50_ns as f64;
    let tcp = baseline::tcp_ping_pong(ADDRESS, 64, rounds)?.summary().p50_ns as f64;
    let iperf3 = note(notes, peers::iperf3(ADDRESS, duration.as_secs()));
    let ucx = note(notes, peers::ucx_tcp(ADDRESS, 64 << 10));
    let sendto = baseline::udp_rate(ADDRESS, 64, duration)?;

    let mut bench = Bench::start(duration, None)?;
    baseline::pin_to_core(0);
    let send = bench.latency(Op::Send, 64)?;
    let write_64k = bench.stream(Op::Write, 64 << 10, 32, 1)?.0;
    let send_64k = bench.stream(Op::Send, 64 << 10, 32, 1)?.0;
    let write_1m = bench.stream(Op::Write, 1 << 20, 8, 1)?.0;
    let send_1m = bench.stream(Op::Send, 1 << 20, 8, 1)?.0;
    let rate = bench.stream(Op::Send, 64, 128, 1)?.1;
    let few = bench.stream(Op::Send, 64, 16, 10)?.1;
    let many = bench.stream(Op::Send, 64, 16, qps)?.1;
    drop(bench);

    let mut lossy = Bench::start(duration, Some(LOSS))?;
    lossy.device.set_faults(LOSS.parse().ok());
    let write_lossy = lossy.stream(Op::Write, 64 << 10, 32, 1);
    lossy.device.set_faults(None);

    let pairs = [
        (Some(udp), send),
        (Some(tcp), send),
        (iperf3, write_64k),
        (iperf3, send_64k),
        (iperf3, write_1m),
        (iperf3, send_1m),
        (ucx, write_64k),
        (Some(sendto), rate),
        (Some(write_64k), write_lossy?.0),
        (Some(few), many),
    ];
    for (row, (theirs, ours)) in rows.iter_mut().zip(pairs) {
        if let Some(theirs) = theirs {
            row.theirs.push(theirs);
            row.ours.push(ours);
        }
    }
    Ok(())
}

/// A peer that cannot be measured leaves a note instead of a row.
fn note(notes: &mut Vec<String>, figure: Result<f64, String>) -> Option<f64> {
    figure.map_err(|why| notes.push(format!("Not compared: {why}."))).ok()
}
