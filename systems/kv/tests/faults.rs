//! Clients that are killed and servers that are stopped in the middle: the histories of single keys stay linearizable.

#[path = "../src/sim/history.rs"]
mod history;
mod support;

use std::fmt::{Arguments, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use history::{KeyOp, Recorded, is_linearizable};
use longarm_kv::{GetWay, KvError, KvOptions, KvTable};
use rustix::time::{ClockId, clock_gettime};
use support::{KvProcess, open, options, with_hub};

const KEYS: usize = 6;
const CLIENTS: u32 = 4;
const ROUNDS: u64 = 12;
/// Clients with higher numbers use the tree.
const TREE: u32 = 100;
/// The client that changes other keys of the tree, so that its nodes split and merge.
const NEIGHBOUR: u32 = 199;

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The journal of a client's process.
fn journal(client: u32) -> PathBuf {
    PathBuf::from(std::env::var_os("LONGARM_RUNTIME_DIR").unwrap()).join(format!("journal-{client}"))
}

/// A client's process: random operations until it is killed. Each is in its journal before it begins, and after it ends.
pub(crate) fn client(number: u32) {
    let way = GetWay::ALL[number as usize % GetWay::ALL.len()];
    let layout = if number < TREE { "cluster" } else { "tree" };
    let mut table = open(layout, KvOptions { timeout: Duration::from_millis(400), ..options(way) });
    if number == NEIGHBOUR {
        change_neighbours(&mut table);
    }
    let mut file = File::options().create(true).append(true).open(journal(number)).unwrap();
    let mut random = fastrand::Rng::with_seed(u64::from(number) + now());
    let mut value = (u64::from(std::process::id()) << 32) + 1;
    loop {
        value += 1;
        let (key, kind) = (random.usize(..KEYS), random.u8(..8));
        note(&mut file, format_args!("begin {key} {kind} {value} {}", now()));
        let name = format!("key {key}");
        let outcome = if number >= TREE && kind == 7 {
            get_by_range(&mut table, name.as_bytes())
        } else {
            operate(&mut table, name.as_bytes(), kind, value)
        };
        let ended = now();
        match outcome {
            Ok(outcome) => note(&mut file, format_args!("end {outcome} {ended}")),
            // A server that was stopped for long refuses what may have waited for it longer than its caller does.
            Err(KvError::Server(status)) if status.can_repeat() => note(&mut file, format_args!("nothing")),
            Err(KvError::Server(_) | KvError::NotAttached(..)) => note(&mut file, format_args!("unknown")),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Adds a line by one system call, so that a client which is killed leaves no half of a line.
fn note(file: &mut File, line: Arguments<'_>) {
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Executes an operation, and tells the outcome as a number.
fn operate(table: &mut KvTable, key: &[u8], kind: u8, value: u64) -> Result<u64, KvError> {
    // Values of different lengths, so that objects change their places.
    let bytes = value.to_le_bytes().repeat(1 + value as usize % 40);
    match kind {
        0 => table.delete(key).map(u64::from),
        1 => match table.insert(key, &bytes) {
            Ok(_) => Ok(1),
            Err(KvError::Conflict(Some(_))) => Ok(0),
            Err(error) => Err(error),
        },
        2 | 3 => table.put(key, &bytes).map(|_| 0),
        _ => Ok(table.get(key)?.map_or(0, |found| {
            let first = u64::from_le_bytes(found.bytes[..8].try_into().unwrap());
            assert!(found.bytes == first.to_le_bytes().repeat(1 + first as usize % 40), "a torn value");
            first
        })),
    }
}

/// GETs a key as the only one of a range.
fn get_by_range(table: &mut KvTable, key: &[u8]) -> Result<u64, KvError> {
    let items = table.range(key..=key, 10)?;
    assert!(items.len() <= 1 && items.iter().all(|item| item.key == key));
    Ok(items.first().map_or(0, |item| u64::from_le_bytes(item.value[..8].try_into().unwrap())))
}

/// Puts and deletes keys between those of the others, until the process is killed.
fn change_neighbours(table: &mut KvTable) -> ! {
    let names: Vec<String> = (0..KEYS).flat_map(|key| (0..60).map(move |other| format!("key {key} {other}"))).collect();
    loop {
        // The server may be away. Then some are left out.
        let _ = table.multi_put(names.len(), |number| (names[number].as_bytes(), b"neighbour"));
        names.iter().for_each(|name| drop(table.delete(name.as_bytes())));
    }
}

/// The operations of a journal, by key. The last one of a client that was killed has no end.
fn read_journal(client: u32, histories: &mut [Vec<Recorded>]) -> usize {
    let text = std::fs::read_to_string(journal(client)).unwrap_or_default();
    let (mut begun, mut count) = (None::<[u64; 4]>, 0);
    let mut add = |[key, kind, value, begin]: [u64; 4], outcome: Option<(u64, u64)>| {
        let (result, end) = (outcome.map_or(1, |(result, _)| result), outcome.map(|(_, end)| end));
        let op = match kind {
            0 => KeyOp::Delete(result == 1),
            1 => KeyOp::Insert(value, result == 1),
            2 | 3 => KeyOp::Put(value),
            _ if end.is_none() => return,
            _ => KeyOp::Get((result != 0).then_some(result)),
        };
        histories[key as usize].push(Recorded { op, begin, end });
        count += 1;
    };
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Vec<u64> = rest.split(' ').filter_map(|number| number.parse().ok()).collect();
        match (word, numbers[..].try_into().ok(), &numbers[..]) {
            ("begin", Some(all), _) => begun.replace(all).into_iter().for_each(|open| add(open, None)),
            ("nothing", ..) => begun = None,
            ("end", _, [result, end]) => add(begun.take().unwrap(), Some((*result, *end))),
            ("unknown", ..) => {}
            _ => panic!("no line of a journal: {line:?}"),
        }
    }
    begun.into_iter().for_each(|open| add(open, None));
    count
}

fn show(history: &[Recorded]) -> String {
    let mut text = String::new();
    let mut sorted = history.to_vec();
    sorted.sort_by_key(|one| one.begin);
    sorted.iter().for_each(|one| writeln!(text, "{one:?}").unwrap());
    text
}

#[test]
fn histories_are_linearizable_while_clients_die_and_the_server_stands() {
    with_hub("histories_are_linearizable_while_clients_die_and_the_server_stands", || {
        let server = KvProcess::server();
        record_and_check(&server, 0);
    });
}

#[test]
fn histories_of_a_tree_are_linearizable_while_its_nodes_split_and_merge() {
    with_hub("histories_of_a_tree_are_linearizable_while_its_nodes_split_and_merge", || {
        let server = KvProcess::server();
        let neighbour = KvProcess::start(&format!("client {NEIGHBOUR}"));
        record_and_check(&server, TREE);
        neighbour.kill();
    });
}

/// Kills clients, whose numbers begin at `base`, and stops the server. Checks the histories of all keys.
fn record_and_check(server: &KvProcess, base: u32) {
    let start = |number: u32| Some(KvProcess::start(&format!("client {}", base + number)));
    let mut clients: Vec<Option<KvProcess>> = (0..CLIENTS).map(start).collect();
    for round in 0..ROUNDS {
        std::thread::sleep(Duration::from_millis(40 + round * 7));
        server.stop();
        // Shorter and longer than the patience of clients.
        std::thread::sleep(Duration::from_millis(if round % 4 == 3 { 600 } else { 30 }));
        server.go_on();
        let victim = (round % u64::from(CLIENTS)) as u32;
        if let Some(client) = clients[victim as usize].take() {
            client.kill();
        }
        clients[victim as usize] = start(victim);
    }
    clients.into_iter().flatten().for_each(KvProcess::kill);
    let mut histories = vec![Vec::new(); KEYS];
    let count: usize = (0..CLIENTS).map(|client| read_journal(base + client, &mut histories)).sum();
    let unknown = histories.iter().flatten().filter(|one| one.end.is_none()).count();
    println!("{count} operations, {unknown} of unknown outcome");
    assert!(count > 40, "{count} operations");
    for (key, history) in histories.iter().enumerate() {
        assert!(is_linearizable(history), "key {key}:\n{}", show(history));
    }
}

#[test]
fn the_checker_finds_histories_that_are_wrong() {
    let at = |op, begin, end| Recorded { op, begin, end: Some(end) };
    let right = [
        at(KeyOp::Put(1), 0, 10),
        at(KeyOp::Get(None), 1, 3),
        at(KeyOp::Get(Some(1)), 2, 9),
        at(KeyOp::Delete(true), 20, 30),
        at(KeyOp::Get(Some(1)), 21, 29),
        at(KeyOp::Insert(2, true), 31, 40),
        at(KeyOp::Insert(3, false), 41, 50),
    ];
    assert!(is_linearizable(&right));
    // A stale read, a read from the future, a lost update, an insertion that saw nothing.
    for wrong in [
        [at(KeyOp::Put(1), 0, 1), at(KeyOp::Put(2), 2, 3), at(KeyOp::Get(Some(1)), 4, 5)],
        [at(KeyOp::Get(Some(1)), 0, 1), at(KeyOp::Put(1), 2, 3), at(KeyOp::Get(Some(1)), 4, 5)],
        [at(KeyOp::Put(1), 0, 1), at(KeyOp::Get(None), 2, 3), at(KeyOp::Get(Some(1)), 2, 5)],
        [at(KeyOp::Put(1), 0, 1), at(KeyOp::Insert(2, true), 2, 3), at(KeyOp::Get(Some(2)), 4, 5)],
    ] {
        assert!(!is_linearizable(&wrong), "{wrong:?}");
    }
    let unknown = Recorded { op: KeyOp::Put(7), begin: 5, end: None };
    assert!(is_linearizable(&[unknown, at(KeyOp::Get(None), 6, 7), at(KeyOp::Get(Some(7)), 90, 91)]));
    assert!(is_linearizable(&[unknown, at(KeyOp::Get(None), 90, 91)]));
    assert!(!is_linearizable(&[unknown, at(KeyOp::Get(Some(7)), 1, 2)]), "before its begin");
    let comes_and_goes = [unknown, at(KeyOp::Get(Some(7)), 6, 7), at(KeyOp::Get(None), 8, 9)];
    assert!(!is_linearizable(&comes_and_goes));
}
