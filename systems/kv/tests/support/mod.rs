//! Processes of a test: a server with tables, and clients in the test itself.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longarm_kv::{DataOptions, GetWay, KvLayout, KvOptions, KvServer, KvTable, TableOptions, TableSecret, WhenFull};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

/// Patience: other programs share the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const ADDRESS: &str = "127.0.0.1:7480";
/// The secret of the table `secret`.
pub(crate) const SECRET: &[u8] = b"a secret of the test itself";

/// Runs `body` with a hub and a namespace. To be called from the test function of that name itself. In a process that
/// [`KvProcess`] started, it runs that process's part instead.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    match testkit::role().as_deref() {
        None => hub::testing::passes_with_hub(&format!("kv-{test}"), testkit::run_again(test, "body")),
        Some("body") => body(),
        Some(role) => {
            set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
            match role.strip_prefix("client ") {
                Some(number) => crate::client(number.parse().unwrap()),
                None => match role.strip_prefix("data ") {
                    Some(rule) => serve_from_disk(rule),
                    None => serve(),
                },
            }
        }
    }
}

/// A server with one table of each layout, one with a secret, and a small one.
fn serve() {
    let table = |layout| TableOptions { layout, max_bytes: 128 << 20, keys: 64, ..TableOptions::default() };
    let mut builder = KvServer::builder();
    for layout in KvLayout::ALL {
        builder = builder.table(layout.name(), table(layout));
    }
    for layout in [KvLayout::Cluster, KvLayout::Hopscotch, KvLayout::Cuckoo] {
        let lease = Duration::from_millis(150);
        builder = builder.table(writable(layout), TableOptions { writable: true, lease, ..table(layout) });
    }
    let secret = Some(TableSecret::new(SECRET).unwrap());
    let small = TableOptions { max_bytes: 2 << 20, ..TableOptions::default() };
    let server = builder
        .table("secret", TableOptions { secret, ..small.clone() })
        .table("small", small.clone())
        .table("strict", TableOptions { when_full: WhenFull::Refuse, ..small })
        .bind(ADDRESS)
        .unwrap();
    server.wait();
}

/// The directory of a server that keeps its tables on disk.
pub(crate) fn data_directory() -> PathBuf {
    PathBuf::from(std::env::var_os("LONGARM_RUNTIME_DIR").unwrap()).join("data")
}

/// A server whose tables are on disk.
fn serve_from_disk(rule: &str) {
    // Small files, so that snapshots happen all the time.
    let (snapshot_bytes, segment_bytes) = (64 << 10, 16 << 10);
    let fsync = rule.parse().unwrap();
    let data = DataOptions { fsync, snapshot_bytes, segment_bytes, ..DataOptions::new(data_directory()) };
    let options = TableOptions { max_bytes: 16 << 20, keys: 64, ..TableOptions::default() };
    let small = TableOptions { max_bytes: 1 << 20, ..options.clone() };
    let server = KvServer::builder().table("cluster", options).table("small", small).data(data).bind(ADDRESS);
    server.unwrap().wait();
}

/// The name of the table of a layout into which clients write.
pub(crate) fn writable(layout: KvLayout) -> String {
    format!("writable {layout}")
}

/// A process of the test. Dropping it kills it.
pub(crate) struct KvProcess(Child);

impl KvProcess {
    pub(crate) fn server() -> KvProcess {
        KvProcess::start("server")
    }

    pub(crate) fn start(role: &str) -> KvProcess {
        let test = std::thread::current().name().expect("the thread of a test").to_owned();
        KvProcess(testkit::run_again(&test, role).spawn().unwrap())
    }

    /// Stops it wherever it is, and returns when all its threads stand.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.0.id());
        testkit::wait_until("the process stands", || {
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

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits until it ends by itself, and tells whether all went well.
    pub(crate) fn ends_well(&mut self) -> bool {
        testkit::wait_for("the process ends", || self.0.try_wait().unwrap()).success()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for KvProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sets a mark when it is dropped, also by a panic: so threads that wait for the mark end with the test.
pub(crate) struct MarkAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for MarkAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn options(get: GetWay) -> KvOptions {
    KvOptions { get, timeout: PATIENCE, ..KvOptions::default() }
}

/// A client of a table of a server that may just be starting.
pub(crate) fn open(table: &str, options: KvOptions) -> KvTable {
    testkit::wait_for("the server listens", || KvTable::open(ADDRESS, table, options.clone()).ok())
}

/// The value of a key.
pub(crate) fn get(table: &mut KvTable, key: &[u8]) -> Option<Vec<u8>> {
    table.get(key).unwrap().map(|value| value.bytes)
}
