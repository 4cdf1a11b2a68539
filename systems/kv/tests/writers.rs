//! Clients that PUT alone: beside the server, beside each other, killed and stopped in the middle.

mod support;

use std::time::Duration;

use longarm_kv::{GetWay, KvError, KvLayout, KvOptions, KvTable, PutExpiry, PutIf, PutWay};
use support::{KvProcess, PATIENCE, get, open, options, with_hub, writable};

const SLOTTED: [KvLayout; 3] = [KvLayout::Cluster, KvLayout::Hopscotch, KvLayout::Cuckoo];

fn alone() -> KvOptions {
    KvOptions { put: PutWay::OneSided, ..options(GetWay::OneSided) }
}

fn open_alone(layout: KvLayout) -> KvTable {
    open(&writable(layout), alone())
}

/// The value that a hammer PUTs: one number, again and again.
fn hammered(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(40)
}

/// A client's process: it PUTs one key all the time, and ends when it does not know an outcome.
fn client(number: u32) {
    let mut table = open(&writable(SLOTTED[number as usize % 3]), KvOptions { timeout: PATIENCE, ..alone() });
    for count in 0.. {
        match table.put(b"hot", &hammered(count)) {
            Ok(_) => {}
            Err(KvError::Server(status)) if !status.can_repeat() => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The number of the hot key's value, which must be whole.
fn hot(table: &mut KvTable) -> Option<u64> {
    let value = get(table, b"hot")?;
    let number = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert!(value == hammered(number), "a torn value");
    Some(number)
}

#[test]
fn puts_alone_are_puts() {
    with_hub("puts_alone_are_puts", || {
        let server = KvProcess::server();
        for layout in SLOTTED {
            let (mut table, mut other) = (open_alone(layout), open(&writable(layout), options(GetWay::Rpc)));
            // An insertion is the server's. The value keeps its block from then on.
            let first = table.put(b"key", &[1; 60]).unwrap();
            assert_eq!(table.stats().one_sided_puts, 0);
            let second = table.put(b"key", &[2; 50]).unwrap();
            assert_eq!(table.stats().one_sided_puts, 1);
            let found = other.get(b"key").unwrap().unwrap();
            assert_eq!((found.bytes, found.version), (vec![2; 50], second));
            assert!(
                matches!(other.compare_and_put(b"key", b"x", first), Err(KvError::Conflict(Some(v))) if v == second)
            );
            assert!(
                matches!(table.compare_and_put(b"key", b"x", first), Err(KvError::Conflict(Some(v))) if v == second)
            );
            let third = table.compare_and_put(b"key", &[3; 61], second).unwrap();
            let fourth = table.put_with(b"key", &[4; 60], PutIf::Present, PutExpiry::Keep).unwrap();
            assert!(first != third && second != third && third != fourth);
            assert_eq!(table.stats().one_sided_puts, 3);
            // The server's own changes, and then the client's again.
            let fifth = other.compare_and_put(b"key", &[5; 60], fourth).unwrap();
            assert_eq!(table.get(b"key").unwrap().unwrap().version, fifth);
            table.put(b"key", &[6; 60]).unwrap();
            assert_eq!((get(&mut other, b"key"), table.stats().one_sided_puts), (Some(vec![6; 60]), 4));
            // A longer value, an insertion, an expiry: by request.
            table.put(b"key", &[7; 2000]).unwrap();
            assert!(matches!(table.insert(b"key", b"x"), Err(KvError::Conflict(Some(_)))));
            table.put_with(b"key", &[8; 2000], PutIf::Always, PutExpiry::AfterNs(3_600_000_000_000)).unwrap();
            table.put_with(b"key", &[9; 2000], PutIf::Always, PutExpiry::Keep).unwrap();
            assert_eq!(table.stats().one_sided_puts, 4);
            table.put(b"key", &[1; 2000]).unwrap();
            assert_eq!((table.put(b"key", &[2; 2000]).is_ok(), table.stats().one_sided_puts), (true, 5));
            // Counters and deletes find what clients wrote.
            other.put(b"count", b"10").unwrap();
            table.put(b"count", b"41").unwrap();
            assert_eq!((other.add(b"count", 1).unwrap(), table.stats().one_sided_puts), (42, 6));
            assert!(other.delete(b"key").unwrap() && table.get(b"key").unwrap().is_none());
            table.put(b"key", b"again").unwrap();
            assert_eq!(get(&mut other, b"key").unwrap(), b"again");
            assert!(matches!(
                table.put_with(b"none", b"x", PutIf::Present, PutExpiry::Never),
                Err(KvError::Conflict(None))
            ));
            let figures = other.figures().unwrap();
            assert_eq!((figures.keys, figures.locks_ended, figures.lost), (2, 0, 0));
        }
        // The server's program takes no part.
        let mut table = open_alone(KvLayout::Cluster);
        assert_eq!(get(&mut table, b"key").unwrap(), b"again");
        server.stop();
        for number in 0..1000_u32 {
            table.put(b"key", &number.to_le_bytes()).unwrap();
            assert_eq!(get(&mut table, b"key").unwrap(), number.to_le_bytes());
        }
        server.go_on();
    });
}

#[test]
fn only_writable_tables_take_puts_alone() {
    with_hub("only_writable_tables_take_puts_alone", || {
        let _server = KvProcess::server();
        drop(open("cluster", options(GetWay::OneSided)));
        let refused = |table: &str, options| KvTable::open(support::ADDRESS, table, options).map(|_| ()).unwrap_err();
        assert!(matches!(refused("cluster", alone()), KvError::Invalid(_)));
        let rpc = KvOptions { put: PutWay::OneSided, ..options(GetWay::Rpc) };
        assert!(matches!(refused(&writable(KvLayout::Cluster), rpc), KvError::Invalid(_)));
    });
}

#[test]
fn clients_that_are_killed_leave_no_lock_and_no_half_value() {
    with_hub("clients_that_are_killed_leave_no_lock_and_no_half_value", || {
        let _server = KvProcess::server();
        let mut ended = 0;
        for layout in 0..3_u32 {
            let (mut table, mut reader) = (open_alone(SLOTTED[layout as usize]), open_alone(SLOTTED[layout as usize]));
            table.put(b"hot", &hammered(0)).unwrap();
            let mut random = fastrand::Rng::with_seed(u64::from(layout));
            for round in 0..8 {
                let before = table.figures().unwrap();
                let hammer = KvProcess::start(&format!("client {layout}"));
                let was = hot(&mut reader);
                testkit::wait_until("the hammer hits", || hot(&mut reader) != was);
                std::thread::sleep(Duration::from_micros(random.u64(..3000)));
                hammer.kill();
                // Nobody waits for long: the server sees that the client is gone.
                let left = hot(&mut reader).expect("it is there");
                table.put(b"hot", &hammered(1 << 40 | round)).unwrap();
                assert_eq!(hot(&mut reader), Some(1 << 40 | round), "after {left}");
                let after = table.figures().unwrap();
                ended += after.locks_ended - before.locks_ended;
                assert_eq!(after.lost, 0);
            }
        }
        println!("{ended} locks were ended");
        assert!(ended > 0, "no client had a lock when it was killed");
    });
}

#[test]
fn a_client_that_was_stopped_for_longer_than_its_lease_writes_nothing_late() {
    with_hub("a_client_that_was_stopped_for_longer_than_its_lease_writes_nothing_late", || {
        let _server = KvProcess::server();
        let mut table = open_alone(KvLayout::Cluster);
        let mut reader = open(&writable(KvLayout::Cluster), options(GetWay::Rpc));
        table.put(b"hot", &hammered(0)).unwrap();
        let (mut ended, mut known) = (0, 0);
        for round in 0..40 {
            // The lock of the client before was ended with its connection.
            testkit::wait_until("the client before is gone", || {
                table.clients().unwrap().iter().filter(|client| client.address.is_some()).count() == 1
            });
            // A change that the client before left half done is completed by this PUT at the latest. So what follows is
            // the next client's.
            let quiet = 2 << 40 | round;
            table.put(b"hot", &hammered(quiet)).unwrap();
            let before = table.figures().unwrap().locks_ended;
            let mut hammer = KvProcess::start("client 0");
            testkit::wait_until("the hammer hits", || hot(&mut reader) != Some(quiet));
            hammer.stop();
            // If the client has the lock, this waits for the end of its lease.
            let mine = 1 << 40 | round;
            table.put(b"hot", &hammered(mine)).unwrap();
            assert_eq!(hot(&mut reader), Some(mine));
            let had_the_lock = table.figures().unwrap().locks_ended > before;
            hammer.go_on();
            if had_the_lock {
                match after_its_lease(&mut hammer, &mut reader, mine) {
                    Outcome::Unknown => ended += 1,
                    Outcome::Known => known += 1,
                }
            }
        }
        println!("{ended} leases ended with an unknown outcome, {known} with a known one");
        assert!(ended > 0, "no client had a lock when it was stopped");
    });
}

/// The outcome, for a client, of its PUT whose lock the server has ended.
enum Outcome {
    /// It has ended, for it does not know.
    Unknown,
    /// It stood in its very last WRITE, which unlocks. That is carried out in memory that nobody reads any more, and the
    /// server has completed the PUT. So the client is right to go on.
    Known,
}

/// Watches a hammer whose lock the server has ended, beside the value `mine` that is there since then.
fn after_its_lease(hammer: &mut KvProcess, reader: &mut KvTable, mine: u64) -> Outcome {
    let later = testkit::wait_for("the hammer ends, or PUTs again", || match hot(reader) {
        _ if hammer.has_ended() => Some(None),
        Some(number) if number != mine => Some(Some(number)),
        _ => None,
    });
    if let Some(first) = later {
        // One change alone would be a late WRITE.
        testkit::wait_until("the hammer PUTs once more", || {
            let again = hot(reader) != Some(first);
            assert!(again || !hammer.has_ended(), "a late WRITE");
            again
        });
        return Outcome::Known;
    }
    assert!(hammer.ends_well(), "it knows that it does not know");
    assert_eq!(hot(reader), Some(mine), "a late WRITE");
    Outcome::Unknown
}
