//! Running seeds: one at a time, and the words for one that fails.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sim::scenario::RpcScenario;
use crate::sim::ways::SimWay;
use crate::sim::world::SimWorld;

/// A run in which all rules held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimReport {
    /// Calls of all clients.
    pub calls: usize,
    /// The things of interest that came up, and how often.
    pub seen: BTreeMap<&'static str, u64>,
    /// Of everything that happened, with its time.
    pub hash: u64,
    /// Length of the run on the virtual clock.
    pub ended_ns: u64,
}

/// A run that went wrong.
#[derive(Debug)]
pub struct SimFailure {
    /// The way.
    pub way: SimWay,
    /// The seed.
    pub seed: u64,
    /// The broken rule, or the panic of the code under test.
    pub reason: String,
}

impl fmt::Display for SimFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (way, seed) = (format!("{:?}", self.way).to_lowercase(), self.seed);
        writeln!(f, "{way}, seed {seed}: {}", self.reason)?;
        let command = "cargo run -p longarm-rpc --features sim --bin rpc-sim --";
        write!(f, "replay: {command} --way {way} --seed {seed} --trace")
    }
}

impl std::error::Error for SimFailure {}

/// Runs the scenario of a seed.
///
/// # Errors
/// A broken rule, or a panic of the code under test.
pub fn run_seed(way: SimWay, seed: u64) -> Result<SimReport, SimFailure> {
    run(way, seed, false).1
}

/// Runs the scenario of a seed, and tells all that happened.
pub fn trace_seed(way: SimWay, seed: u64) -> (Vec<String>, Result<SimReport, SimFailure>) {
    run(way, seed, true)
}

fn run(way: SimWay, seed: u64, is_verbose: bool) -> (Vec<String>, Result<SimReport, SimFailure>) {
    let scenario = RpcScenario::draw(way, seed);
    let head = format!("{scenario:#?}");
    let mut world = SimWorld::new(scenario, is_verbose);
    let outcome = match catch_unwind(AssertUnwindSafe(|| world.run())) {
        Ok(outcome) => outcome,
        Err(panic) => Err(format!("panic: {}", panic_text(&*panic))),
    };
    let mut lines = if is_verbose { vec![head] } else { Vec::new() };
    let (hash, ended_ns) = {
        let mut network = world.network.borrow_mut();
        lines.append(&mut network.trace.take_lines());
        (network.trace.hash(), network.now_ns())
    };
    let report = outcome.map(|()| SimReport {
        calls: world.account.calls.len(),
        seen: std::mem::take(&mut world.account.seen),
        hash,
        ended_ns,
    });
    (lines, report.map_err(|reason| SimFailure { way, seed, reason }))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("of an unusual kind")
}
