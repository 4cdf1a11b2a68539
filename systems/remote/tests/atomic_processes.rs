//! Owners in another process, and readers that need READs of objects at one moment.

mod support;

use longarm_remote::{AtomicReads, Cluster, LookupError, ReadError, ReaderOptions, TableReader};
use std::time::Duration;
use support::{KEYS, OwnerProcess, PATIENCE, connect, key, round_of, with_hub};

type AtomicReader = TableReader<longarm::Connection, Cluster, AtomicReads>;

fn reader(options: ReaderOptions) -> AtomicReader {
    let (qp, key) = connect();
    TableReader::new(qp, key, options).unwrap()
}

fn read_rounds(rounds: usize, options: ReaderOptions) {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let (mut reader, mut seen) = (reader(ReaderOptions { patience: PATIENCE, ..options }), vec![0; KEYS as usize]);
    for _ in 0..rounds {
        let mut answers = 0;
        reader
            .multi_get(&keys, |number, found| {
                let found = found.unwrap_or_else(|| panic!("key {number} is missing"));
                let round = round_of(number as u32, found.value);
                assert!(round >= seen[number], "key {number}: round {round} after {}", seen[number]);
                seen[number] = round;
                answers += 1;
            })
            .unwrap();
        assert_eq!(answers, KEYS);
    }
    assert!(*seen.iter().min().unwrap() > 0, "the owner writes meanwhile");
}

#[test]
fn values_without_a_checksum_are_whole_while_the_owner_writes() {
    with_hub("values_without_a_checksum_are_whole_while_the_owner_writes", || {
        let _owner = OwnerProcess::start("atomic");
        for locations in [0, 100, 10_000] {
            read_rounds(100, ReaderOptions { locations, ..ReaderOptions::default() });
        }
    });
}

#[test]
fn values_without_a_checksum_are_whole_over_packets() {
    with_hub("values_without_a_checksum_are_whole_over_packets", || {
        if std::env::var_os("LONGARM_LOCAL").is_none() {
            let mut again = testkit::run_again("values_without_a_checksum_are_whole_over_packets", "body");
            testkit::must_succeed(again.env("LONGARM_LOCAL", "off"));
            return;
        }
        let _owner = OwnerProcess::start("atomic");
        read_rounds(30, ReaderOptions::default());
    });
}

#[test]
fn one_key_at_most_waits_for_an_owner_that_stands() {
    with_hub("one_key_at_most_waits_for_an_owner_that_stands", || {
        let owner = OwnerProcess::start("atomic");
        let mut reader = reader(ReaderOptions { patience: Duration::from_millis(20), ..ReaderOptions::default() });
        let (mut bytes, mut seen) = (Vec::new(), vec![0; KEYS as usize]);
        for stop in 0..20 {
            std::thread::sleep(Duration::from_micros(stop * 97 % 3000));
            owner.stop();
            let mut waiting = 0;
            for number in 0..KEYS {
                match reader.get(&key(number), &mut bytes) {
                    Ok(Some(_)) => {
                        let round = round_of(number, &bytes);
                        assert!(round >= seen[number as usize]);
                        seen[number as usize] = round;
                    }
                    Ok(None) => panic!("key {number} is missing"),
                    Err(ReadError::Lookup(LookupError::Busy)) => waiting += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(waiting <= 1, "{waiting} keys wait for an owner that stands");
            owner.go_on();
        }
    });
}
