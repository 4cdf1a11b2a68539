//! Instructions and cache misses for each message, counted by callgrind. The result does not depend on how busy the
//! machine is.
//!
//! ```text
//! cargo xtask count [ROW...]
//! ```
//! One thread drives two engines, like those of two processes on one host, so that no poll waits for a thread. Callgrind
//! counts that thread in user space: both sides of a message together. (On the wire the time decides
//! which poll receives from the socket, so the count would not be repeatable there.)
//!
//! `count --work ROW MESSAGES` is the command that callgrind runs. Alone, it prints the time that a message takes.

use std::process::{Command, ExitCode};
use std::time::Instant;

use device::testing::{self, EnginePath};
use device::{AtomicOp, Completion, Payload, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr};
use longarm_device as device;
use shared::Side;

#[allow(dead_code, reason = "the other example uses all of it")]
mod shared;

/// Messages before those that count.
const WARM_UP: usize = 512;
/// Messages that count.
const COUNTED: usize = 2048;
/// More than all of them.
const DEPTH: usize = 4096;
const MEMORY_BYTES: usize = 256 << 10;
/// The function that callgrind collects in.
const COUNTED_FUNCTION: &str = "count_messages";

/// A kind of message.
struct Row {
    name: &'static str,
    verb: Verb,
    len_bytes: usize,
    /// Posted together.
    list: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Send,
    Write,
    Read,
    FetchAdd,
}

const fn row(name: &'static str, verb: Verb, len_bytes: usize, list: usize) -> Row {
    Row { name, verb, len_bytes, list }
}

const ROWS: [Row; 5] = [
    row("host-send-8", Verb::Send, 8, 1),
    row("host-send-8-listed", Verb::Send, 8, 32),
    row("host-write-8", Verb::Write, 8, 1),
    row("host-read-8", Verb::Read, 8, 1),
    row("host-fetch-add", Verb::FetchAdd, 8, 1),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [work, name, messages] = &args[..]
        && work == "--work"
    {
        let row = ROWS.iter().find(|row| row.name == name).expect("a row's name");
        run(row, messages.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("count: it needs a network namespace of its own; as an ordinary user run it below `unshare -Ur`");
        return ExitCode::FAILURE;
    }
    println!("| message | instructions | data read | written | first-level misses | last-level misses |");
    println!("|---|---:|---:|---:|---:|---:|");
    for row in ROWS.iter().filter(|row| args.is_empty() || args.iter().any(|arg| arg == row.name)) {
        match count(row) {
            Ok(figures) => println!("| {} | {} |", row.name, figures.map(|figure| format!("{figure:.0}")).join(" | ")),
            Err(problem) => {
                eprintln!("count: {}: {problem}", row.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Instructions, data read and written, first- and last-level misses of data, for one message. Callgrind calls them
/// `Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw`.
fn count(row: &Row) -> Result<[f64; 5], String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--fair-sched=try", "--cache-sim=yes", "--callgrind-out-file=/dev/null"]);
    command.arg(format!("--toggle-collect={COUNTED_FUNCTION}"));
    command.arg(this).args(["--work", row.name, &COUNTED.to_string()]);
    let output = command.output().map_err(|error| format!("valgrind does not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    let (_, numbers) = line.ok_or_else(|| format!("callgrind has counted nothing:\n{said}"))?;
    // Zeros at the end are left out.
    let mut numbers = numbers.split_whitespace().map(|word| word.parse().unwrap_or(0.0)).chain(std::iter::repeat(0.0));
    let [ir, dr, dw, _, d1mr, d1mw, _, dlmr, dlmw] = std::array::from_fn(|_| numbers.next().unwrap_or(0.0));
    if ir == 0.0 {
        return Err(format!("no message was sent:\n{said}"));
    }
    Ok([ir, dr, dw, d1mr + d1mw, dlmr + dlmw].map(|all| all / COUNTED as f64))
}

fn run(row: &Row, messages: usize) {
    udp::testing::in_new_netns(|| {
        testing::set_engine_path(EnginePath::OneHost);
        testing::set_naps(false);
        let group = udp::PortGroup::bind(3).expect("a port of its own");
        let [a, b] = [1, 2].map(|slot| Side::new(testing::open(&group, slot, "lo"), MEMORY_BYTES, DEPTH));
        a.connect(b.qp.qpn(), b.gid);
        b.connect(a.qp.qpn(), a.gid);
        count_nothing(row, &a, &b, WARM_UP);
        let start = Instant::now();
        count_messages(row, &a, &b, messages);
        eprintln!("{}: {:.0} ns", row.name, start.elapsed().as_nanos() as f64 / messages as f64);
    });
}

/// Callgrind counts in this function.
#[inline(never)]
#[unsafe(no_mangle)]
fn count_messages(row: &Row, a: &Side, b: &Side, messages: usize) {
    exchange(row, a, b, std::hint::black_box(messages));
}

#[inline(never)]
fn count_nothing(row: &Row, a: &Side, b: &Side, messages: usize) {
    exchange(row, a, b, messages);
}

/// Sends lists of messages one after the other, without a wait for ACKs: the queues hold all messages. Completions of SENDs
/// are polled when they are there.
#[inline(never)]
fn exchange(row: &Row, a: &Side, b: &Side, messages: usize) {
    let mut out = Vec::with_capacity(DEPTH);
    for _ in 0..messages / row.list {
        let mut expected = 0;
        if row.verb == Verb::Send {
            b.qp.post_recv((0..row.list).map(|_| b.recv_wr(row.len_bytes))).expect("room");
            expected = row.list;
        }
        a.qp.post_send((0..row.list).map(|_| a.send_wr(row, b))).expect("room");
        while expected > 0 {
            expected -= b.poll(&mut out);
        }
        a.poll(&mut out);
    }
}

impl Side {
    fn recv_wr(&self, len_bytes: usize) -> RecvWr {
        RecvWr { wr_id: 1, sgl: [self.sge(0, len_bytes)].into_iter().collect() }
    }

    fn send_wr(&self, row: &Row, peer: &Side) -> SendWr {
        let there = RemoteAddr { addr: peer.mr.addr(), rkey: peer.mr.rkey() };
        let op = match row.verb {
            Verb::Send => SendOp::Send,
            Verb::Write => SendOp::Write(there),
            Verb::Read => SendOp::Read(there),
            Verb::FetchAdd => SendOp::Atomic(there, AtomicOp::FetchAdd { add: 1 }),
        };
        let payload = Payload::Sgl([self.sge(0, row.len_bytes)].into_iter().collect());
        SendWr { wr_id: 2, op, flags: SendFlags::SIGNALED, payload, datagram: None, xrc_srq: None }
    }

    /// Returns the number of completions.
    fn poll(&self, out: &mut Vec<Completion>) -> usize {
        out.clear();
        let count = self.cq.poll(out, DEPTH).expect("no overrun");
        assert!(out.iter().all(|completion| completion.status == device::Status::Success), "{:?}", self.qp.failure());
        count
    }
}
