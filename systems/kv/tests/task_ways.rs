//! The client for asynchronous programs: ranges, GETs by the server's device, and clients that choose.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use longarm_kv::{AsyncKvTable, GetWay, KeyRange, KvError, KvLayout, KvOptions, PutExpiry, PutIf};
use support::{ADDRESS, KvProcess, open, options, with_hub};

fn key(number: u32) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// A process that puts, and puts and deletes keys with odd numbers, until it is killed.
fn client(_: u32) {
    let mut table = open("tree", options(GetWay::Rpc));
    for round in 0_u32.. {
        for number in 0..400 {
            if number % 2 == 1 && round % 2 == 1 {
                table.delete(&key(number)).unwrap();
            } else {
                table.put(&key(number), &round.to_le_bytes().repeat(1 + (number % 90) as usize)).unwrap();
            }
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

async fn task_table(table: &str, options: KvOptions) -> AsyncKvTable {
    AsyncKvTable::open(ADDRESS, table, options).await.unwrap()
}

/// Runs the test once more over packets.
fn also_over_packets(test: &str) {
    if std::env::var_os("LONGARM_LOCAL").is_none() {
        testkit::must_succeed(testkit::run_again(test, "body").env("LONGARM_LOCAL", "off"));
    }
}

#[test]
fn ranges_of_tasks_keep_their_promise_while_keys_change() {
    const TEST: &str = "ranges_of_tasks_keep_their_promise_while_keys_change";
    with_hub(TEST, || {
        also_over_packets(TEST);
        let _server = KvProcess::server();
        let mut setup = open("tree", options(GetWay::Rpc));
        (0..400).step_by(2).for_each(|number| assert!(setup.put(&key(number), &[0; 4]).is_ok()));
        let _writer = KvProcess::start("client 0");
        runtime().block_on(async {
            for way in GetWay::ALL {
                let table = task_table("tree", options(way)).await;
                let tasks: Vec<_> = (0..3_u32)
                    .map(|task| {
                        let table = table.clone();
                        tokio::spawn(async move {
                            for round in 0..12 {
                                let first = task * 50 + round;
                                // A scan that is dropped in the middle leaves the table usable.
                                let soon = Duration::from_micros(u64::from(round) * 50);
                                let _ = tokio::time::timeout(soon, table.range(.., 1000)).await;
                                let items = table.range(key(first).., 300).await.unwrap();
                                assert!(items.windows(2).all(|pair| pair[0].key < pair[1].key), "{way:?}");
                                for item in &items {
                                    assert!(item.value.chunks(4).all(|part| part == &item.value[..4]), "torn");
                                }
                                let even: Vec<_> = (first.next_multiple_of(2)..400).step_by(2).map(key).collect();
                                let is_even = |key: &Vec<u8>| (key[key.len() - 1] - b'0').is_multiple_of(2);
                                let found: Vec<_> = items.into_iter().map(|item| item.key).filter(is_even).collect();
                                // The limit may have come first.
                                assert!(even.starts_with(&found) && found.len() >= even.len().min(149), "{way:?}");
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
                let stats = table.stats();
                match way {
                    GetWay::OneSided => assert!(stats.one_sided_ranges > 36 && stats.rpc_ranges == 0, "{stats:?}"),
                    GetWay::Choose => assert!(stats.one_sided_ranges + stats.rpc_ranges > 36, "{stats:?}"),
                    _ => assert!(stats.rpc_ranges > 36 && stats.one_sided_ranges == 0, "{stats:?}"),
                }
            }
        });
    });
}

#[test]
fn ranges_of_tasks_have_limits_long_values_and_no_expired_keys() {
    with_hub("ranges_of_tasks_have_limits_long_values_and_no_expired_keys", || {
        let _server = KvProcess::server();
        let mut setup = open("tree", options(GetWay::Rpc));
        let mut model = BTreeMap::new();
        for number in 0..300_u32 {
            let value = vec![number as u8; if number % 100 == 7 { 5 << 20 } else { 20 }];
            let expiry = if number % 3 == 1 { PutExpiry::AfterNs(300_000_000) } else { PutExpiry::Never };
            setup.put_with(&key(number), &value, PutIf::Always, expiry).unwrap();
            if number % 3 != 1 {
                model.insert(key(number), value);
            }
        }
        pollster::block_on(async {
            for way in GetWay::ALL {
                let table = task_table("tree", options(way)).await;
                // The first way asks the server for those that just expire.
                while table.range(.., usize::MAX).await.unwrap().len() > model.len() {}
                for (range, limit) in [
                    (KeyRange::all(), usize::MAX),
                    (KeyRange::all(), 3),
                    (KeyRange::from(key(3)..=key(200)), 50),
                    (KeyRange::from(key(5)..key(5)), 10),
                    (KeyRange::all(), 0),
                ] {
                    let items = table.range(&range, limit).await.unwrap();
                    let wanted: Vec<_> = model.iter().filter(|(key, _)| range.contains(key)).take(limit).collect();
                    let found: Vec<_> = items.iter().map(|item| (&item.key, &item.value)).collect();
                    assert!(found == wanted, "{way:?}, {range:?}: {} keys", found.len());
                    let last = items.last().map(|item| item.version);
                    if let (Some(last), Some((key, _))) = (last, wanted.last()) {
                        assert_eq!(table.get(key).await.unwrap().unwrap().version, last);
                    }
                }
                let other = task_table("cluster", options(way)).await;
                assert!(matches!(other.range(.., 1).await, Err(KvError::NoOrder(_))));
            }
        });
    });
}

#[test]
fn tasks_get_by_the_server_s_device() {
    const TEST: &str = "tasks_get_by_the_server_s_device";
    with_hub(TEST, || {
        also_over_packets(TEST);
        let _server = KvProcess::server();
        drop(open("cluster", options(GetWay::Device)));
        runtime().block_on(async {
            for layout in [KvLayout::Cluster, KvLayout::Tree] {
                let few = KvOptions { outstanding: 4, ..options(GetWay::Device) };
                let table = task_table(layout.name(), few).await;
                let tasks: Vec<_> = (0..6_u32)
                    .map(|task| {
                        let table = table.clone();
                        tokio::spawn(async move {
                            // The last ones are too long for a reply, or have a key too long for a call.
                            for (key, len) in [(key(task), 100), (key(task + 100), 20_000), (vec![task as u8; 300], 5)]
                            {
                                for round in 0..30_u8 {
                                    let value = vec![round; len];
                                    table.put(&key, &value).await.unwrap();
                                    let soon = Duration::from_micros(u64::from(round) * 10);
                                    let _ = tokio::time::timeout(soon, table.get(&key)).await;
                                    assert!(table.get(&key).await.unwrap().unwrap().bytes == value);
                                }
                            }
                            assert_eq!(table.get(b"none").await.unwrap(), None);
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
                let stats = table.stats();
                assert!(stats.device_gets >= 6 * 91 && stats.one_sided_gets == 0 && stats.reads == 0, "{stats:?}");
                assert!(stats.rpc_gets > 300 && stats.attached == 1, "{stats:?}");
            }
        });
    });
}

#[test]
fn tasks_choose_their_way_and_read_alone_while_the_server_stands() {
    with_hub("tasks_choose_their_way_and_read_alone_while_the_server_stands", || {
        let server = KvProcess::server();
        let mut setup = open("tree", options(GetWay::Rpc));
        let keys: Vec<_> = (0..300).map(key).collect();
        keys.iter().for_each(|key| assert!(setup.put(key, key).is_ok()));
        runtime().block_on(async {
            // Far less than all requests below would take if each waited for the server.
            let short = KvOptions { timeout: Duration::from_secs(2), ..options(GetWay::Choose) };
            let table = task_table("tree", short).await;
            let every_way = async || {
                for key in &keys {
                    assert_eq!(table.get(key).await.unwrap().unwrap().bytes, *key);
                }
                let found = table.multi_get(&keys).await.unwrap();
                assert!(found.iter().zip(&keys).all(|(found, key)| found.as_ref().unwrap().bytes == *key));
                let items = table.range(&keys[3]..&keys[103], 60).await.unwrap();
                assert!(items.len() == 60 && items.iter().zip(&keys[3..]).all(|(item, key)| item.key == *key));
            };
            let both = |stats: longarm_kv::KvStats| stats.one_sided_gets > 0 && stats.rpc_gets > 0;
            while !both(table.stats()) {
                every_way().await;
            }
            server.stop();
            let before = table.stats();
            for _ in 0..20 {
                every_way().await;
            }
            let stats = table.stats();
            assert!(stats.one_sided_gets >= before.one_sided_gets + 20 * 600, "{stats:?} after {before:?}");
            server.go_on();
            while table.stats().rpc_gets < stats.rpc_gets + 10 {
                every_way().await;
            }
        });
    });
}

#[test]
fn long_scans_and_multi_gets_let_other_tasks_run() {
    with_hub("long_scans_and_multi_gets_let_other_tasks_run", || {
        let _server = KvProcess::server();
        let mut setup = open("tree", options(GetWay::Rpc));
        let keys: Vec<_> = (0..4000).map(key).collect();
        setup.multi_put(keys.len(), |number| (&keys[number], b"value")).unwrap();
        // One thread: all READs of this host are done at once, and no future would ever wait.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let table = task_table("tree", options(GetWay::OneSided)).await;
            let turns = std::rc::Rc::new(std::cell::Cell::new(0));
            let local = tokio::task::LocalSet::new();
            let counted = std::rc::Rc::clone(&turns);
            local.spawn_local(async move {
                loop {
                    counted.set(counted.get() + 1);
                    tokio::task::yield_now().await;
                }
            });
            local
                .run_until(async {
                    let before = turns.get();
                    assert_eq!(table.range(.., usize::MAX).await.unwrap().len(), keys.len());
                    let between = turns.get();
                    assert!(between >= before + 5, "a scan: {} turns", between - before);
                    assert_eq!(table.multi_get(&keys).await.unwrap().len(), keys.len());
                    assert!(turns.get() >= between + 5, "a multi-get: {} turns", turns.get() - between);
                })
                .await;
        });
    });
}
