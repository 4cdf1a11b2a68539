//! Keys reveal nothing about each other: a sanity check, not a proof.

mod common;

use std::collections::{HashMap, HashSet};

use common::{ALL, region, sge, who};
use longarm_memory::{MrKeys, Registry};
use transport::{LKey, Memory, MemoryError};
use wire::RKey;

const REGIONS: usize = 10_000;

/// Keys of many regions in the order of their registration.
fn many(registry: &Registry) -> Vec<MrKeys> {
    let pd = registry.alloc_pd();
    let (memory, first) = region(registry, pd, 64);
    let more = (1..REGIONS).map(|_| {
        let keys = registry.register_region(pd, memory.clone(), None, ALL);
        keys.expect("room for many")
    });
    std::iter::once(first).chain(more).collect()
}

/// The number of occurrences of the most frequent value.
fn most_frequent(values: impl Iterator<Item = u32>) -> usize {
    let mut counts = HashMap::new();
    for value in values {
        *counts.entry(value).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// Checks that no simple relation leads from one number to the other. Differences of random handles coincide
/// by chance: for 10,000 among 2^24 at most a few times each.
fn assert_unrelated(pairs: &[(u32, u32)], what: &str) {
    for (name, relation) in [
        ("difference", (|a, b| b.wrapping_sub(a)) as fn(u32, u32) -> u32),
        ("sum", |a, b| a.wrapping_add(b)),
        ("exclusive or", |a, b| a ^ b),
    ] {
        let often = most_frequent(pairs.iter().map(|(a, b)| relation(*a, *b)));
        assert!(often <= 3, "{what}: the same {name} {often} times");
    }
    for bit in 0..32 {
        let equal = pairs.iter().filter(|(a, b)| (a ^ b) >> bit & 1 == 0).count();
        let fair = REGIONS * 45 / 100..REGIONS * 55 / 100;
        assert!(fair.contains(&equal), "{what}: bit {bit} agrees {equal} times");
    }
}

#[test]
fn no_key_leads_to_another() {
    for seed in 0..4 {
        let keys = many(&Registry::new(seed));
        let both: Vec<(u32, u32)> = keys.iter().map(|k| (k.lkey.0, k.rkey.0)).collect();
        assert_unrelated(&both, "lkey and rkey of a region");
        let next = |key: fn(&MrKeys) -> u32| -> Vec<(u32, u32)> {
            keys.windows(2).map(|w| (key(&w[0]), key(&w[1]))).collect()
        };
        assert_unrelated(&next(|k| k.rkey.0), "successive rkeys");
        assert_unrelated(&next(|k| k.lkey.0), "successive lkeys");
    }
}

#[test]
fn all_keys_of_a_kind_differ() {
    let keys = many(&Registry::new(9));
    let lkeys: HashSet<LKey> = keys.iter().map(|k| k.lkey).collect();
    let rkeys: HashSet<RKey> = keys.iter().map(|k| k.rkey).collect();
    assert_eq!((lkeys.len(), rkeys.len()), (REGIONS, REGIONS));
    assert!(keys.iter().all(|k| k.lkey.0 != k.rkey.0));
}

#[test]
fn the_keys_of_two_registries_are_unrelated() {
    let (one, two) = (many(&Registry::new(1)), many(&Registry::new(2)));
    let pairs: Vec<(u32, u32)> = one.iter().zip(&two).map(|(a, b)| (a.rkey.0, b.rkey.0)).collect();
    assert_unrelated(&pairs, "rkeys of two registries");
}

#[test]
fn a_key_of_the_other_kind_opens_nothing() {
    let registry = Registry::new(5);
    let pd = registry.alloc_pd();
    let (_memory, keys) = region(&registry, pd, 64);
    let as_rkey = registry.remote_write(who(pd), RKey(keys.lkey.0), 0, &[1]);
    let as_lkey = registry.check_local(pd, &[sge(LKey(keys.rkey.0), 0, 1)], false);
    assert_eq!([as_rkey, as_lkey], [Err(MemoryError::BadKey); 2]);
}

#[test]
fn guessing_around_known_keys_finds_no_others() {
    let registry = Registry::new(6);
    let pd = registry.alloc_pd();
    let (_memory, known) = region(&registry, pd, 64);
    let (_other_memory, _other) = region(&registry, pd, 64);
    let hits = (1..200_000u32).filter(|step| {
        let guess = RKey(known.rkey.0.wrapping_add(*step));
        registry.remote_write(who(pd), guess, 0, &[1]).is_ok()
    });
    assert_eq!(hits.count(), 0);
}
