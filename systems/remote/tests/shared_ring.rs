//! Rings whose writer and owner are tasks: over packets and on one host, with owners that stand, end and begin anew.

mod support;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use longarm::{Access, Connection, Listener, ProtectionDomain};
use longarm_remote::{
    RingBroken, RingConsumer, RingError, RingReader, SharedRing, SharedRingOptions, TableMemory, WordMemory,
};
use support::{PATIENCE, with_hub};

const LONGEST: u32 = 3000;

struct Ends {
    listener: Listener,
    domain: ProtectionDomain,
}

impl Ends {
    fn new() -> Ends {
        let listener = Listener::bind("127.0.0.1:0").wait(PATIENCE).unwrap();
        let domain = listener.open_device().unwrap().protection_domain().unwrap();
        Ends { listener, domain }
    }

    /// A connection: the writer's end and the owner's.
    fn connect(&self) -> (Connection, Connection) {
        let cq = self.domain.device().completion_queue().unwrap();
        let writer = longarm::connect(self.listener.local_addr(), self.domain.rc(&cq), b"");
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let qp = self.domain.rc(&cq).remote_access(access);
        let owner = self.listener.incoming().wait(PATIENCE).unwrap().accept(qp, b"").wait(PATIENCE).unwrap();
        (writer.wait(PATIENCE).unwrap(), owner)
    }

    /// Memory of a ring, to the end of the test.
    fn memory(&self) -> &'static TableMemory {
        Box::leak(Box::new(TableMemory::writable(&self.domain, 16 << 10).unwrap()))
    }
}

fn options() -> SharedRingOptions {
    SharedRingOptions { timeout: PATIENCE, batch_bytes: 4 << 10, ..SharedRingOptions::default() }
}

fn record(number: u64) -> Vec<u8> {
    vec![number as u8; (number * 37 % u64::from(LONGEST)) as usize]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap()
}

/// Runs the test once more with packets, though both ends are on one host.
fn also_over_packets(test: &str) {
    if std::env::var_os("LONGARM_LOCAL").is_none() {
        testkit::must_succeed(testkit::run_again(test, "body").env("LONGARM_LOCAL", "off"));
    }
}

#[test]
fn records_of_tasks_arrive_in_order_and_nobody_waits_for_each() {
    const TEST: &str = "records_of_tasks_arrive_in_order_and_nobody_waits_for_each";
    with_hub(TEST, || {
        also_over_packets(TEST);
        let ends = Ends::new();
        let memory = ends.memory();
        let reader = RingReader::new(memory, LONGEST).unwrap();
        let (writer, owner) = ends.connect();
        let ring = SharedRing::new(writer, memory.key(), options());
        let mut consumer = RingConsumer::new(owner, reader, 4).unwrap();
        runtime().block_on(async {
            let sent = async {
                for number in 0..3000 {
                    assert_eq!(ring.push(&record(number)).await.unwrap(), number);
                }
                ring.flush().await.unwrap();
            };
            let taken = async {
                let mut bytes = Vec::new();
                for wanted in 0..3000 {
                    let number = consumer.take(&mut bytes).await.unwrap();
                    assert_eq!((number, &bytes), (wanted, &record(wanted)));
                }
            };
            futures_util::future::join(sent, taken).await;
        });
        assert_eq!((ring.number(), consumer.number()), (3000, 3000));
        assert!(ring.kept() < 3000, "a ring's worth at most");
    });
}

#[test]
fn tasks_that_are_dropped_lose_no_record_and_double_none() {
    const TEST: &str = "tasks_that_are_dropped_lose_no_record_and_double_none";
    with_hub(TEST, || {
        also_over_packets(TEST);
        let ends = Ends::new();
        let memory = ends.memory();
        let reader = RingReader::new(memory, LONGEST).unwrap();
        let (writer, owner) = ends.connect();
        let ring = Arc::new(SharedRing::new(writer, memory.key(), options()));
        let mut consumer = RingConsumer::new(owner, reader, 2).unwrap();
        runtime().block_on(async {
            let senders: Vec<_> = (0..6_u64)
                .map(|task| {
                    let ring = Arc::clone(&ring);
                    tokio::spawn(async move {
                        let mut sure = 0;
                        for round in 0..100_u64 {
                            let data = (task << 32 | round).to_le_bytes().repeat(1 + (round % 50) as usize);
                            if round % 3 == 0 {
                                let soon = Duration::from_micros(round);
                                sure +=
                                    u32::from(matches!(tokio::time::timeout(soon, ring.send(&data)).await, Ok(Ok(_))));
                            } else {
                                ring.send(&data).await.unwrap();
                                sure += 1;
                            }
                        }
                        sure
                    })
                })
                .collect();
            let taking = tokio::spawn(async move {
                let (mut last, mut seen, mut bytes) = ([None; 6], [0_u32; 6], Vec::new());
                loop {
                    // Futures of the owner that are dropped have taken nothing.
                    let _ = tokio::time::timeout(Duration::from_micros(20), consumer.peek(&mut bytes)).await;
                    consumer.take(&mut bytes).await.unwrap();
                    if bytes.is_empty() {
                        return seen;
                    }
                    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    assert_eq!(bytes, word.to_le_bytes().repeat(bytes.len() / 8));
                    let (task, round) = ((word >> 32) as usize, word & 0xffff_ffff);
                    assert!(last[task] < Some(round), "a record came twice, or late");
                    (last[task], seen[task]) = (Some(round), seen[task] + 1);
                }
            });
            let mut sure = Vec::new();
            for sender in senders {
                sure.push(sender.await.unwrap());
            }
            ring.send(b"").await.unwrap();
            let seen = taking.await.unwrap();
            assert!(seen.iter().zip(&sure).all(|(seen, sure)| seen >= sure), "{seen:?} of {sure:?}");
        });
    });
}

#[test]
fn a_full_ring_says_so_and_an_owner_that_stands_loses_nothing() {
    with_hub("a_full_ring_says_so_and_an_owner_that_stands_loses_nothing", || {
        let ends = Ends::new();
        let memory = ends.memory();
        let reader = RingReader::new(memory, LONGEST).unwrap();
        let (writer, owner) = ends.connect();
        let short = SharedRingOptions { timeout: Duration::from_millis(100), ..options() };
        let ring = SharedRing::new(writer, memory.key(), short);
        pollster::block_on(async {
            assert!(matches!(ring.push(&[0; 20_000]).await, Err(RingError::Full(_))));
            // Nobody has said yet that it takes notices.
            assert!(matches!(ring.send(&record(0)).await, Err(RingError::Late(_))));
            let mut consumer = RingConsumer::new(owner, reader, 3).unwrap();
            let mut sent = 1;
            while ring.push(&record(sent)).await.is_ok() {
                sent += 1;
            }
            assert!(sent > 5 && ring.kept() as u64 == sent);
            let mut bytes = Vec::new();
            for wanted in 0..sent {
                // The last ones gathered to a batch, for which there was no credit: somebody has to look.
                let number = futures_util::future::join(consumer.take(&mut bytes), ring.flush()).await.0.unwrap();
                assert_eq!((number, &bytes), (wanted, &record(wanted)));
            }
        });
    });
}

#[test]
fn an_owner_that_ended_takes_the_rest_in_its_next_life() {
    const TEST: &str = "an_owner_that_ended_takes_the_rest_in_its_next_life";
    with_hub(TEST, || {
        also_over_packets(TEST);
        let ends = Ends::new();
        runtime().block_on(async {
            let memory = ends.memory();
            let reader = RingReader::new(memory, LONGEST).unwrap();
            let (writer, owner) = ends.connect();
            let ring = SharedRing::new(writer, memory.key(), options());
            let mut consumer = RingConsumer::new(owner, reader, 4).unwrap();
            let (mut wanted, mut bytes) = (0, Vec::new());
            for _ in 0..20 {
                let sending = async {
                    for _ in 0..4 {
                        let number = ring.number();
                        assert_eq!(ring.push(&record(number)).await.unwrap(), number);
                    }
                    ring.flush().await.unwrap();
                };
                // The owner takes some, looks at one more, and ends. Its memory is gone with it.
                let mut sending = std::pin::pin!(sending);
                loop {
                    tokio::select! {
                        biased;
                        () = &mut sending => break,
                        number = consumer.take(&mut bytes) => {
                            assert_eq!((number.unwrap(), &bytes), (wanted, &record(wanted)));
                            wanted += 1;
                        }
                    }
                }
                if wanted < ring.number() {
                    assert_eq!(consumer.peek(&mut bytes).await.unwrap(), wanted);
                }
                drop(consumer);
                let ended = async {
                    loop {
                        match ring.send(&record(ring.number())).await {
                            Ok(_) => {}
                            // It has its number, and comes again.
                            Err(RingError::Ended(_)) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                };
                tokio::time::timeout(PATIENCE, ended).await.unwrap();
                let sent = ring.number();
                assert!(matches!(ring.push(b"x").await, Err(RingError::Ended(_))));
                let memory = ends.memory();
                let reader = RingReader::starting_at(memory, LONGEST, wanted).unwrap();
                let (writer, owner) = ends.connect();
                let gone = ring.resume(writer, memory.key(), sent + 1).unwrap_err();
                assert!(matches!(gone, RingError::Gone { wanted, next, .. } if wanted == sent + 1 && next == sent));
                drop(owner);
                let (writer, owner) = ends.connect();
                ring.resume(writer, memory.key(), wanted).unwrap();
                consumer = RingConsumer::new(owner, reader, 4).unwrap();
            }
            for wanted in wanted..ring.number() {
                let (number, _) = futures_util::future::join(consumer.take(&mut bytes), ring.flush()).await;
                assert_eq!((number.unwrap(), &bytes), (wanted, &record(wanted)));
            }
            ring.flush().await.unwrap();
        });
    });
}

#[test]
fn hostile_peers_harm_their_ring_alone() {
    with_hub("hostile_peers_harm_their_ring_alone", || {
        let ends = Ends::new();
        runtime().block_on(async {
            // A writer that writes nonsense, sends messages that are no notices, and ends.
            for nonsense in [7_u64, u64::from(LONGEST + 1) << 32 | 1] {
                let memory = ends.memory();
                let reader = RingReader::new(memory, LONGEST).unwrap();
                let (writer, owner) = ends.connect();
                let mut consumer = RingConsumer::new(owner, reader, 2).unwrap();
                let word = memory.key().word(64).unwrap();
                writer.send_inline(b"hello").await.unwrap();
                writer.write_inline(&nonsense.to_le_bytes(), &word).await.unwrap();
                let broken = consumer.take(&mut Vec::new()).await.unwrap_err();
                assert!(matches!(broken, RingError::Broken(RingBroken::Header(word)) if word == nonsense), "{broken}");
                drop(writer);
            }
            // A writer that ends in the middle of a record leaves no record, and its end is told.
            let memory = ends.memory();
            let reader = RingReader::new(memory, LONGEST).unwrap();
            let mut consumer = RingConsumer::new(ended_early(&ends, memory), reader, 2).unwrap();
            let ended = consumer.take(&mut Vec::new()).await.unwrap_err();
            assert!(matches!(ended, RingError::Ended(_)), "{ended}");

            // An owner whose words cannot be: the head is ignored, and too many notices end the connection, or wait.
            let memory = ends.memory();
            let (writer, _owner) = ends.connect();
            let short = SharedRingOptions { timeout: Duration::from_millis(200), ..options() };
            let ring = SharedRing::new(writer, memory.key(), short);
            WordMemory::store(memory, 0, u64::MAX - 7);
            WordMemory::store(memory, 8, u64::MAX);
            let mut outcome = ring.push(&record(30)).await;
            for _ in 0..100 {
                outcome = ring.push(&record(30)).await;
                if outcome.is_err() {
                    break;
                }
            }
            assert!(matches!(outcome, Err(RingError::Full(_) | RingError::Ended(_))), "{outcome:?}");
            assert!(ring.kept() <= 16, "no more than the ring has room for");
        });
    });
}

/// The owner's end of a connection whose writer has ended in the middle of a record.
fn ended_early(ends: &Ends, memory: &TableMemory) -> Connection {
    let (writer, owner) = ends.connect();
    let word = memory.key().word(64).unwrap();
    writer.write_inline(&(8_u64 << 32 | 1).to_le_bytes(), &word).wait(PATIENCE).unwrap();
    owner
}

#[test]
fn the_example_ships_all_records_though_the_owner_is_killed() {
    let example = testkit::example("task_ring");
    with_hub("the_example_ships_all_records_though_the_owner_is_killed", || {
        let words = String::from_utf8(testkit::must_succeed(&mut Command::new(&example)).stdout).unwrap();
        for line in ["begins at record 0", "the owner is gone", "has all 20000 records", "to 2 lives"] {
            assert!(words.contains(line), "{line}: {words}");
        }
    });
}
