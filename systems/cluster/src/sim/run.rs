//! Running seeds.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sim::events::SimPlant;
use crate::sim::world::SimWorld;

/// A run in which all rules held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterSimReport {
    /// Events.
    pub events: u64,
    /// Configurations that were replaced.
    pub changes: u64,
    /// Processes that crashed.
    pub crashes: u64,
    /// Orders of operators.
    pub orders: u64,
    /// Shares that were handed over.
    pub hand_overs: u64,
    /// Requests without an answer in time.
    pub lost: u64,
}

impl ClusterSimReport {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: ClusterSimReport) -> ClusterSimReport {
        ClusterSimReport {
            events: self.events + other.events,
            changes: self.changes + other.changes,
            crashes: self.crashes + other.crashes,
            orders: self.orders + other.orders,
            hand_overs: self.hand_overs + other.hand_overs,
            lost: self.lost + other.lost,
        }
    }
}

/// A run in which a rule was broken.
#[derive(Debug)]
pub struct ClusterSimFailure {
    /// The seed.
    pub seed: u64,
    /// The rule.
    pub reason: String,
}

impl fmt::Display for ClusterSimFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.reason)?;
        write!(f, "replay: cargo run -p longarm-cluster --features sim --bin cluster-sim -- --seed {}", self.seed)
    }
}

impl std::error::Error for ClusterSimFailure {}

/// Runs a seed, with a planted bug if there is one.
///
/// # Errors
/// A broken rule, or a panic of the code under test.
pub fn run_cluster_seed(seed: u64, plant: Option<SimPlant>) -> Result<ClusterSimReport, ClusterSimFailure> {
    let run = || {
        let mut world = SimWorld::new(seed, plant);
        world.run().map(|()| world.report)
    };
    let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("a panic".into()));
    outcome.map_err(|reason| ClusterSimFailure { seed, reason })
}
