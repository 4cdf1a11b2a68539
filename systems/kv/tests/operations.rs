//! All operations of a client, in each layout and each way, with a server in another process.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use longarm_kv::{GetWay, KvError, KvLayout, KvTable, PutExpiry, PutIf, TimeToLive};
use support::{KvProcess, get, open, options, with_hub};

fn client(_: u32) {}

fn every_operation(table: &mut KvTable) {
    let first = table.insert(b"key", b"one").unwrap();
    assert_eq!(table.get(b"key").unwrap().unwrap().version, first);
    assert!(matches!(table.insert(b"key", b"x"), Err(KvError::Conflict(Some(version))) if version == first));
    let second = table.compare_and_put(b"key", b"two", first).unwrap();
    assert!(matches!(table.compare_and_put(b"key", b"x", first), Err(KvError::Conflict(Some(v))) if v == second));
    assert!(matches!(table.compare_and_delete(b"key", first), Err(KvError::Conflict(_))));
    assert_eq!(get(table, b"key").unwrap(), b"two");
    assert!(table.compare_and_delete(b"key", second).unwrap() && !table.delete(b"key").unwrap());
    assert_eq!(get(table, b"key"), None);
    let present = table.put_with(b"key", b"x", PutIf::Present, PutExpiry::Never);
    assert!(matches!(present, Err(KvError::Conflict(None))));

    assert_eq!((table.add(b"count", 40).unwrap(), table.add(b"count", 2).unwrap()), (40, 42));
    assert_eq!(get(table, b"count").unwrap(), b"42");
    table.put(b"word", b"forty").unwrap();
    assert!(matches!(table.add(b"word", 1), Err(KvError::WrongType(_))));

    for (key, value) in [(vec![b'k'; 64 << 10], vec![1; 100]), (vec![], vec![]), (b"long".to_vec(), vec![7; 9_000_000])]
    {
        table.put(&key, &value).unwrap();
        assert!(get(table, &key) == Some(value), "a key of {} bytes", key.len());
    }
    assert!(matches!(table.put(&vec![b'k'; (64 << 10) + 1], b""), Err(KvError::Invalid(_))));
    assert!(
        matches!(table.put(b"longer", &vec![0; 70 << 20]), Err(KvError::Invalid(_))),
        "more than half of the table"
    );
    table.delete(&vec![b'k'; 64 << 10]).unwrap();

    let keys: Vec<Vec<u8>> = (0..500).map(|number| format!("many {number}").into_bytes()).collect();
    let values: Vec<Vec<u8>> = keys.iter().map(|key| [key.as_slice(), b" value"].concat()).collect();
    table.multi_put(400, |number| (&keys[number], &values[number])).unwrap();
    let long = vec![9; 5 << 20];
    table.multi_put(2, |number| ([&b"one"[..], b"two"][number], [&long[..], b"short"][number])).unwrap();
    assert!(get(table, b"one").unwrap() == long && get(table, b"two").unwrap() == b"short");
    let mut told = vec![0; keys.len()];
    table
        .multi_get(&keys, |number, found| {
            told[number] += 1;
            let wanted = (number < 400).then(|| [keys[number].as_slice(), b" value"].concat());
            assert_eq!(found.map(|(bytes, _)| bytes.to_vec()), wanted);
        })
        .unwrap();
    assert!(told.iter().all(|told| *told == 1));
    let (mut scanned, mut cursor) = (BTreeSet::new(), 0);
    loop {
        let (some, next) = table.scan(cursor, 50, b"many ").unwrap();
        some.into_iter().for_each(|key| assert!(scanned.insert(key), "twice"));
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(scanned.len(), 400);
    let figures = table.figures().unwrap();
    assert!(figures.keys >= 400 && figures.puts >= 400 && figures.server_cpu_ns > 0, "{figures:?}");
}

#[test]
fn every_layout_and_way_has_every_operation() {
    with_hub("every_layout_and_way_has_every_operation", || {
        for way in GetWay::ALL {
            let _server = KvProcess::server();
            for layout in KvLayout::ALL {
                every_operation(&mut open(layout.name(), options(way)));
            }
        }
    });
}

#[test]
fn keys_expire_for_readers_and_for_the_server() {
    with_hub("keys_expire_for_readers_and_for_the_server", || {
        let _server = KvProcess::server();
        for way in GetWay::ALL {
            let mut table = open("cluster", options(way));
            let soon = PutExpiry::AfterNs(200_000_000);
            table.put_with(b"soon", b"1", PutIf::Always, soon).unwrap();
            table.put_with(b"late", b"2", PutIf::Always, PutExpiry::AfterNs(3_600_000_000_000)).unwrap();
            table.put_with(b"kept", b"3", PutIf::Always, soon).unwrap();
            assert!(table.persist(b"kept").unwrap() && !table.persist(b"none").unwrap());
            assert!(
                matches!(table.time_to_live(b"late").unwrap(), Some(TimeToLive::Left(left)) if left.as_secs() > 3000)
            );
            assert_eq!(table.time_to_live(b"kept").unwrap(), Some(TimeToLive::Forever));
            testkit::wait_until("the key expires", || get(&mut table, b"soon").is_none());
            // It stays so, and was not too early: the other two are there.
            assert_eq!(table.time_to_live(b"soon").unwrap(), None);
            assert_eq!(
                (get(&mut table, b"late").unwrap(), get(&mut table, b"kept").unwrap()),
                (b"2".into(), b"3".into())
            );
            assert!(table.expire(b"late", Duration::ZERO).unwrap());
            assert_eq!(get(&mut table, b"late"), None);
            assert!(table.insert(b"late", b"again").is_ok() && table.delete(b"late").unwrap());
        }
    });
}

#[test]
fn tables_grow_while_they_are_read() {
    with_hub("tables_grow_while_they_are_read", || {
        let _server = KvProcess::server();
        for layout in KvLayout::ALL {
            let (mut writer, mut reader) =
                (open(layout.name(), options(GetWay::Rpc)), open(layout.name(), options(GetWay::OneSided)));
            for number in 0..4_000_u32 {
                writer.put(&number.to_le_bytes(), &[number as u8; 32]).unwrap();
                let other = (number / 2).to_le_bytes();
                assert_eq!(get(&mut reader, &other), Some(vec![(number / 2) as u8; 32]), "{layout}, {number}");
            }
            let stats = reader.stats();
            assert_eq!((stats.one_sided_gets, stats.rpc_gets, stats.attached), (4_000, 0, 1));
        }
    });
}

#[test]
fn a_full_table_evicts_or_refuses() {
    with_hub("a_full_table_evicts_or_refuses", || {
        let _server = KvProcess::server();
        let (mut small, mut strict) =
            (open("small", options(GetWay::OneSided)), open("strict", options(GetWay::OneSided)));
        let hot = b"read by READs alone";
        small.put(hot, b"hot").unwrap();
        for number in 0..20_000_u32 {
            small.put(&number.to_le_bytes(), &[1; 100]).unwrap();
            if number % 500 == 0 {
                // The server cannot see these GETs: it is told.
                for _ in 0..20 {
                    assert_eq!(get(&mut small, hot).unwrap(), b"hot", "after {number}");
                }
                small.report();
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let figures = small.figures().unwrap();
        assert!(figures.evicted > 5000 && figures.used_bytes <= figures.max_bytes, "{figures:?}");
        assert!(figures.reported_gets >= 780, "{figures:?}");
        let refused = (0..40_000_u32).find_map(|number| strict.put(&number.to_le_bytes(), &[1; 100]).err());
        assert!(matches!(refused, Some(KvError::Full(_))), "{refused:?}");
        assert_eq!(get(&mut strict, &7_u32.to_le_bytes()), Some(vec![1; 100]));
    });
}
