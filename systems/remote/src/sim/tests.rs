//! Some hundreds of seeds of each layout, and planted bugs that must be found.

use super::{Plant, SeedReport, SimKind, run_planted, run_seed};

#[test]
fn all_rules_hold_in_every_layout() {
    for kind in SimKind::SOUND {
        let is_tree = matches!(kind, SimKind::Tree | SimKind::TreeLines);
        let mut sum = SeedReport::default();
        // The stories of trees are longer.
        for seed in 0..if is_tree { 30 } else { 150 } {
            sum = sum.plus(run_seed(kind, seed).unwrap_or_else(|failure| panic!("{failure}")));
        }
        assert!(sum.lookups > 10_000 && sum.refused > 0 && sum.busy * 4 < sum.lookups, "{kind:?}: {sum:?}");
        assert_eq!(sum.scans > 1000, is_tree, "{kind:?}: {sum:?}");
        let has_peers = !matches!(kind, SimKind::ClusterLines | SimKind::ClusterAtomic) && !is_tree;
        assert_eq!([sum.locked > 0, sum.by_peers > 0, sum.broken > 0], [has_peers; 3], "{kind:?}: {sum:?}");
    }
}

/// Slots in memory that had become values led a reader out of the table's memory.
#[test]
fn seeds_that_once_failed() {
    for seed in [10, 153, 545] {
        run_seed(SimKind::Cluster, seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// While the owner stood in the change of a key, a scan read the keys before it again and again.
#[test]
fn a_scan_that_once_had_no_end() {
    run_seed(SimKind::Tree, 5073).unwrap_or_else(|failure| panic!("{failure}"));
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
    found_by(SimKind::TreeUnchecked, None);
}

#[test]
fn planted_bugs_are_found() {
    found_by(SimKind::Hopscotch, Some(Plant::UncountedMoves));
    found_by(SimKind::Cuckoo, Some(Plant::UncountedMoves));
    found_by(SimKind::Cluster, Some(Plant::LateDeaths));
    found_by(SimKind::Cluster, Some(Plant::EarlyRoots));
    found_by(SimKind::Cluster, Some(Plant::OldRoots));
    found_by(SimKind::ClusterAtomic, Some(Plant::PlainReads));
    found_by(SimKind::ClusterAtomic, Some(Plant::LateDeaths));
    found_by(SimKind::Tree, Some(Plant::LateReplacements));
    found_by(SimKind::Tree, Some(Plant::EarlyNodes));
}
