//! Seeds of the simulation. `LONGARM_SEEDS` makes them more.

use super::{Plant, run_planted, run_seed, trace_seed};
use crate::server::KvLayout;

fn seeds(usual: u64) -> u64 {
    std::env::var("LONGARM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

#[test]
fn all_rules_hold_and_all_kinds_of_operations_happen() {
    for layout in KvLayout::ALL {
        let (mut sums, mut locks, mut expired, mut evicted, mut refused) = ([0; 6], 0, 0, 0, 0);
        for seed in 0..seeds(100) {
            let report = run_seed(layout, seed).unwrap_or_else(|failure| panic!("{failure}"));
            let (counts, figures) = (report.counts, report.figures);
            let more = [
                counts.unknown,
                counts.one_sided_gets,
                counts.rpc_gets,
                counts.one_sided_puts,
                counts.deaths,
                counts.wipes,
            ];
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            locks += figures.locks_ended;
            expired += figures.expired;
            evicted += figures.evicted;
            refused += figures.refused_full;
        }
        let has_writers = !matches!(layout, KvLayout::Tree | KvLayout::ClusterAtomic);
        let happened = sums.iter().enumerate().all(|(kind, sum)| *sum > 0 || (kind == 3 && !has_writers));
        assert!(happened && expired > 0, "{layout}: {sums:?}, {expired}");
        assert!(evicted > 0 && refused > 0, "{layout}: the memory was never full: {evicted}, {refused}");
        assert_eq!([sums[3] > 0, locks > 0], [has_writers; 2], "{layout}: {sums:?}, {locks}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for plant in Plant::ALL {
        let found = (0..600).find(|seed| run_planted(KvLayout::Cluster, *seed, plant).is_err());
        assert!(found.is_some(), "{plant:?}: not found");
    }
}

/// A reader stood still between its READ and its look at the clock. Meanwhile another value came, and then the first one's time was
/// over: the reader called the key absent.
#[test]
fn seeds_that_once_failed() {
    for (layout, seed) in [(KvLayout::Cluster, 567), (KvLayout::Cluster, 1192), (KvLayout::Tree, 160)] {
        run_seed(layout, seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_seed_decides_everything() {
    for layout in KvLayout::ALL {
        for seed in [2, 5, 19] {
            let lines = || trace_seed(layout, seed, None).unwrap_or_else(|failure| panic!("{failure}")).lines;
            let first = lines();
            assert!(first.len() > 20 && first == lines(), "{layout}, seed {seed}");
        }
    }
}
