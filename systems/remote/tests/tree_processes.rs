//! Owners of trees that write in another process, and are stopped in the middle of splits and merges.

mod support;

use std::time::Duration;

use longarm::Connection;
use longarm_remote::{Crc64, KeyRange, LookupError, ReadError, ReaderOptions, TreeReader};
use support::{KEYS, OwnerProcess, PATIENCE, connect, key, round_of, with_hub};

type TestTreeReader = TreeReader<Connection, Crc64>;

fn tree_reader(options: ReaderOptions) -> TestTreeReader {
    let (qp, key) = connect();
    TreeReader::new(qp, key, options).unwrap()
}

fn options() -> ReaderOptions {
    ReaderOptions { patience: PATIENCE, ..ReaderOptions::default() }
}

/// The number of a key that is always there; `None` for guests.
fn number_of(key: &[u8]) -> Option<u32> {
    std::str::from_utf8(key).ok()?.strip_prefix("key ")?.parse().ok()
}

/// The rounds that were seen of each key: values are whole, and never older than those before.
struct SeenRounds(Vec<u64>);

impl SeenRounds {
    fn new() -> SeenRounds {
        SeenRounds(vec![0; KEYS as usize])
    }

    fn see(&mut self, number: u32, value: &[u8]) {
        let (round, seen) = (round_of(number, value), &mut self.0[number as usize]);
        assert!(round >= *seen, "key {number}: round {round} after {seen}");
        *seen = round;
    }

    /// Scans all keys. They come in order, and those that are always there all come. Returns false if the scan has to wait.
    fn scan(&mut self, reader: &mut TestTreeReader) -> bool {
        let (mut last, mut count) = (Vec::new(), 0);
        let done = reader.scan(&KeyRange::all(), usize::MAX, |item| {
            assert!(last.as_slice() < item.key, "{:?} after {last:?}", item.key);
            last = item.key.to_vec();
            if let Some(number) = number_of(item.key) {
                self.see(number, item.object.value);
                count += 1;
            }
        });
        match done {
            Ok(()) => assert_eq!(count, KEYS),
            Err(ReadError::Lookup(LookupError::Busy)) => return false,
            Err(error) => panic!("{error}"),
        }
        true
    }
}

fn read_rounds(rounds: usize, options: ReaderOptions) {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let (mut reader, mut seen) = (tree_reader(options), SeenRounds::new());
    let mut done = 0;
    // The owner has changed every key meanwhile.
    while done < rounds || seen.0.contains(&0) {
        done += 1;
        reader
            .multi_get(&keys, |number, found| {
                let found = found.unwrap_or_else(|| panic!("key {number} is missing"));
                seen.see(number as u32, found.value);
            })
            .unwrap();
        assert!(seen.scan(&mut reader));
    }
}

#[test]
fn trees_are_read_whole_and_in_order_while_the_owner_writes() {
    with_hub("trees_are_read_whole_and_in_order_while_the_owner_writes", || {
        let _owner = OwnerProcess::start("tree");
        for (outstanding, locations) in [(1, 0), (16, 100), (16, 10_000)] {
            read_rounds(15, ReaderOptions { outstanding, locations, ..options() });
        }
    });
}

#[test]
fn trees_are_read_whole_and_in_order_over_packets() {
    with_hub("trees_are_read_whole_and_in_order_over_packets", || {
        // Processes inherit the variable, so this one starts itself again with it.
        if std::env::var_os("LONGARM_LOCAL").is_none() {
            let mut again = testkit::run_again("trees_are_read_whole_and_in_order_over_packets", "body");
            testkit::must_succeed(again.env("LONGARM_LOCAL", "off"));
            return;
        }
        let _owner = OwnerProcess::start("tree");
        read_rounds(10, options());
    });
}

#[test]
fn readers_go_on_while_the_owner_stands_in_a_split() {
    with_hub("readers_go_on_while_the_owner_stands_in_a_split", || {
        let owner = OwnerProcess::start("tree");
        let options = ReaderOptions { patience: Duration::from_millis(20), ..options() };
        let (mut old, mut seen, mut bytes) = (tree_reader(options), SeenRounds::new(), Vec::new());
        let (mut busy, mut busy_scans) = (0, 0);
        for stop in 0..60 {
            std::thread::sleep(Duration::from_micros(stop * 97 % 3000));
            owner.stop();
            let mut waiting = 0;
            for number in 0..KEYS {
                match old.get(&key(number), &mut bytes) {
                    Ok(Some(_)) => seen.see(number, &bytes),
                    Ok(None) => panic!("key {number} is missing"),
                    Err(ReadError::Lookup(LookupError::Busy)) => waiting += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(waiting <= 1, "{waiting} keys wait for an owner that stands");
            busy += waiting;
            busy_scans += u32::from(!seen.scan(&mut old));
            owner.go_on();
        }
        println!("{busy} stops of 60 were in the middle of a change of a key, and {busy_scans} scans waited for one");
        assert!(busy_scans < 60);
    });
}
