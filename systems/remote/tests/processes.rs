//! Owners that write in another process, are stopped in the middle of it, and are killed.

mod support;

use std::time::Duration;

use longarm_remote::{LookupError, ReadError, ReaderOptions, UpdateRefusal};
use support::{KEYS, OwnerProcess, PATIENCE, key, reader, round_of, value, with_hub};

fn options() -> ReaderOptions {
    ReaderOptions { patience: PATIENCE, ..ReaderOptions::default() }
}

/// Reads all keys some times: values are whole, and never older than those before.
fn read_rounds(rounds: usize, options: ReaderOptions) -> u64 {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let (mut reader, mut seen) = (reader(options), vec![0; KEYS as usize]);
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
    *seen.iter().min().unwrap()
}

#[test]
fn values_are_whole_and_in_order_while_the_owner_writes() {
    with_hub("values_are_whole_and_in_order_while_the_owner_writes", || {
        let _owner = OwnerProcess::start("writer");
        for outstanding in [1, 16] {
            for locations in [0, 100, 10_000] {
                let last = read_rounds(60, ReaderOptions { outstanding, locations, ..options() });
                assert!(last > 0, "the owner writes meanwhile");
            }
        }
    });
}

#[test]
fn values_are_whole_and_in_order_over_packets() {
    with_hub("values_are_whole_and_in_order_over_packets", || {
        // Processes inherit the variable, so this one starts itself again with it.
        if std::env::var_os("LONGARM_LOCAL").is_none() {
            let mut again = testkit::run_again("values_are_whole_and_in_order_over_packets", "body");
            testkit::must_succeed(again.env("LONGARM_LOCAL", "off"));
            return;
        }
        let _owner = OwnerProcess::start("writer");
        let last = read_rounds(30, options());
        assert!(last > 0, "the owner writes meanwhile");
    });
}

#[test]
fn readers_go_on_while_the_owner_stands_in_the_middle() {
    with_hub("readers_go_on_while_the_owner_stands_in_the_middle", || {
        let owner = OwnerProcess::start("writer");
        let mut reader = reader(ReaderOptions { patience: Duration::from_millis(20), ..options() });
        let (mut bytes, mut seen, mut busy) = (Vec::new(), vec![0; KEYS as usize], 0);
        for stop in 0..40 {
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
            busy += waiting;
            owner.go_on();
        }
        println!("{busy} of 40 stops were in the middle of a change of a key");
    });
}

#[test]
fn a_reader_learns_that_the_owner_was_killed() {
    with_hub("a_reader_learns_that_the_owner_was_killed", || {
        let owner = OwnerProcess::start("writer");
        let mut reader = reader(options());
        let mut bytes = Vec::new();
        assert!(reader.get(&key(1), &mut bytes).unwrap().is_some());
        owner.kill();
        testkit::wait_until("a READ fails", || match reader.get(&key(1), &mut bytes) {
            Ok(Some(_)) => false,
            Ok(None) => panic!("the key is missing"),
            Err(ReadError::Link(_)) => true,
            Err(error) => panic!("{error}"),
        });
    });
}

#[test]
fn peers_update_alone_and_lose_no_update() {
    const EACH: u64 = 300;
    with_hub("peers_update_alone_and_lose_no_update", || {
        let _owner = OwnerProcess::start("idle");
        let add = |holder: u16| {
            let (mut reader, mut bytes, mut done) = (reader(options()), Vec::new(), 0);
            while done < EACH {
                let Ok(Some(place)) = reader.get(b"key 7", &mut bytes) else { continue };
                let count = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                let next = (count + 1).to_le_bytes();
                match reader.update_at(place, b"key 7", &next, holder) {
                    Ok(Some(_)) => done += 1,
                    Ok(None) | Err(ReadError::Update(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        std::thread::scope(|scope| {
            for holder in 1..=3 {
                scope.spawn(move || add(holder));
            }
        });
        let (mut reader, mut bytes) = (reader(options()), Vec::new());
        reader.get(b"key 7", &mut bytes).unwrap();
        assert_eq!(bytes, (3 * EACH).to_le_bytes());
        reader.update(b"key 8", &value(8, 1), 1).unwrap();
        reader.get(b"key 8", &mut bytes).unwrap();
        assert_eq!(round_of(8, &bytes), 1);
        let too_long = reader.update(b"key 8", &[0; 2000], 1);
        assert!(matches!(too_long, Err(ReadError::Update(UpdateRefusal::TooLong { .. }))), "{too_long:?}");
        assert!(matches!(reader.update(b"none", b"", 1), Err(ReadError::Absent)));
    });
}
