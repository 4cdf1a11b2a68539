//! One measurement: threads of clients, batches of operations.

use std::io::IsTerminal;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::args::{KvBenchArgs, KvCase};
use super::batch::BatchClient;
use super::clients::connect;
use super::figures::KvLine;
use super::scans::ScanChoice;
use super::servers::MeasuredServer;
use super::workload::{OpChoice, WorkOp, Zipf, key_of};
use crate::baseline::pin_to_core;
use crate::error::Error;

/// Keys of a batch while the table is filled.
const FILL: usize = 64;
/// The part of a measurement that comes before it, so that caches are warm.
const WARM_UP: u32 = 4;

/// Puts all keys.
pub(super) fn load(server: &MeasuredServer, args: &KvBenchArgs) -> Result<(), Error> {
    let mut client = connect(server, FILL, args)?;
    let value = vec![7; args.size as usize];
    let keys: Vec<[u8; 20]> = (0..args.keys).map(key_of).collect();
    keys.chunks(FILL).try_for_each(|batch| client.insert(batch, &value))
}

/// The operations of one thread.
struct WorkTally {
    ops: u64,
    missing: u64,
    reads: Option<u64>,
    puts_alone: Option<u64>,
    elapsed: Duration,
    times: Histogram<u64>,
}

/// Runs one case.
pub(super) fn run(server: &MeasuredServer, case: &KvCase, args: &KvBenchArgs) -> Result<KvLine, Error> {
    let (zipf, keys, done) = (Zipf::new(args.keys), AtomicU64::new(args.keys), AtomicU64::new(0));
    let (connected, hindered) =
        (Barrier::new(usize::from(case.clients) + 1), Barrier::new(usize::from(case.clients) + 1));
    let mut busy = 0.0;
    let tallies: Result<Vec<WorkTally>, Error> = thread::scope(|scope| {
        let threads: Vec<_> = (0..case.clients)
            .map(|number| {
                let (zipf, keys, done, connected, hindered) = (&zipf, &keys, &done, &connected, &hindered);
                scope.spawn(move || {
                    // The first core is the first client's, the second the server's.
                    pin_to_core(if number == 0 { 0 } else { usize::from(number) + 1 });
                    let choice = OpChoice::new(case.workload, case.keys_by, zipf, keys, u64::from(number) + 1);
                    let client = connect(server, case.depth, args);
                    connected.wait();
                    hindered.wait();
                    drive(client?, case, args, choice, done)
                })
            })
            .collect();
        connected.wait();
        let hindrance = server.hinder(case.load);
        let (cpu, began) = (server.cpu_seconds(), Instant::now());
        hindered.wait();
        show_progress(case, args, &done, || threads.iter().all(thread::ScopedJoinHandle::is_finished));
        busy = (server.cpu_seconds() - cpu) / began.elapsed().as_secs_f64();
        hindrance?;
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Error::Peer("a client panicked".into()))))
            .collect()
    });
    Ok(sum(tallies?, case, args, busy))
}

fn drive(
    mut client: Box<dyn BatchClient>,
    case: &KvCase,
    args: &KvBenchArgs,
    mut choice: OpChoice<'_>,
    done: &AtomicU64,
) -> Result<WorkTally, Error> {
    let value = vec![8; args.size as usize];
    let mut batch = OpBatch::default();
    let warm = Instant::now();
    while warm.elapsed() < args.seconds / WARM_UP {
        batch.fill(&mut choice, case.depth);
        batch.run(client.as_mut(), &value)?;
    }
    // Three significant digits up to a minute are valid bounds, so the constructor cannot fail.
    let mut times = Histogram::new_with_max(60_000_000_000, 3).expect("valid bounds of a histogram");
    let (began, reads, puts, mut ops, mut missing) = (Instant::now(), client.reads(), client.puts_alone(), 0, 0);
    let mut now = began;
    while now - began < args.seconds {
        batch.fill(&mut choice, case.depth);
        let start = Instant::now();
        missing += batch.run(client.as_mut(), &value)?;
        now = Instant::now();
        times.saturating_record((now - start).as_nanos() as u64);
        ops += case.depth as u64;
        done.fetch_add(case.depth as u64, Ordering::Relaxed);
    }
    let reads = client.reads().zip(reads).map(|(after, before)| after - before);
    let puts_alone = client.puts_alone().zip(puts).map(|(after, before)| after - before);
    Ok(WorkTally { ops, missing, reads, puts_alone, elapsed: now - began, times })
}

/// Operations that are under way together.
#[derive(Default)]
struct OpBatch {
    reads: Vec<[u8; 20]>,
    writes: Vec<[u8; 20]>,
    inserts: Vec<[u8; 20]>,
    scans: Vec<ScanChoice>,
}

impl OpBatch {
    fn fill(&mut self, choice: &mut OpChoice<'_>, depth: usize) {
        self.reads.clear();
        self.writes.clear();
        self.inserts.clear();
        self.scans.clear();
        for _ in 0..depth {
            match choice.next() {
                WorkOp::Read(number) => self.reads.push(key_of(number)),
                WorkOp::Update(number) => self.writes.push(key_of(number)),
                WorkOp::Insert(number) => self.inserts.push(key_of(number)),
                WorkOp::Scan(number, len) => self.scans.push((key_of(number), len)),
                WorkOp::ReadModifyWrite(number) => {
                    self.reads.push(key_of(number));
                    self.writes.push(key_of(number));
                }
            }
        }
    }

    /// Returns the number of keys that were not there.
    fn run(&self, client: &mut dyn BatchClient, value: &[u8]) -> Result<u64, Error> {
        let mut missing = 0;
        if !self.reads.is_empty() {
            missing = (self.reads.len() - client.read(&self.reads)?) as u64;
        }
        if !self.scans.is_empty() {
            missing += (self.scans.len() - client.scan(&self.scans)?) as u64;
        }
        if !self.inserts.is_empty() {
            client.insert(&self.inserts, value)?;
        }
        if !self.writes.is_empty() {
            client.write(&self.writes, value)?;
        }
        Ok(missing)
    }
}

/// Tells people who watch how far the measurement is.
fn show_progress(case: &KvCase, args: &KvBenchArgs, done: &AtomicU64, is_over: impl Fn() -> bool) {
    let (watched, began, mut told) = (std::io::stderr().is_terminal(), Instant::now(), Instant::now());
    while !is_over() {
        thread::sleep(Duration::from_millis(20));
        if watched && told.elapsed() >= Duration::from_millis(500) {
            told = Instant::now();
            let (ops, all) = (done.load(Ordering::Relaxed), args.seconds + args.seconds / WARM_UP);
            let (seconds, all) = (began.elapsed().as_secs_f64(), all.as_secs_f64());
            eprint!("\r{}, {}: {ops} operations, {seconds:.1} of {all:.1} s ", case.system, case.workload);
        }
    }
    if watched {
        eprint!("\r\x1b[K");
    }
}

fn sum(tallies: Vec<WorkTally>, case: &KvCase, args: &KvBenchArgs, server_cpu: f64) -> KvLine {
    let mut times = Histogram::<u64>::new_with_max(60_000_000_000, 3).expect("valid bounds of a histogram");
    let (mut ops, mut missing, mut reads, mut puts_alone, mut rate) = (0, 0, None, None, 0.0);
    for tally in &tallies {
        ops += tally.ops;
        missing += tally.missing;
        rate += tally.ops as f64 / tally.elapsed.as_secs_f64().max(1e-9);
        reads = tally.reads.map(|more| more + reads.unwrap_or(0));
        puts_alone = tally.puts_alone.map(|more| more + puts_alone.unwrap_or(0));
        // Both have the same bounds.
        let _ = times.add(&tally.times);
    }
    KvLine {
        system: case.system.to_string(),
        workload: case.workload,
        keys_by: case.keys_by,
        keys: args.keys,
        size_bytes: args.size,
        clients: case.clients,
        server_load: case.load,
        depth: case.depth,
        ops,
        missing,
        ops_per_second: rate,
        p50_ns: times.value_at_quantile(0.5),
        p99_ns: times.value_at_quantile(0.99),
        p999_ns: times.value_at_quantile(0.999),
        reads_per_op: reads.map(|reads| reads as f64 / ops.max(1) as f64),
        puts_alone,
        server_cpu,
    }
}
