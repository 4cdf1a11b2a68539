//! Seeds, and planted bugs that they find.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sim::history::{KeyOp, Recorded, after, is_linearizable};
use crate::sim::world::{SimReport, SimWorld};

/// A bug that the rules have to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimBug {
    /// Answers do not wait for backups.
    NoWait,
    /// A backup takes records of a deposed primary.
    NoFence,
    /// A copy leaves keys out.
    NoCopy,
    /// Readers do not mind the end of the term.
    NoTerm,
    /// Readers take values that backups have not acknowledged.
    ReadUnsettled,
    /// A target serves before the former primary has released the share.
    ImpatientTarget,
    /// A share is released although backups have not acknowledged all changes.
    ReleaseUnsettled,
    /// A former primary drops its keys when it has released a share.
    DropsEarly,
    /// Answers do not wait for the primary's own log.
    AnswerUnlogged,
    /// A backup acknowledges what its log may lose.
    AckUnlogged,
    /// A member that may lack something comes back as if it had everything.
    ReturnsUnasked,
}

fn run(seed: u64, bug: Option<SimBug>) -> Result<SimReport, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| SimWorld::new(seed, bug).run()));
    outcome.unwrap_or_else(|_| Err("a panic".into()))
}

#[test]
fn simulation_of_many_seeds() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (from, seeds) = (variable("LONGARM_SEED").unwrap_or(0), variable("LONGARM_SEEDS").unwrap_or(400));
    let mut sum = SimReport::default();
    for seed in from..from + seeds {
        let report = run(seed, None).unwrap_or_else(|why| {
            panic!("seed {seed}: {why}\nLONGARM_SEED={seed} LONGARM_SEEDS=1 cargo test -p longarm-replica simulation")
        });
        sum.answers += report.answers;
        sum.reads += report.reads;
        sum.epochs += report.epochs;
        sum.crashes += report.crashes;
        sum.orders += report.orders;
        sum.hand_overs += report.hand_overs;
        sum.returns += report.returns;
    }
    println!("{seeds} seeds: {sum:?}");
    assert!(
        seeds < 100
            || (sum.answers > 20 * seeds
                && sum.reads > seeds
                && sum.epochs > 2 * seeds
                && sum.hand_overs > seeds / 10
                && sum.returns > seeds / 10),
        "{sum:?}"
    );
}

/// A planted bug is found by a rule about data, and not because members had too little time to agree.
fn is_by_rule(why: &str) -> bool {
    ["not linearizable", "its backup"].iter().any(|words| why.contains(words))
}

#[test]
fn planted_bugs_are_found() {
    // Each with a seed that finds it today: the search begins there. longarm-cluster's seeds find a hand-over that comes too early, and
    // `sender/tests.rs` a target that trusts an old list of backups.
    for (bug, first) in [
        (SimBug::NoWait, 1),
        (SimBug::NoFence, 409),
        (SimBug::NoCopy, 1),
        (SimBug::NoTerm, 47),
        (SimBug::ReadUnsettled, 28),
        (SimBug::ImpatientTarget, 1266),
        (SimBug::ReleaseUnsettled, 288),
        (SimBug::DropsEarly, 4),
        (SimBug::AnswerUnlogged, 95),
        (SimBug::AckUnlogged, 9566),
        (SimBug::ReturnsUnasked, 44),
    ] {
        let found = (first..first + 3000).find(|seed| run(*seed, Some(bug)).is_err_and(|why| is_by_rule(&why)));
        println!("{bug:?}: seed {found:?}");
        assert!(found.is_some(), "{bug:?}");
    }
}

/// Whether some order of the operations fits, by trying all of them.
fn fits_in_some_order(history: &[Recorded], state: Option<u64>) -> bool {
    if history.iter().all(|one| one.end.is_none()) {
        return true;
    }
    let limit = history.iter().filter_map(|one| one.end).min().unwrap_or(u64::MAX);
    (0..history.len()).filter(|at| history[*at].begin <= limit).any(|at| {
        let mut rest = history.to_vec();
        let one = rest.remove(at);
        after(one.op, state).is_some_and(|state| fits_in_some_order(&rest, state))
    })
}

#[test]
fn the_check_of_histories_agrees_with_a_search_of_all_orders() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut counts = [0; 2];
    for round in 0..20_000 {
        let history: Vec<Recorded> = (0..random.u64(2..8))
            .map(|number| {
                let old = random.u64(..4);
                let op = match random.u32(..5) {
                    0 => KeyOp::Get((old > 0).then_some(old)),
                    1 => KeyOp::Put(number),
                    2 => KeyOp::Insert(number, random.bool()),
                    3 => KeyOp::Delete(random.bool()),
                    _ => KeyOp::Replace(old, number),
                };
                let begin = random.u64(..12);
                let end = begin + random.u64(..6);
                Recorded { op, begin, end: (random.u32(..4) > 0).then_some(end) }
            })
            .collect();
        let expected = fits_in_some_order(&history, None);
        assert_eq!(is_linearizable(&history), expected, "round {round}: {history:?}");
        counts[usize::from(expected)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
}
