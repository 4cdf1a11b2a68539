//! Servers whose tables are on disk, killed at random moments: nothing that was acknowledged is lost, and nothing else appears.

#[path = "../src/sim/history.rs"]
mod history;
mod support;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use history::{KeyOp, Recorded, is_linearizable};
use longarm_kv::{
    DataOptions, GetWay, KvError, KvOptions, KvServer, KvTable, PutExpiry, PutIf, TableOptions, TimeToLive,
    backup_data, check_data, repair_data, restore_data,
};
use support::{KvProcess, data_directory, get, open, options, with_hub};

/// Kills of one run; `LONGARM_KILLS` has another number.
const KILLS: u64 = 100;
const KEYS: usize = 5;
const CLIENTS: u64 = 3;

pub(crate) fn client(_: u32) {
    unreachable!("clients are threads of the test");
}

/// Orders the moments of all threads.
static CLOCK: AtomicU64 = AtomicU64::new(1);

fn moment() -> u64 {
    CLOCK.fetch_add(1, Ordering::SeqCst)
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn bytes_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(1 + value as usize % 40)
}

fn value_of(bytes: &[u8]) -> u64 {
    let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == bytes_of(value), "a torn value");
    value
}

/// Operates until the server is gone. Returns what it did, by key.
fn operate(number: u64, way: GetWay, until: Instant) -> Vec<(usize, Recorded)> {
    let mut done = Vec::new();
    let wanted = KvOptions { timeout: Duration::from_millis(300), ..options(way) };
    let Ok(mut table) = KvTable::open(support::ADDRESS, "cluster", wanted) else { return done };
    let mut random = fastrand::Rng::new();
    while Instant::now() < until {
        let (at, begin) = (random.usize(..KEYS), moment());
        let (op, failed) = attempt(&mut table, at, random.u8(..8), begin * CLIENTS + number);
        match failed {
            None => done.push((at, Recorded { op, begin, end: Some(moment()) })),
            Some(error) => {
                let did_nothing = matches!(&error, KvError::Server(status) if status.can_repeat());
                if !did_nothing && !matches!(op, KeyOp::Get(_)) {
                    done.push((at, Recorded { op, begin, end: None }));
                }
            }
        }
    }
    done
}

fn attempt(table: &mut KvTable, at: usize, kind: u8, value: u64) -> (KeyOp, Option<KvError>) {
    let (key, bytes) = (key(at), bytes_of(value));
    match kind {
        0 => match table.delete(&key) {
            Ok(was_there) => (KeyOp::Delete(was_there), None),
            Err(error) => (KeyOp::Delete(true), Some(error)),
        },
        1 => match table.insert(&key, &bytes) {
            Ok(_) => (KeyOp::Insert(value, true), None),
            Err(KvError::Conflict(Some(_))) => (KeyOp::Insert(value, false), None),
            Err(error) => (KeyOp::Insert(value, true), Some(error)),
        },
        2..=4 => (KeyOp::Put(value), table.put(&key, &bytes).err()),
        _ => match table.get(&key) {
            Ok(found) => (KeyOp::Get(found.map(|found| value_of(&found.bytes))), None),
            Err(error) => (KeyOp::Get(None), Some(error)),
        },
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_kills() {
    with_hub("nothing_acknowledged_is_lost_by_kills", || {
        let kills = std::env::var("LONGARM_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
        let (mut operations, mut unknown) = (0, 0);
        let mut state = [None; KEYS];
        for round in 0..kills {
            let server = KvProcess::start("data always");
            let mut table = open("cluster", options(GetWay::Rpc));
            // The first reads of this life end the history of the one before.
            let mut histories: Vec<Vec<Recorded>> = state.iter().map(begins_with).collect();
            let until = Instant::now() + Duration::from_millis(fastrand::u64(5..60));
            let done: Vec<(usize, Recorded)> = std::thread::scope(|scope| {
                let ways = [GetWay::Rpc, GetWay::OneSided];
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|number| {
                        scope
                            .spawn(move || operate(number, ways[number as usize % 2], until + Duration::from_millis(5)))
                    })
                    .collect();
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                server.kill();
                clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
            });
            operations += done.len();
            unknown += done.iter().filter(|(_, one)| one.end.is_none()).count();
            done.into_iter().for_each(|(key, one)| histories[key].push(one));
            let server = KvProcess::start("data always");
            drop(table);
            table = open("cluster", options(GetWay::Rpc));
            for (number, history) in histories.iter_mut().enumerate() {
                let found = get(&mut table, &key(number)).map(|bytes| value_of(&bytes));
                let begin = moment();
                history.push(Recorded { op: KeyOp::Get(found), begin, end: Some(moment()) });
                state[number] = found;
                assert!(is_linearizable(history), "round {round}, key {number}: {history:#?}");
            }
            server.kill();
        }
        println!("{kills} kills, {operations} operations, {unknown} of unknown outcome");
        // A busy machine leaves the clients of some rounds no time.
        assert!(operations > kills as usize / 4 && unknown > 0);
    });
}

/// A history of a key with this value.
fn begins_with(value: &Option<u64>) -> Vec<Recorded> {
    let begin = moment();
    value.map(|value| Recorded { op: KeyOp::Put(value), begin, end: Some(moment()) }).into_iter().collect()
}

#[test]
fn a_backup_of_a_working_server_is_its_state_of_one_moment() {
    with_hub("a_backup_of_a_working_server_is_its_state_of_one_moment", || {
        let server = KvProcess::start("data always");
        let mut table = open("cluster", options(GetWay::Rpc));
        let (directory, file) = (data_directory(), data_directory().with_file_name("backup"));
        // Two keys with the same number, the first one before the second: a state of one moment shows no other order.
        let until = Instant::now() + Duration::from_millis(600);
        let (mut number, mut backups) = (0, Vec::new());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut table = open("cluster", options(GetWay::Rpc));
                while Instant::now() < until {
                    number += 1;
                    table.put(b"first", &bytes_of(number)).unwrap();
                    table.put(b"second", &bytes_of(number)).unwrap();
                }
            });
            while !writer.is_finished() {
                let before = table.get(b"second").unwrap().map_or(0, |found| value_of(&found.bytes));
                let file = file.with_extension(backups.len().to_string());
                backup_data(&directory, &file).unwrap();
                backups.push((before, file));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        assert!(backup_data(&directory, &backups[0].1).is_err(), "a backup replaces no file");
        assert!(check_data(&directory).is_err(), "a server uses the directory");
        server.kill();
        assert!(check_data(&directory).unwrap().is_whole());
        assert!(restore_data(&backups[0].1, &directory).is_err(), "the directory is not empty");
        for (before, file) in backups.iter().skip(backups.len().saturating_sub(4)) {
            std::fs::remove_dir_all(&directory).unwrap();
            restore_data(file, &directory).unwrap();
            let report = check_data(&directory).unwrap();
            assert!(report.is_whole() && report.snapshot_records > 2, "{report:?}");
            let server = KvProcess::start("data always");
            let mut table = open("cluster", options(GetWay::Rpc));
            let found = [&b"first"[..], b"second"].map(|key| get(&mut table, key).map_or(0, |bytes| value_of(&bytes)));
            assert!(found[1] >= *before && (found[0] == found[1] || found[0] == found[1] + 1), "{found:?}, {before}");
            drop(table);
            server.kill();
        }
        let (_, file) = backups.last().unwrap();
        let mut bytes = std::fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(file, bytes).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(restore_data(file, &directory).is_err(), "a damaged backup");
        assert!(!directory.exists());
    });
}

#[test]
fn damage_is_explained_and_repaired_by_order() {
    with_hub("damage_is_explained_and_repaired_by_order", || {
        let server = KvProcess::start("data always");
        let mut table = open("cluster", options(GetWay::Rpc));
        for number in 0..30_u64 {
            table.put(&number.to_le_bytes(), &[1; 100]).unwrap();
        }
        server.kill();
        let directory = data_directory();
        let logs = || {
            let names = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
            let mut names: Vec<PathBuf> = names.filter(|path| path.to_string_lossy().contains("/log-")).collect();
            names.sort();
            names
        };
        // A start makes another file, so the first one can have no torn end.
        let server = KvProcess::start("data always");
        drop(open("cluster", options(GetWay::Rpc)));
        server.kill();
        let first = logs().remove(0);
        let mut bytes = std::fs::read(&first).unwrap();
        bytes[2000] ^= 8;
        std::fs::write(&first, bytes).unwrap();
        let report = check_data(&directory).unwrap();
        assert!(!report.is_whole() && report.log.damage.is_some(), "{report:?}");
        let data = DataOptions::new(&directory);
        let tables =
            KvServer::builder().table("cluster", TableOptions::default()).table("small", TableOptions::default());
        let refused = tables.data(data).bind(support::ADDRESS);
        assert!(refused.unwrap_err().to_string().contains("is damaged at byte"));
        assert!(repair_data(&directory).unwrap().is_whole());
        let _server = KvProcess::start("data always");
        let keys = all(&mut open("cluster", options(GetWay::Rpc)));
        assert!(!keys.is_empty() && keys.len() < 30, "{} keys", keys.len());
    });
}

/// All keys and values of a table, in the order of keys.
fn all(table: &mut KvTable) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut keys, mut cursor) = (Vec::new(), 0);
    loop {
        let (some, next) = table.scan(cursor, 1000, b"").unwrap();
        keys.extend(some);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    keys.sort();
    keys.into_iter()
        .map(|key| {
            let value = get(table, &key).unwrap();
            (key, value)
        })
        .collect()
}

#[test]
fn everything_comes_back_after_restarts() {
    with_hub("everything_comes_back_after_restarts", || {
        let (mut versions, mut model) = (Vec::new(), std::collections::BTreeMap::new());
        for life in 0..4_u64 {
            let server = KvProcess::start("data always");
            let mut table = open("cluster", options(GetWay::OneSided));
            let found = all(&mut table);
            assert_eq!(found, model.clone().into_iter().collect::<Vec<_>>(), "life {life}");
            for number in 0..300_u64 {
                let (key, value) =
                    (format!("{}", (number * 7 + life) % 400).into_bytes(), bytes_of(number + life * 1000));
                versions.push(table.put(&key, &value).unwrap());
                model.insert(key, value);
                if number % 5 == 0 {
                    let gone = format!("{}", number % 400).into_bytes();
                    assert_eq!(table.delete(&gone).unwrap(), model.remove(&gone).is_some());
                }
            }
            // Longer than one message, and longer than a file of the log.
            let long = vec![life as u8; 5 << 20];
            table.put(b"long", &long).unwrap();
            model.insert(b"long".to_vec(), long);
            table.add(b"counter", 5).unwrap();
            model.insert(b"counter".to_vec(), (5 * (life + 1)).to_string().into_bytes());
            server.kill();
        }
        let count = versions.len();
        versions.sort_by_key(ToString::to_string);
        versions.dedup();
        assert_eq!(versions.len(), count, "no version comes again");
    });
}

#[test]
fn expiries_and_evictions_outlive_a_restart() {
    with_hub("expiries_and_evictions_outlive_a_restart", || {
        let server = KvProcess::start("data always");
        let mut table = open("cluster", options(GetWay::Rpc));
        let after = |time| PutExpiry::AfterNs(Duration::as_nanos(&time) as u64);
        table.put_with(b"short", b"1", PutIf::Always, after(Duration::from_millis(300))).unwrap();
        table.put_with(b"long", b"2", PutIf::Always, after(Duration::from_secs(3600))).unwrap();
        table.put(b"forever", b"3").unwrap();
        let mut small = open("small", options(GetWay::Rpc));
        for number in 0..3000_u32 {
            small.put(&number.to_le_bytes(), &[1; 1000]).unwrap();
        }
        let before = all(&mut small);
        assert!(before.len() < 1000, "{} keys", before.len());
        server.kill();
        std::thread::sleep(Duration::from_millis(300));
        let _server = KvProcess::start("data always");
        let mut table = open("cluster", options(GetWay::Rpc));
        assert_eq!(get(&mut table, b"short"), None);
        assert_eq!(get(&mut table, b"forever"), Some(b"3".to_vec()));
        match table.time_to_live(b"long").unwrap() {
            Some(TimeToLive::Left(left)) => {
                assert!(left < Duration::from_secs(3600) && left > Duration::from_secs(3000))
            }
            other => panic!("{other:?}"),
        }
        let mut small = open("small", options(GetWay::Rpc));
        let after = all(&mut small);
        // Keys that were evicted stay away. A few more may have made way.
        assert!(
            after.iter().all(|one| before.contains(one)) && after.len() * 10 > before.len() * 9,
            "{} of {}",
            after.len(),
            before.len()
        );
    });
}
