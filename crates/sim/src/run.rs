//! Running seeds: one at a time, and what to tell when one fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::check::Outcome;
use crate::scenario::Scenario;
use crate::world::{Report, World};

/// A run that went wrong.
#[derive(Debug)]
pub struct RunFailure {
    /// The seed.
    pub seed: u64,
    /// The broken rule, or the place where the code under test panicked.
    pub reason: String,
    /// It was a run of [`connections`](crate::connections).
    pub connections: bool,
}

impl std::fmt::Display for RunFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.reason)?;
        let command = if self.connections { replay_connections_command } else { replay_command };
        write!(f, "replay: {}", command(self.seed))
    }
}

/// The command that replays a seed with its packet trace.
pub fn replay_command(seed: u64) -> String {
    format!("cargo run -p longarm-sim -- --seed {seed} --trace")
}

/// The same for a seed of [`connections`](crate::connections).
fn replay_connections_command(seed: u64) -> String {
    format!("cargo run -p longarm-sim -- --connections --seed {seed} --trace")
}

/// Runs the scenario of a seed.
///
/// # Errors
/// A broken rule, or a panic of the code under test.
pub fn run_seed(seed: u64) -> Result<Report, RunFailure> {
    let mut world = World::new(Scenario::generate(seed), false);
    run(&mut world).map_err(|reason| RunFailure { seed, reason, connections: false })
}

/// Runs a world, and makes a panic into a reason like any other.
///
/// # Errors
/// A broken rule, or a panic of the code under test.
pub fn run(world: &mut World) -> Result<Report, String> {
    guarded(|| world.run())
}

/// Runs something, and makes a panic into a reason like any other.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Outcome<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.map_err(|violation| violation.to_string()),
        Err(panic) => Err(format!("panic: {}", panic_text(&*panic))),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("of an unusual kind")
}
