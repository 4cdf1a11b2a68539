//! One benchmark for all layouts: lookups on a queue pair within one host, beside a plain READ.
//!
//! ```text
//! cargo run --release -p longarm-remote --example layouts
//! ```
//! Both ends are in this process, so no other program's turn counts. A READ copies from the owner's memory at once.

use std::error::Error;
use std::time::{Duration, Instant};

use longarm::{Connection, Listener, ProtectionDomain, RemoteKey};
use longarm_remote::{
    Cluster, Crc64, Cuckoo, Hopscotch, KeyRange, OwnerOptions, ReaderOptions, TableLayout, TableMemory, TableOwner,
    TableReader, TreeOptions, TreeOwner, TreeReader,
};

const PATIENCE: Duration = Duration::from_secs(10);
const KEYS: u64 = 48 << 10;
const SLOTS: u64 = 64 << 10;
const VALUE: [u8; 64] = [7; 64];

fn main() -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind("127.0.0.1:0").wait(PATIENCE)?;
    let domain = listener.open_device()?.protection_domain()?;
    println!("{KEYS} keys in {SLOTS} slots, values of {} B; ns and READs for each lookup\n", VALUE.len());
    println!("{:22} {:>8} {:>8}", "", "ns", "READs");
    plain_read(&listener, &domain)?;
    layout::<Cluster>(&listener, &domain)?;
    layout::<Hopscotch>(&listener, &domain)?;
    layout::<Cuckoo>(&listener, &domain)?;
    tree(&listener, &domain)
}

/// Both ends of a connection: the reader's, and the owner's.
fn connect(listener: &Listener, domain: &ProtectionDomain) -> Result<(Connection, Connection), Box<dyn Error>> {
    let cq = domain.device().completion_queue()?;
    let reader = longarm::connect(listener.local_addr(), domain.rc(&cq), b"");
    let owner = listener.incoming().wait(PATIENCE)?.accept(domain.rc(&cq), b"").wait(PATIENCE)?;
    Ok((reader.wait(PATIENCE)?, owner))
}

fn tell(what: &str, count: u64, began: Instant, reads: u64) {
    let each = began.elapsed().as_nanos() as f64 / count as f64;
    println!("{what:22} {each:8.0} {:8.3}", reads as f64 / count as f64);
}

/// READs of as many bytes as an object has, all over the memory: the floor.
fn plain_read(listener: &Listener, domain: &ProtectionDomain) -> Result<(), Box<dyn Error>> {
    let (reader, _owner) = connect(listener, domain)?;
    let memory = TableMemory::readable(domain, 64 << 20)?;
    let all: RemoteKey = memory.key();
    let mut buffer = domain.allocate(128)?;
    let mut began = Instant::now();
    // The first round touches the memory.
    for number in 0..2 * KEYS {
        if number == KEYS {
            began = Instant::now();
        }
        let key = all.at(number * 7919 % KEYS * 128, 128)?;
        buffer = reader.read(buffer, &key).wait(PATIENCE)?;
    }
    tell("READ of 128 B", KEYS, began, KEYS);
    let mut bytes = [0; 128];
    for number in 0..2 * KEYS {
        if number == KEYS {
            began = Instant::now();
        }
        let key = all.at(number * 7919 % KEYS * 128, 128)?;
        assert!(reader.read_now(&mut bytes, &key), "both ends are in one process");
    }
    tell("READ at once", KEYS, began, KEYS);
    Ok(())
}

fn layout<L: TableLayout>(listener: &Listener, domain: &ProtectionDomain) -> Result<(), Box<dyn Error>> {
    let memory = TableMemory::readable(domain, 64 << 20)?;
    let options = OwnerOptions { keys: SLOTS, ..OwnerOptions::default() };
    let mut table = TableOwner::<_, L, Crc64>::create(&memory, options)?;
    let began = Instant::now();
    for key in 0..KEYS {
        table.put(&key.to_le_bytes(), &VALUE)?;
    }
    tell(&format!("{}: insert", L::NAME), KEYS, began, 0);
    let (reader, _owner) = connect(listener, domain)?;
    let options = ReaderOptions { locations: KEYS as usize * 2, ..ReaderOptions::default() };
    let mut reader = TableReader::<_, L, Crc64>::new(reader, memory.key(), options)?;
    let mut value = Vec::new();
    for what in ["get", "get, place known"] {
        let (began, before) = (Instant::now(), reader.stats().reads);
        for key in 0..KEYS {
            let found = reader.get(&key.to_le_bytes(), &mut value)?;
            assert!(found.is_some() && value == VALUE);
        }
        tell(&format!("{}: {what}", L::NAME), KEYS, began, reader.stats().reads - before);
    }
    let keys: Vec<[u8; 8]> = (0..KEYS).map(u64::to_le_bytes).collect();
    let (began, before, mut found) = (Instant::now(), reader.stats().reads, 0);
    reader.multi_get(&keys, |_, object| found += u64::from(object.is_some_and(|object| object.value == VALUE)))?;
    assert_eq!(found, KEYS);
    tell(&format!("{}: multi-get, known", L::NAME), KEYS, began, reader.stats().reads - before);
    Ok(())
}

/// The tree: lookups, and scans of a hundred keys.
fn tree(listener: &Listener, domain: &ProtectionDomain) -> Result<(), Box<dyn Error>> {
    let memory = TableMemory::readable(domain, 64 << 20)?;
    let mut tree = TreeOwner::<_, Crc64>::create(&memory, TreeOptions::default())?;
    let mut began = Instant::now();
    for key in 0..KEYS {
        tree.set_now(began.elapsed().as_nanos() as u64);
        tree.put(&mixed(key), &VALUE)?;
    }
    tell("tree: insert", KEYS, began, 0);
    let (reader, _owner) = connect(listener, domain)?;
    let options = ReaderOptions { locations: KEYS as usize * 2, ..ReaderOptions::default() };
    let mut reader = TreeReader::<_, Crc64>::new(reader, memory.key(), options)?;
    let mut value = Vec::new();
    for what in ["tree: get", "tree: get, place known"] {
        let before = reader.stats().reads;
        began = Instant::now();
        for key in 0..KEYS {
            assert!(reader.get(&mixed(key), &mut value)?.is_some() && value == VALUE);
        }
        tell(what, KEYS, began, reader.stats().reads - before);
    }
    let (before, mut found) = (reader.stats().reads, 0);
    began = Instant::now();
    for key in 0..KEYS / 64 {
        reader.scan(&KeyRange::of(mixed(key).as_slice()..), 100, |_| found += 1)?;
    }
    tell("tree: scan, each key", found, began, reader.stats().reads - before);
    Ok(())
}

/// Keys in an order that looks random.
fn mixed(key: u64) -> [u8; 8] {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}
