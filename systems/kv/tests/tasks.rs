//! The client for asynchronous programs: all operations, tasks that share it and give up, servers that go and come.

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use longarm_kv::{
    AsyncKvTable, GetWay, KvError, KvLayout, KvOptions, KvTable, PutExpiry, PutIf, TableSecret, TimeToLive,
};
use support::{ADDRESS, KvProcess, PATIENCE, SECRET, open, options, with_hub};

fn client(_: u32) {}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap()
}

async fn value(table: &AsyncKvTable, key: &[u8]) -> Option<Vec<u8>> {
    table.get(key).await.unwrap().map(|value| value.bytes)
}

async fn every_operation(table: &AsyncKvTable) {
    let first = table.insert(b"key", b"one").await.unwrap();
    assert_eq!(table.get(b"key").await.unwrap().unwrap().version, first);
    assert!(matches!(table.insert(b"key", b"x").await, Err(KvError::Conflict(Some(version))) if version == first));
    let second = table.compare_and_put(b"key", b"two", first).await.unwrap();
    let stale = table.compare_and_put(b"key", b"x", first).await;
    assert!(matches!(stale, Err(KvError::Conflict(Some(version))) if version == second));
    assert!(matches!(table.compare_and_delete(b"key", first).await, Err(KvError::Conflict(_))));
    assert_eq!(value(table, b"key").await.unwrap(), b"two");
    assert!(table.compare_and_delete(b"key", second).await.unwrap() && !table.delete(b"key").await.unwrap());
    assert_eq!(value(table, b"key").await, None);

    assert_eq!((table.add(b"count", 40).await.unwrap(), table.add(b"count", 2).await.unwrap()), (40, 42));
    table.put(b"word", b"forty").await.unwrap();
    assert!(matches!(table.add(b"word", 1).await, Err(KvError::WrongType(_))));
    assert!(matches!(table.put(&vec![0; 65 << 10], b"").await, Err(KvError::Invalid(_))), "a long key");

    let long = vec![7; 9_000_000];
    table.put(b"long", &long).await.unwrap();
    assert!(value(table, b"long").await.unwrap() == long);

    assert_eq!(table.time_to_live(b"word").await.unwrap(), Some(TimeToLive::Forever));
    assert!(table.expire(b"word", Duration::from_secs(1000)).await.unwrap());
    assert!(matches!(table.time_to_live(b"word").await.unwrap(), Some(TimeToLive::Left(left)) if left.as_secs() > 900));
    assert_eq!(value(table, b"word").await.unwrap(), b"forty");
    assert!(table.persist(b"word").await.unwrap());
    assert!(table.expire(b"word", Duration::ZERO).await.unwrap());
    assert_eq!((value(table, b"word").await, table.time_to_live(b"word").await.unwrap()), (None, None));

    let pairs: Vec<(String, String)> = (0..600).map(|n| (format!("many {n}"), format!("value {n}"))).collect();
    table.multi_put(&pairs).await.unwrap();
    let keys: Vec<String> = (0..1500).map(|number| format!("many {number}")).collect();
    let found = table.multi_get(&keys).await.unwrap();
    for (number, found) in found.into_iter().enumerate() {
        assert_eq!(found.map(|value| value.bytes), (number < 600).then(|| format!("value {number}").into_bytes()));
    }
    let (mut scanned, mut cursor) = (BTreeSet::new(), 0);
    loop {
        let (some, next) = table.scan(cursor, 50, b"many ").await.unwrap();
        assert!(some.into_iter().all(|key| scanned.insert(key)), "a key came twice");
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(scanned.len(), 600);
    assert!(table.figures().await.unwrap().keys >= 602);
}

#[test]
fn every_operation_is_a_future_on_any_runtime() {
    with_hub("every_operation_is_a_future_on_any_runtime", || {
        let _server = KvProcess::server();
        for way in GetWay::ALL {
            for layout in KvLayout::ALL {
                drop(open(layout.name(), options(way)));
                // An executor without threads, timers or a reactor.
                pollster::block_on(async {
                    let table = AsyncKvTable::open(ADDRESS, layout.name(), options(way)).await.unwrap();
                    every_operation(&table).await;
                    for key in [&b"key"[..], b"count", b"word", b"long"] {
                        table.delete(key).await.unwrap();
                    }
                    let stats = table.stats();
                    let is_right = match way {
                        GetWay::Rpc => (stats.one_sided_gets, stats.reads, stats.attached) == (0, 0, 0),
                        GetWay::Device => stats.device_gets > 1500 && (stats.reads, stats.attached) == (0, 1),
                        GetWay::Choose => stats.one_sided_gets + stats.rpc_gets > 1500 && stats.attached == 1,
                        _ => stats.one_sided_gets > 1500 && stats.reads > 1500 && stats.attached == 1,
                    };
                    assert!(is_right, "{stats:?}");
                    table.close().await.unwrap();
                    assert_eq!(table.client(), None);
                    // The next operation opens the table again.
                    assert_eq!(value(&table, b"many 1").await.unwrap(), b"value 1");
                });
            }
        }
    });
}

#[test]
fn tasks_share_a_table_and_give_up_at_any_time() {
    with_hub("tasks_share_a_table_and_give_up_at_any_time", || {
        if std::env::var_os("LONGARM_LOCAL").is_none() {
            // Once more over packets, where a GET takes several polls.
            let mut again = testkit::run_again("tasks_share_a_table_and_give_up_at_any_time", "body");
            testkit::must_succeed(again.env("LONGARM_LOCAL", "off"));
        }
        let _server = KvProcess::server();
        drop(open("cluster", options(GetWay::OneSided)));
        runtime().block_on(async {
            let few = KvOptions { outstanding: 4, ..options(GetWay::OneSided) };
            let table = AsyncKvTable::open(ADDRESS, "cluster", few).await.unwrap();
            let tasks: Vec<_> = (0..12_u32)
                .map(|task| {
                    let table = table.clone();
                    tokio::spawn(async move {
                        let key = format!("key of task {task}");
                        for round in 0..60_u32 {
                            let wanted = round.to_le_bytes();
                            table.put(key.as_bytes(), &wanted).await.unwrap();
                            // Futures that are dropped before, while and after they have the connection.
                            let patience = Duration::from_micros(u64::from(round % 7) * 20);
                            let _ = tokio::time::timeout(patience, table.get(key.as_bytes())).await;
                            let _ = tokio::time::timeout(patience, table.add(b"some", 1)).await;
                            assert_eq!(value(&table, key.as_bytes()).await.unwrap(), wanted);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let sum = value(&table, b"some").await.map(|digits| String::from_utf8(digits).unwrap().parse::<u64>());
            assert!(sum.is_none_or(|sum| sum.is_ok_and(|sum| sum <= 12 * 60)), "a change was executed twice");
            assert_eq!(table.stats().attached, 1);
        });
    });
}

#[test]
fn tasks_read_while_the_server_is_stopped_and_find_it_after_it_was_killed() {
    with_hub("tasks_read_while_the_server_is_stopped_and_find_it_after_it_was_killed", || {
        let mut server = KvProcess::server();
        drop(open("cluster", options(GetWay::OneSided)));
        let runtime = runtime();
        let hasty = KvOptions { timeout: Duration::from_millis(500), ..options(GetWay::OneSided) };
        let (table, hasty) = runtime.block_on(async {
            let table = AsyncKvTable::open(ADDRESS, "cluster", options(GetWay::OneSided)).await.unwrap();
            table.put(b"key", b"value").await.unwrap();
            (table, AsyncKvTable::open(ADDRESS, "cluster", hasty).await.unwrap())
        });
        server.stop();
        runtime.block_on(async {
            // A PUT that waits hinders no GET.
            let put = tokio::spawn({
                let table = hasty.clone();
                async move { table.put(b"other", b"value").await }
            });
            for _ in 0..500 {
                assert_eq!(value(&hasty, b"key").await.unwrap(), b"value");
            }
            assert_eq!(value(&hasty, b"no such key").await, None);
            let put = put.await.unwrap();
            assert!(matches!(put, Err(KvError::Server(_))), "{put:?}");
        });
        server.kill();
        runtime.block_on(async {
            // Its memory may be read until the client learns that it was killed.
            let start = Instant::now();
            let gone = loop {
                match hasty.get(b"key").await {
                    Ok(_) => assert!(start.elapsed() < PATIENCE, "a killed server is not noticed"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(gone, KvError::Server(_) | KvError::NotAttached(..)), "{gone:?}");
        });
        server = KvProcess::server();
        runtime.block_on(async {
            // Several tasks find out at once, and one of them connects.
            let gets: Vec<_> = (0..8)
                .map(|_| {
                    let table = table.clone();
                    tokio::spawn(async move { table.get(b"key").await })
                })
                .collect();
            for get in gets {
                assert_eq!(get.await.unwrap().unwrap(), None, "a new life has no keys");
            }
            table.insert(b"key", b"new").await.unwrap();
            assert_eq!(value(&table, b"key").await.unwrap(), b"new");
            assert_eq!(table.stats().attached, 2);
        });
        drop(server);
    });
}

#[test]
fn a_table_with_a_secret_opens_for_those_who_have_it_until_they_are_revoked() {
    with_hub("a_table_with_a_secret_opens_for_those_who_have_it_until_they_are_revoked", || {
        let _server = KvProcess::server();
        drop(open("cluster", options(GetWay::OneSided)));
        let with =
            |secret: &[u8]| KvOptions { secret: Some(TableSecret::new(secret).unwrap()), ..KvOptions::default() };
        pollster::block_on(async {
            let open = |table: &'static str, options| AsyncKvTable::open(ADDRESS, table, options);
            assert!(matches!(open("nothing", KvOptions::default()).await, Err(KvError::NoSuchTable(_))));
            assert!(matches!(open("secret", KvOptions::default()).await, Err(KvError::NotAuthorized(_))));
            assert!(matches!(open("secret", with(b"another one of the test")).await, Err(KvError::NotAuthorized(_))));
            assert!(matches!(open("cluster", with(SECRET)).await, Err(KvError::WrongServer)));
            let table = open("secret", with(SECRET)).await.unwrap();
            let soon = PutExpiry::AfterNs(PATIENCE.as_nanos() as u64);
            table.put_with(b"key", b"value", PutIf::Always, soon).await.unwrap();
            assert_eq!(value(&table, b"key").await.unwrap(), b"value");
            let mut other = KvTable::open(ADDRESS, "secret", with(SECRET)).unwrap();
            let others = [table.client(), other.client()];
            let clients = table.clients().await.unwrap();
            assert!(
                others.iter().all(|known| clients.iter().any(|client| Some(client.client) == *known)),
                "{clients:?}"
            );
            let second = open("secret", with(SECRET)).await.unwrap();
            assert_eq!(table.revoke(second.client()).await.unwrap(), 1);
            assert!(matches!(second.get(b"key").await, Err(KvError::Revoked)));
            assert_eq!(other.revoke(table.client()).unwrap(), 1);
            assert!(matches!(table.get(b"key").await, Err(KvError::Revoked)));
            assert!(matches!(table.put(b"key", b"x").await, Err(KvError::Revoked)));
            assert_eq!(other.get(b"key").unwrap().unwrap().bytes, b"value");
        });
    });
}
