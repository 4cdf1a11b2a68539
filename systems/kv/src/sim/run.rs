//! Running seeds.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use fastrand::Rng;

use crate::server::{KvLayout, TableFigures, WhenFull};
use crate::sim::plan::SimPlan;
use crate::sim::plant::Plant;
use crate::sim::record::DeedCounts;
use crate::sim::world::{SERVER, SimWorld};
use crate::sim::{actor, client, server};

/// A run in which all rules held.
#[derive(Clone, Debug, Default)]
pub struct SeedReport {
    /// The clients' operations.
    pub counts: DeedCounts,
    /// The last server's figures.
    pub figures: TableFigures,
    /// Everything that happened, if it was wanted.
    pub lines: Vec<String>,
    /// Nanoseconds of the world.
    pub took_ns: u64,
}

/// A run in which a rule was broken.
#[derive(Debug)]
pub struct SeedFailure {
    /// The table's layout.
    pub layout: KvLayout,
    /// The seed.
    pub seed: u64,
    /// The rule.
    pub reason: String,
    /// Everything that happened, if it was wanted.
    pub lines: Vec<String>,
}

impl fmt::Display for SeedFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layout, seed) = (self.layout, self.seed);
        writeln!(f, "{layout}, seed {seed}: {}", self.reason)?;
        write!(
            f,
            "replay: cargo run -p longarm-kv --features sim --bin kv-sim -- --layout {layout} --seed {seed} --trace"
        )
    }
}

impl std::error::Error for SeedFailure {}

/// Runs a seed with a table of that layout.
///
/// # Errors
/// A broken rule, or a panic of the code under test.
pub fn run_seed(layout: KvLayout, seed: u64) -> Result<SeedReport, SeedFailure> {
    run_with(layout, seed, None, false)
}

/// Runs it with a planted bug.
///
/// # Errors
/// As [`run_seed`].
pub fn run_planted(layout: KvLayout, seed: u64, plant: Plant) -> Result<SeedReport, SeedFailure> {
    run_with(layout, seed, Some(plant), false)
}

/// Runs it, and tells everything that happens.
///
/// # Errors
/// As [`run_seed`].
pub fn trace_seed(layout: KvLayout, seed: u64, plant: Option<Plant>) -> Result<SeedReport, SeedFailure> {
    run_with(layout, seed, plant, true)
}

fn run_with(layout: KvLayout, seed: u64, plant: Option<Plant>, is_traced: bool) -> Result<SeedReport, SeedFailure> {
    let mut rng = Rng::with_seed(seed);
    let plan = SimPlan::draw(layout, &mut rng);
    let world = Arc::new(SimWorld::new(plan, plant, rng.fork(), is_traced));
    world.trace(|| format!("{:?}", world.plan));
    let play = |number: usize, rng: Rng| {
        let world = Arc::clone(&world);
        thread::spawn(move || {
            let part = || {
                let run = || if number == SERVER { server::run(&world) } else { client::run(&world, number) };
                if catch_unwind(AssertUnwindSafe(run)).is_err() {
                    world.stage.stop(format!("a panic of {}", name(number)));
                }
            };
            actor::play(&world, number, world.plan.clocks[number], rng, part);
        })
    };
    let actors: Vec<_> = (0..=world.plan.clients).map(|number| play(number, rng.fork())).collect();
    world.stage.run();
    actors.into_iter().for_each(|actor| drop(actor.join()));
    let ledger = world.ledger.lock();
    let verdict = match world.stage.stopped() {
        Some(reason) => Err(reason),
        None => ledger.check(world.plan.when_full == WhenFull::Evict && world.plan.is_tight()),
    };
    let (counts, figures, lines) = (ledger.counts, ledger.figures, world.lines());
    match verdict {
        Ok(()) => Ok(SeedReport { counts, figures, lines, took_ns: world.stage.now_ns() }),
        Err(reason) => Err(SeedFailure { layout, seed, reason, lines }),
    }
}

fn name(number: usize) -> String {
    if number == SERVER { "the server".into() } else { format!("client {number}") }
}
