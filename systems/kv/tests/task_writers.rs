//! Tasks that PUT alone: beside the server, beside each other, dropped in the middle, and on connections that end.

mod support;

use std::time::Duration;

use longarm_kv::{AsyncKvTable, GetWay, KvError, KvLayout, KvOptions, PutExpiry, PutIf, PutWay};
use support::{ADDRESS, KvProcess, get, open, options, with_hub, writable};

const SLOTTED: [KvLayout; 3] = [KvLayout::Cluster, KvLayout::Hopscotch, KvLayout::Cuckoo];

fn alone() -> KvOptions {
    KvOptions { put: PutWay::OneSided, ..options(GetWay::OneSided) }
}

async fn open_alone(layout: KvLayout) -> AsyncKvTable {
    AsyncKvTable::open(ADDRESS, &writable(layout), alone()).await.unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap()
}

/// The value that a hammer PUTs: one number, again and again.
fn hammered(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(40)
}

fn number_of(value: &[u8]) -> u64 {
    let number = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert!(value == hammered(number), "a torn value");
    number
}

/// A client's process: it PUTs one key by tasks, some of which are dropped, until it is killed.
fn client(number: u32) {
    runtime().block_on(async {
        let table = open_alone(SLOTTED[number as usize % 3]).await;
        for count in 0.. {
            let _ = tokio::time::timeout(Duration::from_micros(count % 30), table.put(b"hot", &hammered(count))).await;
        }
    });
}

/// Runs the test once more over packets, where a PUT takes several polls, and again with packets that are lost, doubled and late.
fn also_over_packets(test: &str) {
    if std::env::var_os("LONGARM_LOCAL").is_none() {
        testkit::must_succeed(testkit::run_again(test, "body").env("LONGARM_LOCAL", "off"));
        let mut lossy = testkit::run_again(test, "body");
        lossy.env("LONGARM_LOCAL", "off").env("LONGARM_FAULTS", "seed=7,loss=0.02,dup=0.01,reorder=0.02");
        testkit::must_succeed(&mut lossy);
    }
}

#[test]
fn puts_alone_of_tasks_are_puts() {
    const TEST: &str = "puts_alone_of_tasks_are_puts";
    with_hub(TEST, || {
        also_over_packets(TEST);
        let _server = KvProcess::server();
        for layout in SLOTTED {
            let mut other = open(&writable(layout), options(GetWay::Rpc));
            pollster::block_on(async {
                let table = open_alone(layout).await;
                // An insertion is the server's. The value keeps its block from then on.
                let first = table.put(b"key", &[1; 60]).await.unwrap();
                assert_eq!(table.stats().one_sided_puts, 0);
                let second = table.put(b"key", &[2; 50]).await.unwrap();
                assert_eq!(table.stats().one_sided_puts, 1);
                let found = other.get(b"key").unwrap().unwrap();
                assert_eq!((found.bytes, found.version), (vec![2; 50], second));
                let stale = table.compare_and_put(b"key", b"x", first).await;
                assert!(matches!(stale, Err(KvError::Conflict(Some(version))) if version == second));
                let third = table.compare_and_put(b"key", &[3; 61], second).await.unwrap();
                let fourth = table.put_with(b"key", &[4; 60], PutIf::Present, PutExpiry::Keep).await.unwrap();
                assert!(first != third && second != third && third != fourth);
                assert_eq!(table.stats().one_sided_puts, 3);
                let fifth = other.compare_and_put(b"key", &[5; 60], fourth).unwrap();
                assert_eq!(table.get(b"key").await.unwrap().unwrap().version, fifth);
                // A longer value, an insertion, an expiry: by request.
                table.put(b"key", &[7; 2000]).await.unwrap();
                assert!(matches!(table.insert(b"key", b"x").await, Err(KvError::Conflict(Some(_)))));
                let hour = PutExpiry::AfterNs(3_600_000_000_000);
                table.put_with(b"key", &[8; 2000], PutIf::Always, hour).await.unwrap();
                table.put_with(b"key", &[9; 2000], PutIf::Always, PutExpiry::Keep).await.unwrap();
                assert_eq!(table.stats().one_sided_puts, 3);
                table.put(b"key", &[1; 2000]).await.unwrap();
                table.put(b"key", &[2; 2000]).await.unwrap();
                assert_eq!((get(&mut other, b"key"), table.stats().one_sided_puts), (Some(vec![2; 2000]), 4));
                let absent = table.put_with(b"none", b"x", PutIf::Present, PutExpiry::Never).await;
                assert!(matches!(absent, Err(KvError::Conflict(None))));
                let pairs = [("key", "a"), ("other", "b"), ("key", "c")];
                table.multi_put(&pairs).await.unwrap();
                assert!([b"a", b"c"].iter().any(|value| get(&mut other, b"key").unwrap() == *value));
            });
            let figures = other.figures().unwrap();
            assert_eq!((figures.locks_ended, figures.lost), (0, 0));
        }
        let refused = |table: String, options| {
            pollster::block_on(async { AsyncKvTable::open(ADDRESS, &table, options).await.map(drop).unwrap_err() })
        };
        assert!(matches!(refused("cluster".into(), alone()), KvError::Invalid(_)));
        let rpc = KvOptions { put: PutWay::OneSided, ..options(GetWay::Rpc) };
        assert!(matches!(refused(writable(KvLayout::Cluster), rpc), KvError::Invalid(_)));
    });
}

#[test]
fn dropped_puts_leave_no_lock_and_no_half_value() {
    const TEST: &str = "dropped_puts_leave_no_lock_and_no_half_value";
    with_hub(TEST, || {
        also_over_packets(TEST);
        let _server = KvProcess::server();
        for layout in SLOTTED {
            let mut other = open(&writable(layout), options(GetWay::Rpc));
            other.put(b"hot", &hammered(0)).unwrap();
            other.put(b"cold", &hammered(0)).unwrap();
            runtime().block_on(async {
                let table = open_alone(layout).await;
                let tasks: Vec<_> = (0..4_u64)
                    .map(|task| {
                        let table = table.clone();
                        tokio::spawn(async move {
                            let mut dropped = 0;
                            for round in 0..300 {
                                let value = hammered(task << 32 | round);
                                let key: &[u8] = if task == 0 { b"cold" } else { b"hot" };
                                let soon = Duration::from_micros(round % 5 * 15);
                                dropped += u32::from(tokio::time::timeout(soon, table.put(key, &value)).await.is_err());
                                number_of(&table.get(b"hot").await.unwrap().unwrap().bytes);
                                if round % 50 == 49 {
                                    // This waits for the end of the PUTs that were dropped before.
                                    table.put(b"cold", &value).await.unwrap();
                                }
                            }
                            dropped
                        })
                    })
                    .collect();
                let mut dropped = 0;
                for task in tasks {
                    dropped += task.await.unwrap();
                }
                println!("{layout}: {dropped} PUTs dropped, {:?}", table.stats());
                assert!(table.stats().one_sided_puts > 0 && table.stats().attached == 1);
            });
            number_of(&get(&mut other, b"hot").unwrap());
            other.put(b"hot", &hammered(7)).unwrap();
            other.put(b"cold", &hammered(7)).unwrap();
            let figures = other.figures().unwrap();
            assert_eq!((figures.locks_ended, figures.lost), (0, 0), "a dropped PUT left its lock");
        }
    });
}

#[test]
fn tasks_that_are_killed_in_a_put_leave_no_lock() {
    with_hub("tasks_that_are_killed_in_a_put_leave_no_lock", || {
        let _server = KvProcess::server();
        let mut random = fastrand::Rng::with_seed(5);
        for layout in 0..3_u32 {
            let mut table = open(&writable(SLOTTED[layout as usize]), alone());
            table.put(b"hot", &hammered(0)).unwrap();
            for round in 0..4 {
                let hammer = KvProcess::start(&format!("client {layout}"));
                let was = get(&mut table, b"hot");
                testkit::wait_until("the hammer hits", || get(&mut table, b"hot") != was);
                std::thread::sleep(Duration::from_micros(random.u64(..3000)));
                hammer.kill();
                number_of(&get(&mut table, b"hot").expect("it is there"));
                let mine = hammered(1 << 40 | round);
                table.put(b"hot", &mine).unwrap();
                assert_eq!(get(&mut table, b"hot"), Some(mine));
                assert_eq!(table.figures().unwrap().lost, 0);
            }
        }
    });
}

#[test]
fn tasks_put_while_the_server_is_stopped_and_find_it_after_it_was_killed() {
    with_hub("tasks_put_while_the_server_is_stopped_and_find_it_after_it_was_killed", || {
        let server = KvProcess::server();
        drop(open(&writable(KvLayout::Cluster), options(GetWay::Rpc)));
        runtime().block_on(async {
            let table = open_alone(KvLayout::Cluster).await;
            table.put(b"key", &[1; 100]).await.unwrap();
            server.stop();
            for number in 0..200_u8 {
                table.put(b"key", &[number; 100]).await.unwrap();
                assert_eq!(table.get(b"key").await.unwrap().unwrap().bytes, [number; 100]);
            }
            server.kill();
            let server = KvProcess::server();
            // One PUT may not know its outcome, or that the server was away. None goes into the memory of the life before.
            let mut outcome = table.put(b"key", b"new").await;
            while let Err(KvError::Server(_)) = outcome {
                outcome = table.put(b"key", b"new").await;
            }
            outcome.unwrap();
            assert_eq!((table.get(b"key").await.unwrap().unwrap().bytes, table.stats().attached), (b"new".to_vec(), 2));
            assert_eq!(table.stats().one_sided_puts, 200, "the new server has to make a block for the key");
            drop(server);
        });
    });
}
