//! The writer of a table beside a model, in plain memory, with a clock of the test's.

use std::collections::HashMap;

use longarm_rpc::Code;
use remote::{AllocatorOptions, OwnerOptions, PlainMemory};

use crate::envelope::KvVersion;
use crate::protocol::{DeleteReply, ExpireOutcome, PutExpiry, PutIf, PutReply};
use crate::server::layout::{self, KvLayout};
use crate::server::table::{TableWriter, WhenFull};

const MILLISECOND: u64 = 1_000_000;

fn writer(layout: KvLayout, limit_bytes: u64, when_full: WhenFull) -> TableWriter {
    let memory = PlainMemory::new(limit_bytes + limit_bytes / 4 + (1 << 20));
    let allocator = AllocatorOptions { slab_bytes: 16 << 10, ..AllocatorOptions::default() };
    let options = OwnerOptions { keys: 64, allocator, ..OwnerOptions::default() };
    TableWriter::new(layout::create(layout, memory, options).unwrap(), limit_bytes, when_full, 7)
}

fn stored(reply: PutReply) -> (KvVersion, bool) {
    match reply {
        PutReply::Stored { version, is_new } => (version, is_new),
        other => panic!("{other:?}"),
    }
}

fn get(table: &mut TableWriter, key: &[u8], now_ns: u64) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    table.get(key, 0, now_ns, &mut value).unwrap().map(|_| value)
}

/// A model's value: bytes, expiry, version.
type ModelValue = (Vec<u8>, u64, KvVersion);

/// Random operations on one table and on a map.
fn run_beside_a_model(layout: KvLayout, seed: u64) {
    let (mut table, mut model) = (writer(layout, 8 << 20, WhenFull::Refuse), HashMap::<Vec<u8>, ModelValue>::new());
    let (mut random, mut now_ns) = (fastrand::Rng::with_seed(seed), 1_000_000 * MILLISECOND);
    for _ in 0..20_000 {
        now_ns += random.u64(..MILLISECOND);
        model.retain(|_, (_, expires_ns, _)| *expires_ns == 0 || *expires_ns > now_ns);
        let key = format!("key {}", random.u16(..300)).into_bytes();
        let before = model.get(&key).cloned();
        match random.u8(..12) {
            0..4 => assert_eq!(get(&mut table, &key, now_ns), before.map(|(bytes, ..)| bytes)),
            4..8 => {
                let value = vec![random.u8(..); random.usize(..200)];
                let condition = match random.u8(..5) {
                    0 => PutIf::Absent,
                    1 => PutIf::Present,
                    2 => before.as_ref().map_or(PutIf::Absent, |(.., version)| PutIf::Version(*version)),
                    _ => PutIf::Always,
                };
                let is_met = match condition {
                    PutIf::Always => true,
                    PutIf::Absent => before.is_none(),
                    PutIf::Present | PutIf::Version(_) => before.is_some(),
                };
                let (expiry, expires_ns) = match random.u8(..3) {
                    0 => (PutExpiry::Never, 0),
                    1 => (PutExpiry::Keep, before.as_ref().map_or(0, |(_, expires_ns, _)| *expires_ns)),
                    _ => {
                        let after = random.u64(1..50 * MILLISECOND);
                        (PutExpiry::AfterNs(after), now_ns + after)
                    }
                };
                let reply = table.put(&key, &value, condition, expiry, now_ns).unwrap();
                if is_met {
                    let (version, is_new) = stored(reply);
                    assert_eq!(is_new, before.is_none());
                    assert_ne!(Some(version), before.map(|(.., version)| version));
                    model.insert(key, (value, expires_ns, version));
                } else {
                    assert_eq!(reply, PutReply::Conflict(before.map(|(.., version)| version)));
                }
            }
            8 => {
                let deleted = table.delete(&key, None, now_ns).unwrap();
                assert_eq!(deleted == DeleteReply::Deleted, model.remove(&key).is_some());
            }
            9 => {
                let after = random.u64(1..50 * MILLISECOND);
                let outcome = table.expiry(&key, Some(PutExpiry::AfterNs(after)), now_ns).unwrap();
                assert_eq!(matches!(outcome, ExpireOutcome::Expires(at) if at == now_ns + after), before.is_some());
                if let Some((.., expires_ns, version)) = model.get_mut(&key) {
                    *expires_ns = now_ns + after;
                    let mut bytes = Vec::new();
                    *version = table.get(&key, 0, now_ns, &mut bytes).unwrap().unwrap().version;
                }
            }
            _ => {
                let (mut keys, mut cursor) = (Vec::new(), 0);
                loop {
                    cursor = table.scan(cursor, 20, b"key 1", now_ns, &mut keys);
                    if cursor == 0 {
                        break;
                    }
                }
                let keys_there = model.keys().filter(|key| key.starts_with(b"key 1"));
                let wanted: usize = keys_there.map(|key| key.len() + 4).sum();
                assert_eq!(keys.len(), wanted);
            }
        }
    }
    while table.set_now(now_ns) {}
    assert_eq!(table.keys(), model.len() as u64);
}

#[test]
fn every_layout_does_as_the_model_does() {
    for layout in KvLayout::ALL {
        for seed in 0..3 {
            run_beside_a_model(layout, seed);
        }
    }
}

#[test]
fn a_full_table_evicts_the_keys_that_nobody_uses() {
    for layout in KvLayout::ALL {
        let (mut table, limit) = (writer(layout, 2 << 20, WhenFull::Evict), 2 << 20);
        let mut now_ns = MILLISECOND;
        // One key in ten is in use all the time.
        let used = |number: u32| number.is_multiple_of(10);
        for number in 0..30_000_u32 {
            now_ns += MILLISECOND;
            let put = table.put(&number.to_le_bytes(), &[1; 100], PutIf::Always, PutExpiry::Never, now_ns).unwrap();
            stored(put);
            assert!(table.used_bytes() <= limit, "{} bytes", table.used_bytes());
            let touched = number.saturating_sub(number % 997) / 10 * 10;
            if touched + 1000 > number {
                get(&mut table, &touched.to_le_bytes(), now_ns);
            }
        }
        let keys = table.keys();
        assert!((3000..20_000).contains(&keys), "{layout}: {keys} keys");
        // Keys put last are there, keys put first and never used are not.
        let there = |table: &mut TableWriter, range: std::ops::Range<u32>| {
            range.filter(|number| !used(*number) && get(table, &number.to_le_bytes(), now_ns).is_some()).count()
        };
        let (old, new) = (there(&mut table, 0..2000), there(&mut table, 28_000..30_000));
        assert!(old < 100 && new > 1500, "{layout}: {old} old ones, {new} new ones");
    }
}

#[test]
fn a_full_table_that_evicts_nothing_refuses() {
    let mut table = writer(KvLayout::Cluster, 1 << 20, WhenFull::Refuse);
    let put = |table: &mut TableWriter, number: u32, len_bytes| {
        table.put(&number.to_le_bytes(), &vec![1; len_bytes], PutIf::Always, PutExpiry::Never, MILLISECOND)
    };
    let full = (0..100_000).find_map(|number| put(&mut table, number, 100).err()).unwrap();
    assert_eq!(full.code(), Code::ResourceExhausted);
    let keys = table.keys();
    assert!(keys > 2000);
    // Values of the same length change, and longer ones do not fit.
    assert!(put(&mut table, 5, 100).is_ok());
    assert_eq!(put(&mut table, 5, 60_000).unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(get(&mut table, &5_u32.to_le_bytes(), MILLISECOND), Some(vec![1; 100]));
    assert_eq!(put(&mut table, 5, 600_000).unwrap_err().code(), Code::InvalidArgument);
    // The last key may have made the index longer, so one deletion may not be enough.
    let deleted = (0..keys as u32).find(|number| {
        table.delete(&number.to_le_bytes(), None, MILLISECOND).unwrap();
        put(&mut table, 200_000, 100).is_ok()
    });
    assert!(deleted.is_some_and(|last| u64::from(last) < keys / 2), "{deleted:?} of {keys}");
}

#[test]
fn counters_are_numbers_and_keep_their_expiry() {
    let mut table = writer(KvLayout::Cluster, 1 << 20, WhenFull::Refuse);
    assert_eq!(table.add(b"n", 5, 1).unwrap(), Some(5));
    table.expiry(b"n", Some(PutExpiry::AfterNs(100)), 1).unwrap();
    assert_eq!(table.add(b"n", -7, 50).unwrap(), Some(-2));
    assert_eq!(get(&mut table, b"n", 100), Some(b"-2".to_vec()));
    assert_eq!(table.add(b"n", 1, 101).unwrap(), Some(1), "it expired");
    stored(table.put(b"n", b"nine", PutIf::Always, PutExpiry::Never, 102).unwrap());
    assert_eq!(table.add(b"n", 1, 103).unwrap_err().code(), Code::FailedPrecondition);
    stored(table.put(b"n", i64::MAX.to_string().as_bytes(), PutIf::Always, PutExpiry::Never, 104).unwrap());
    assert_eq!(table.add(b"n", 1, 105).unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(get(&mut table, b"n", 106), Some(i64::MAX.to_string().into_bytes()));
}

#[test]
fn versions_never_come_again() {
    let mut table = writer(KvLayout::Cluster, 1 << 20, WhenFull::Refuse);
    let put = |table: &mut TableWriter, condition| table.put(b"k", b"v", condition, PutExpiry::Never, 1).unwrap();
    let (first, _) = stored(put(&mut table, PutIf::Absent));
    table.delete(b"k", None, 1).unwrap();
    let (second, _) = stored(put(&mut table, PutIf::Absent));
    assert_eq!(put(&mut table, PutIf::Version(first)), PutReply::Conflict(Some(second)));
    assert_eq!(table.delete(b"k", Some(first), 1).unwrap(), DeleteReply::Conflict(second));
    let (third, _) = stored(put(&mut table, PutIf::Version(second)));
    assert_eq!(table.delete(b"k", Some(third), 1).unwrap(), DeleteReply::Deleted);
    assert_eq!(put(&mut table, PutIf::Version(third)), PutReply::Conflict(None));
    assert_eq!(put(&mut table, PutIf::Present), PutReply::Conflict(None));
}
