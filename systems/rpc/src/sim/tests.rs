//! Some hundreds of seeds of each way, and seeds that once found a bug.

use std::collections::BTreeMap;

use super::{SimWay, run_seed, trace_seed};

/// Runs seeds, and tells what there was to see.
fn sweep(way: SimWay, seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u64> {
    let mut seen = BTreeMap::new();
    for seed in seeds {
        let report = run_seed(way, seed).unwrap_or_else(|failure| panic!("{failure}"));
        report.seen.into_iter().for_each(|(what, times)| *seen.entry(what).or_default() += times);
    }
    seen
}

#[test]
fn all_rules_hold_in_every_way() {
    let wanted = [
        "all slots taken, or busy",
        "cancelled",
        "client crashed",
        "closed after a drain",
        "connection cut",
        "connection lost",
        "deadline",
        "drain",
        "error of a handler",
        "executed",
        "hostile",
        "large reply",
        "large request",
        "never executed",
        "pointless",
        "refused at the client",
        "refused by a drain",
        "reply",
        "reply without room",
        "server crashed",
        "session over",
        "unknown outcome",
    ];
    for way in SimWay::ALL {
        let seen = sweep(way, 0..if way == SimWay::Datagram { 150 } else { 300 });
        let missing: Vec<&str> = wanted.into_iter().filter(|what| !seen.contains_key(*what)).collect();
        assert!(missing.is_empty(), "{way:?}: never seen: {missing:?}, but {seen:#?}");
    }
}

#[test]
fn a_seed_is_a_run() {
    for way in SimWay::ALL {
        let first = run_seed(way, 7).expect("it passes");
        assert_eq!(run_seed(way, 7).expect("it passes"), first);
        let (lines, again) = trace_seed(way, 7);
        assert_eq!(again.expect("it passes"), first, "watching changes nothing");
        assert!(lines.len() > 10);
        assert_ne!(run_seed(way, 8).expect("it passes").hash, first.hash);
    }
}
