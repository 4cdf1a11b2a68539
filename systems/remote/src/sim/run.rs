//! Running seeds.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;

use crate::layout::{Cluster, Cuckoo, Hopscotch};
use crate::object::{AtomicReads, Crc64, LineVersions};
use crate::sim::owners::{SimFamily, TableFamily, TreeFamily};
use crate::sim::plant::{BothEnds, Plant, Unchecked};
use crate::sim::readers::{ReaderRecords, SimReader};
use crate::sim::story::Story;
use crate::sim::timeline::Timeline;
use crate::sim::{history, scans};

/// The layouts and checks that seeds run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimKind {
    /// Cluster hashing, CRC64.
    Cluster,
    /// Hopscotch hashing, CRC64.
    Hopscotch,
    /// Cuckoo hashing, CRC64.
    Cuckoo,
    /// Cluster hashing with marks in lines, read in lines.
    ClusterLines,
    /// Cluster hashing, and READs of objects at one moment.
    ClusterAtomic,
    /// A B-tree, CRC64.
    Tree,
    /// A B-tree with marks in lines, read in lines.
    TreeLines,
    /// Planted: a B-tree whose objects have no check.
    TreeUnchecked,
    /// Planted: versions at both ends only.
    BothEnds,
    /// Planted: no check.
    Unchecked,
}

impl SimKind {
    /// Those whose rules must hold.
    pub const SOUND: [SimKind; 7] = [
        SimKind::Cluster,
        SimKind::Hopscotch,
        SimKind::Cuckoo,
        SimKind::ClusterLines,
        SimKind::ClusterAtomic,
        SimKind::Tree,
        SimKind::TreeLines,
    ];

    /// The kind of that name.
    pub fn named(name: &str) -> Option<SimKind> {
        SimKind::SOUND.into_iter().find(|kind| format!("{kind:?}").eq_ignore_ascii_case(name))
    }
}

/// A run in which all rules held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeedReport {
    /// Operations that changed a key.
    pub operations: u64,
    /// Stores of words.
    pub stores: u64,
    /// Lookups with an answer.
    pub lookups: u64,
    /// Scans.
    pub scans: u64,
    /// Lookups and scans that found writers in between each time.
    pub busy: u64,
    /// Operations that found no room.
    pub refused: u64,
    /// Operations that found a peer's lock.
    pub locked: u64,
    /// Updates by peers.
    pub by_peers: u64,
    /// Locks of dead peers that the owner has broken.
    pub broken: u64,
}

impl SeedReport {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: SeedReport) -> SeedReport {
        SeedReport {
            operations: self.operations + other.operations,
            stores: self.stores + other.stores,
            lookups: self.lookups + other.lookups,
            scans: self.scans + other.scans,
            busy: self.busy + other.busy,
            refused: self.refused + other.refused,
            locked: self.locked + other.locked,
            by_peers: self.by_peers + other.by_peers,
            broken: self.broken + other.broken,
        }
    }
}

/// A run in which a rule was broken.
#[derive(Debug)]
pub struct SeedFailure {
    /// The layout and check.
    pub kind: SimKind,
    /// The seed.
    pub seed: u64,
    /// The rule.
    pub reason: String,
}

impl fmt::Display for SeedFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, seed) = (format!("{:?}", self.kind).to_lowercase(), self.seed);
        writeln!(f, "{kind}, seed {seed}: {}", self.reason)?;
        write!(f, "replay: cargo run -p longarm-remote --features sim --bin remote-sim -- --kind {kind} --seed {seed}")
    }
}

impl std::error::Error for SeedFailure {}

/// Runs the story of a seed, with readers.
///
/// # Errors
/// A broken rule, or a panic of the code under test.
pub fn run_seed(kind: SimKind, seed: u64) -> Result<SeedReport, SeedFailure> {
    run_planted(kind, None, seed)
}

/// Runs it with a planted bug.
///
/// # Errors
/// As [`run_seed`].
pub fn run_planted(kind: SimKind, plant: Option<Plant>, seed: u64) -> Result<SeedReport, SeedFailure> {
    let run = || match kind {
        SimKind::Cluster => run::<TableFamily<Cluster, Crc64>>(plant, seed),
        SimKind::Hopscotch => run::<TableFamily<Hopscotch, Crc64>>(plant, seed),
        SimKind::Cuckoo => run::<TableFamily<Cuckoo, Crc64>>(plant, seed),
        SimKind::ClusterLines => run::<TableFamily<Cluster, LineVersions>>(plant, seed),
        SimKind::ClusterAtomic => run::<TableFamily<Cluster, AtomicReads>>(plant, seed),
        SimKind::BothEnds => run::<TableFamily<Cluster, BothEnds>>(plant, seed),
        SimKind::Tree => run::<TreeFamily<Crc64>>(plant, seed),
        SimKind::TreeLines => run::<TreeFamily<LineVersions>>(plant, seed),
        SimKind::TreeUnchecked => run::<TreeFamily<Unchecked>>(plant, seed),
        SimKind::Unchecked => run::<TableFamily<Cluster, Unchecked>>(plant, seed),
    };
    let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("a panic".into()));
    outcome.map_err(|reason| SeedFailure { kind, seed, reason })
}

fn run<F: SimFamily>(plant: Option<Plant>, seed: u64) -> Result<SeedReport, String> {
    let mut random = Rng::with_seed(seed);
    let mut story = Story::tell::<F>(&mut random);
    if let Some(plant) = plant {
        plant.spoil(&mut story);
    }
    let (timeline, mut records) = (Timeline::new(&story.stores), ReaderRecords::default());
    let mut report = SeedReport {
        operations: story.operations.len() as u64,
        stores: timeline.end() as u64,
        refused: story.refused,
        locked: story.locked,
        by_peers: story.by_peers,
        broken: story.broken,
        ..SeedReport::default()
    };
    for _ in 0..6 {
        let mut reader = SimReader::<F::Search>::new(&story, &timeline, plant, random.fork());
        reader.travel(&mut records)?;
        report.busy += reader.busy;
    }
    report.lookups = records.lookups.len() as u64;
    for _ in 0..4 {
        let time = random.usize(..=timeline.end());
        // Before the first operation, the table itself is being made.
        if story.operations.first().is_some_and(|first| first.begin <= time) {
            SimReader::<F::Search>::new(&story, &timeline, plant, random.fork())
                .stand_still(time, &mut records.scans)?;
        }
    }
    report.scans = records.scans.len() as u64;
    scans::check(&story.operations, story.keys.len(), &records.scans)?;
    history::check(&story.operations, story.keys.len(), records.lookups)?;
    Ok(report)
}
