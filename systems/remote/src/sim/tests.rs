//! Some hundreds of seeds of each layout, and planted bugs that must be found.

use super::{Plant, SimKind, run_planted, run_seed};

#[test]
fn all_rules_hold_in_every_layout() {
    for kind in SimKind::SOUND {
        let (mut lookups, mut busy, mut refused) = (0, 0, 0);
        for seed in 0..150 {
            let report = run_seed(kind, seed).unwrap_or_else(|failure| panic!("{failure}"));
            lookups += report.lookups;
            busy += report.busy;
            refused += report.refused;
        }
        assert!(lookups > 10_000 && refused > 0, "{kind:?}: {lookups} lookups, {refused} operations without room");
        assert!(busy * 4 < lookups, "{kind:?}: {busy} lookups without an answer beside {lookups}");
    }
}

/// Slots in memory that had become values led a reader out of the table's memory.
#[test]
fn seeds_that_once_failed() {
    for seed in [10, 153, 545] {
        run_seed(SimKind::Cluster, seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// The first seed that finds a planted bug.
fn found_by(kind: SimKind, plant: Option<Plant>) -> u64 {
    let found = (0..2000).find(|seed| run_planted(kind, plant, *seed).is_err());
    found.unwrap_or_else(|| panic!("{kind:?}, {plant:?}: not found"))
}

#[test]
fn planted_checks_are_found() {
    found_by(SimKind::BothEnds, None);
    found_by(SimKind::Unchecked, None);
}

#[test]
fn planted_bugs_are_found() {
    found_by(SimKind::Hopscotch, Some(Plant::UncountedMoves));
    found_by(SimKind::Cuckoo, Some(Plant::UncountedMoves));
    found_by(SimKind::Cluster, Some(Plant::LateDeaths));
    found_by(SimKind::Cluster, Some(Plant::EarlyRoots));
    found_by(SimKind::Cluster, Some(Plant::OldRoots));
}
