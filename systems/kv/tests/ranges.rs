//! Ranges of ordered tables, in each way, with a server in another process.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use longarm_kv::{GetWay, KeyRange, KvError, KvItem, KvLayout, KvOptions, KvTable, PutExpiry, PutIf};
use support::{KvProcess, get, open, options, with_hub};

/// Keys that are there all the time, by even numbers; those between them come and go.
const KEYS: u32 = 3_000;

fn key(number: u32) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// A process that puts and deletes keys with odd numbers, and changes the others, until it is killed.
fn client(_: u32) {
    let mut table = open("tree", options(GetWay::Rpc));
    let mut random = fastrand::Rng::new();
    for round in 0_u64.. {
        let number = random.u32(..KEYS / 2) * 2;
        table.put(&key(number), &value(number, round)).unwrap();
        // Neighbours come in numbers, so that nodes split and merge.
        let first = random.u32(..KEYS / 2) * 2 + 1;
        for number in (first..KEYS.min(first + 60)).step_by(2) {
            if round % 2 == 0 {
                table.put(&key(number), &value(number, round)).unwrap();
            } else {
                table.delete(&key(number)).unwrap();
            }
        }
    }
}

fn value(number: u32, round: u64) -> Vec<u8> {
    [&number.to_le_bytes()[..], &round.to_le_bytes().repeat(1 + round as usize % 30)].concat()
}

/// Checks a range that was read while others changed keys with odd numbers.
fn check(items: &[KvItem], range: &KeyRange) {
    assert!(items.windows(2).all(|pair| pair[0].key < pair[1].key), "the keys do not ascend");
    let mut wanted = (0..KEYS).step_by(2).map(key).filter(|key| range.contains(key));
    let last = items.last().map(|item| item.key.clone());
    for item in items {
        assert!(range.contains(&item.key));
        let number: u32 = std::str::from_utf8(&item.key[4..]).unwrap().parse().unwrap();
        let round = u64::from_le_bytes(item.value[4..12].try_into().unwrap());
        assert_eq!(item.value, value(number, round), "a value of two moments");
        if number.is_multiple_of(2) {
            assert_eq!(wanted.next().as_ref(), Some(&item.key), "a key that was there all the time is missing");
        }
    }
    // The limit may have come first.
    assert!(wanted.next().is_none_or(|next| last.is_none_or(|last| next > last)));
}

#[test]
fn ranges_keep_their_promise_while_keys_change() {
    with_hub("ranges_keep_their_promise_while_keys_change", || {
        let _server = KvProcess::server();
        let mut tables = GetWay::ALL.map(|way| open("tree", options(way)));
        for number in (0..KEYS).step_by(2) {
            tables[0].put(&key(number), &value(number, 0)).unwrap();
        }
        let writers = [KvProcess::start("client 0"), KvProcess::start("client 1")];
        let mut random = fastrand::Rng::with_seed(3);
        let (mut others, mut rounds) = (0, 0);
        while rounds < 60 || others < 1000 {
            for table in &mut tables {
                let (from, to) = (random.u32(..KEYS), random.u32(..KEYS));
                let range = if rounds % 4 == 0 { KeyRange::all() } else { KeyRange::from(key(from)..key(to)) };
                let limit = if rounds % 3 == 0 { 100 } else { usize::MAX };
                let items = table.range(&range, limit).unwrap();
                assert!(items.len() <= limit);
                check(&items, &range);
                if items.len() < limit {
                    let there = (0..KEYS).step_by(2).filter(|number| range.contains(&key(*number))).count();
                    assert!(items.len() >= there, "{} of {there}", items.len());
                    others += items.len() - there;
                }
            }
            rounds += 1;
        }
        drop(writers);
        let stats = tables.each_ref().map(KvTable::stats);
        assert_eq!((stats[0].one_sided_ranges, stats[0].rpc_ranges), (rounds, 0));
        assert_eq!((stats[1].one_sided_ranges, stats[1].rpc_ranges), (0, rounds));
    });
}

#[test]
fn ranges_have_limits_long_values_and_no_expired_keys() {
    with_hub("ranges_have_limits_long_values_and_no_expired_keys", || {
        let _server = KvProcess::server();
        for way in GetWay::ALL {
            let mut table = open("tree", options(way));
            let mut model = BTreeMap::new();
            for number in 0..2_500_u32 {
                let value = vec![number as u8; if number % 500 == 7 { 5 << 20 } else { 20 }];
                // All but one in five expire soon: many answers and windows have none to tell.
                let expiry = if number % 5 > 0 { PutExpiry::AfterNs(1_000_000_000) } else { PutExpiry::Never };
                let expiry = if number % 500 == 7 { PutExpiry::AfterNs(3_600_000_000_000) } else { expiry };
                table.put_with(&key(number), &value, PutIf::Always, expiry).unwrap();
                if number % 5 == 0 || number % 500 == 7 {
                    model.insert(key(number), value);
                }
            }
            table.put(b"", b"the lowest key").unwrap();
            model.insert(Vec::new(), b"the lowest key".to_vec());
            // A scan that is under way when they expire has to ask for some.
            let mut told = usize::MAX;
            testkit::wait_until("the keys expire", || {
                let items = table.range(KeyRange::prefix(b"key"), usize::MAX).unwrap();
                assert!(items.len() <= told, "a key that had expired came again");
                told = items.len();
                told + 1 == model.len()
            });
            for (range, limit) in [
                (KeyRange::all(), usize::MAX),
                (KeyRange::all(), 3),
                (KeyRange::from(key(3)..=key(1000)), 150),
                (KeyRange::from(key(5)..key(5)), 10),
                (KeyRange::from("x"..), 10),
                (KeyRange::all(), 0),
            ] {
                let items = table.range(&range, limit).unwrap();
                let wanted = model.iter().filter(|(key, _)| range.contains(key)).take(limit);
                let found: Vec<_> = items.iter().map(|item| (&item.key, &item.value)).collect();
                assert!(found == wanted.collect::<Vec<_>>(), "{way:?}, {range:?}: {} keys", found.len());
                for item in items.iter().take(3) {
                    let known = table.get(&item.key).unwrap().unwrap();
                    assert_eq!((known.version, known.bytes), (item.version, item.value.clone()));
                }
            }
            model.keys().for_each(|key| assert!(table.delete(key).unwrap()));
        }
    });
}

#[test]
fn tables_without_order_refuse_ranges() {
    with_hub("tables_without_order_refuse_ranges", || {
        let _server = KvProcess::server();
        for layout in KvLayout::ALL.into_iter().filter(|layout| *layout != KvLayout::Tree) {
            let mut table = open(layout.name(), options(GetWay::OneSided));
            let refused = table.range(.., 1).unwrap_err();
            assert!(matches!(refused, KvError::NoOrder(_)) && refused.to_string().contains(layout.name()));
        }
    });
}

#[test]
fn ranges_are_read_while_the_server_is_stopped_and_after_it_was_killed() {
    with_hub("ranges_are_read_while_the_server_is_stopped_and_after_it_was_killed", || {
        let mut server = KvProcess::server();
        let short = KvOptions { timeout: Duration::from_millis(500), ..options(GetWay::OneSided) };
        let mut table = open("tree", short);
        for life in 0..2_u64 {
            for number in 0..500 {
                table.put(&key(number), &value(number, life)).unwrap();
            }
            server.stop();
            let items = table.range(.., 600).unwrap();
            assert_eq!(items.len(), 500);
            assert!(items.iter().zip(0..).all(|(item, number)| item.value == value(number, life)));
            server.kill();
            // The memory of a process that was killed can be read until the device's thread has noticed.
            testkit::wait_until("a range fails", || match table.range(.., 600) {
                Ok(items) if items.len() == 500 => false,
                Err(KvError::Server(_) | KvError::NotAttached(..)) => true,
                other => panic!("{other:?}"),
            });
            server = KvProcess::server();
            testkit::wait_until("the server is there", || table.range(.., 600).is_ok_and(|items| items.is_empty()));
            assert_eq!(get(&mut table, &key(1)), None);
        }
    });
}
