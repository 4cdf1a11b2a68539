//! Processes of a test: an owner that writes all the time, and the reader in the test itself.
#![allow(dead_code, reason = "each test file uses a part")]

use std::process::Child;
use std::time::{Duration, Instant};

use longarm::connection::Route;
use longarm::{Access, Connection, Listener, ProtectionDomain, RemoteKey};
use longarm_remote::{
    AtomicReads, Cluster, Crc64, OwnerOptions, ReaderOptions, TableMemory, TableOwner, TableReader, TornCheck,
    TreeOptions, TreeOwner,
};
use rustix::process::Signal;

/// Patience: other programs share the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const ADDRESS: &str = "127.0.0.1:7471";
/// Keys that are always there.
pub(crate) const KEYS: u32 = 400;
const MEMORY_BYTES: usize = 16 << 20;

/// A reader of the owner's table.
pub(crate) type TestReader = TableReader<Connection, Cluster, Crc64>;

/// Runs `body` with a hub and a namespace. To be called from the test function of that name itself. In a process that
/// [`OwnerProcess`] started, it runs that process's part instead.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    match testkit::role().as_deref() {
        None => hub::testing::passes_with_hub(&format!("remote-{test}"), testkit::run_again(test, "body")),
        Some("body") => body(),
        Some(role) => {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
            match role {
                "tree" => own_tree(),
                "atomic" => own::<AtomicReads>(true),
                _ => own::<Crc64>(role == "writer"),
            }
        }
    }
}

/// The owner's process. Dropping it kills it.
pub(crate) struct OwnerProcess(Child);

impl OwnerProcess {
    /// An owner that changes its table until it is killed (`writer`), or leaves that to peers (`idle`).
    pub(crate) fn start(role: &str) -> OwnerProcess {
        let test = std::thread::current().name().expect("the thread of a test").to_owned();
        OwnerProcess(testkit::run_again(&test, role).spawn().unwrap())
    }

    /// Stops it wherever it is, and returns when all its threads stand.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.0.id());
        testkit::wait_until("the owner stands", || {
            std::fs::read_dir(&tasks).unwrap().all(|task| {
                let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
                stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
            })
        });
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for OwnerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The key with a number.
pub(crate) fn key(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// A value of a round: its number, and bytes that follow from it. Values of one key have many lengths.
pub(crate) fn value(key: u32, round: u64) -> Vec<u8> {
    let len_bytes = 8 + (u64::from(key) * 37 + round * 11) % 900;
    let filler = (round as u8).wrapping_mul(31).wrapping_add(key as u8);
    round.to_le_bytes().into_iter().chain((8..len_bytes).map(|_| filler)).collect()
}

/// The round of a value, which must be whole.
pub(crate) fn round_of(key: u32, bytes: &[u8]) -> u64 {
    let round = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == value(key, round), "key {key}: a torn value of round {round}");
    round
}

/// The owner: a table, a thread for connections, and rounds of puts, deletes and growth.
fn own<C: TornCheck>(writes: bool) {
    let listener = testkit::wait_for("the address is free", || Listener::bind(ADDRESS).wait(PATIENCE).ok());
    let domain = listener.open_device().unwrap().protection_domain().unwrap();
    let memory = TableMemory::writable(&domain, MEMORY_BYTES).unwrap();
    let key_bytes = memory.key().to_bytes();
    let options = OwnerOptions { keys: 64, in_place_bytes: 600, ..OwnerOptions::default() };
    let mut table = TableOwner::<_, Cluster, C>::create(&memory, options).unwrap();
    for number in 0..KEYS {
        table.put(&key(number), &value(number, 0)).unwrap();
    }
    accept(listener, domain, key_bytes);
    let began = Instant::now();
    for round in 1.. {
        if !writes {
            std::thread::park();
        }
        table.set_now(began.elapsed().as_nanos() as u64);
        for number in 0..KEYS {
            table.put(&key(number), &value(number, round)).unwrap();
            // Keys that come and go, so that blocks change hands.
            let guest = format!("guest {}", number % 50).into_bytes();
            match round % 2 {
                0 => assert!(table.delete(&guest).is_ok()),
                _ => assert!(table.put(&guest, &value(number, round)).is_ok()),
            }
        }
    }
}

/// Accepts connections, in a thread.
fn accept(listener: Listener, domain: ProtectionDomain, key_bytes: [u8; RemoteKey::ENCODED_BYTES]) {
    std::thread::spawn(move || {
        let cq = domain.device().completion_queue().unwrap();
        let mut connections = Vec::new();
        while let Ok(incoming) = listener.incoming().wait(Duration::from_secs(3600)) {
            let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
            connections.extend(incoming.accept(domain.rc(&cq).remote_access(access), &key_bytes).wait(PATIENCE));
        }
    });
}

/// The owner of a tree: crowds of guests come and go among the keys, so that nodes are split and merged all the time.
fn own_tree() {
    let listener = testkit::wait_for("the address is free", || Listener::bind(ADDRESS).wait(PATIENCE).ok());
    let domain = listener.open_device().unwrap().protection_domain().unwrap();
    let memory = TableMemory::readable(&domain, MEMORY_BYTES).unwrap();
    let options = TreeOptions { in_place_bytes: 600, ..TreeOptions::default() };
    let mut tree = TreeOwner::<_, Crc64>::create(&memory, options).unwrap();
    for number in 0..KEYS {
        tree.put(&key(number), &value(number, 0)).unwrap();
    }
    accept(listener, domain, memory.key().to_bytes());
    let began = Instant::now();
    for round in 1.. {
        for number in 0..KEYS {
            tree.set_now(began.elapsed().as_nanos() as u64);
            tree.put(&key(number), &value(number, round)).unwrap();
            if number % 20 == round as u32 % 20 {
                let guest = |guest: u32| format!("key {number} guest {guest:03}").into_bytes();
                let nodes = tree.nodes();
                (0..80).for_each(|name| assert!(tree.put(&guest(name), b"guest").is_ok()));
                assert!(tree.nodes() > nodes);
                (0..80).for_each(|name| assert_eq!(tree.delete(&guest(name)), Ok(true)));
            }
        }
    }
}

/// A reader of the owner's table, as soon as that listens.
pub(crate) fn reader(options: ReaderOptions) -> TestReader {
    let (qp, key) = connect();
    TableReader::new(qp, key, options).unwrap()
}

/// A connection to the owner, as soon as that listens, and the key to its memory.
pub(crate) fn connect() -> (Connection, RemoteKey) {
    let connect = || {
        let device = Route::to(ADDRESS).wait(PATIENCE).ok()?.open_device().ok()?;
        let (domain, cq) = (device.protection_domain().ok()?, device.completion_queue().ok()?);
        longarm::connect(ADDRESS, domain.rc(&cq), b"").wait(PATIENCE).ok()
    };
    let qp = testkit::wait_for("the owner listens", connect);
    let key = RemoteKey::from_bytes(&qp.private_data()[..RemoteKey::ENCODED_BYTES]).unwrap();
    (qp, key)
}
