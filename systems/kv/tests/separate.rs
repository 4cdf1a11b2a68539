//! Servers whose tables another process exposes. Clients read over packets while the server is stopped, and after it was killed.

mod support;

use std::time::Duration;

use longarm_kv::{GetWay, KvError, KvOptions, KvServer, KvTable, TableOptions, TableSecret, serve_memory};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use support::{ADDRESS, KvProcess, PATIENCE, SECRET, get, open, options};

fn client(_: u32) {}

/// Runs `body` with a hub and a namespace, over packets: there a process that is stopped answers no READ.
fn with_hub(test: &str, body: impl FnOnce()) {
    match testkit::role().as_deref() {
        None => {
            let mut body = testkit::run_again(test, "body");
            body.env("LONGARM_LOCAL", "off");
            hub::testing::passes_with_hub(&format!("kv-{test}"), body);
        }
        Some("body") => body(),
        Some("memory") => serve_memory().unwrap(),
        Some(role) => {
            set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
            let secret = Some(TableSecret::new(SECRET).unwrap());
            let builder = KvServer::builder()
                .table("plain", TableOptions::default())
                .table("secret", TableOptions { secret, ..TableOptions::default() });
            let builder =
                if role == "separate" { builder.separate_memory(testkit::run_again(test, "memory")) } else { builder };
            builder.bind(ADDRESS).unwrap().wait();
        }
    }
}

/// A client that gives up soon when it has to wait for the server.
fn hasty() -> KvOptions {
    KvOptions { timeout: Duration::from_millis(500), ..options(GetWay::OneSided) }
}

fn reads_all(table: &mut KvTable) {
    for number in 0..200_u32 {
        assert_eq!(get(table, &number.to_le_bytes()).unwrap(), [number as u8; 64]);
    }
    assert_eq!(get(table, b"no such key"), None);
}

fn fill() -> KvTable {
    let mut table = open("plain", options(GetWay::OneSided));
    for number in 0..200_u32 {
        table.put(&number.to_le_bytes(), &[number as u8; 64]).unwrap();
    }
    table
}

/// Processes that run this test's memory, as the kernel lists them.
fn memory_processes() -> Vec<Pid> {
    let is_memory = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let directory = std::env::var("LONGARM_RUNTIME_DIR").unwrap();
        let has = |words: &str| environment.windows(words.len()).any(|part| part == words.as_bytes());
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        has("=memory\0") && has(&directory) && !stat.contains(") Z")
    };
    let numbers =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    numbers.filter(is_memory).filter_map(Pid::from_raw).collect()
}

#[test]
fn clients_read_over_packets_while_the_server_is_stopped_and_after_its_death() {
    with_hub("clients_read_over_packets_while_the_server_is_stopped_and_after_its_death", || {
        let server = KvProcess::start("separate");
        let mut writer = fill();
        let mut table = open("plain", hasty());
        reads_all(&mut table);
        server.stop();
        reads_all(&mut table);
        assert!(matches!(table.put(b"key", b"value"), Err(KvError::Server(_))));
        server.go_on();
        writer.put(b"key", b"value").unwrap();
        assert_eq!(get(&mut table, b"key").unwrap(), b"value");
        server.kill();
        reads_all(&mut table);
        assert!(matches!(table.put(b"key", b"other"), Err(KvError::Server(_))));
        assert_eq!(get(&mut table, b"key").unwrap(), b"value");
        // The next server has no keys, and nobody reads those of the last one beside it.
        let server = KvProcess::start("separate");
        let mut fresh = open("plain", options(GetWay::OneSided));
        assert_eq!(memory_processes().len(), 1);
        fresh.put(b"key", b"new").unwrap();
        for table in [&mut writer, &mut table] {
            testkit::wait_until("the client finds the new server", || match table.get(b"key") {
                Ok(Some(value)) => value.bytes == b"new",
                Ok(None) => panic!("the key is there"),
                Err(_) => false,
            });
            assert_eq!(get(table, &7_u32.to_le_bytes()), None);
        }
        // So it is with a server that exposes its tables itself.
        server.kill();
        let _server = KvProcess::start("server");
        drop(open("plain", options(GetWay::OneSided)));
        testkit::wait_until("the client finds the third server", || matches!(table.get(b"key"), Ok(None)));
        assert_eq!(memory_processes(), []);
    });
}

#[test]
fn the_server_starts_another_memory_process_when_one_is_killed() {
    with_hub("the_server_starts_another_memory_process_when_one_is_killed", || {
        let _server = KvProcess::start("separate");
        let mut table = fill();
        for _ in 0..3 {
            let processes = memory_processes();
            assert_eq!(processes.len(), 1);
            kill_process(processes[0], Signal::KILL).unwrap();
            // Nothing is lost, and the client's right is still good.
            reads_all(&mut table);
            let reads = table.stats().reads;
            reads_all(&mut table);
            assert!(table.stats().reads > reads, "by READs");
            assert_ne!(memory_processes(), processes);
        }
    });
}

#[test]
fn a_revoked_client_reads_nothing_more_though_the_memory_process_stands() {
    with_hub("a_revoked_client_reads_nothing_more_though_the_memory_process_stands", || {
        let _server = KvProcess::start("separate");
        let secret = || KvOptions { secret: Some(TableSecret::new(SECRET).unwrap()), ..options(GetWay::OneSided) };
        let [mut one, mut two, mut three] = [(); 3].map(|()| open("secret", secret()));
        one.put(b"key", b"value").unwrap();
        for table in [&mut one, &mut two, &mut three] {
            assert_eq!(get(table, b"key").unwrap(), b"value");
        }
        assert_eq!(one.clients().unwrap().iter().filter(|client| client.address.is_some()).count(), 3);
        assert_eq!(one.revoke(two.client()).unwrap(), 1);
        assert!(matches!(two.get(b"key"), Err(KvError::Revoked)));
        assert_eq!(get(&mut three, b"key").unwrap(), b"value");
        kill_process(memory_processes()[0], Signal::STOP).unwrap();
        assert_eq!(one.revoke(three.client()).unwrap(), 1);
        assert!(matches!(three.get(b"key"), Err(KvError::Revoked)));
        assert_eq!(get(&mut one, b"key").unwrap(), b"value");
        // A client of another table gets no further than its own.
        let mut other =
            KvTable::open(ADDRESS, "plain", KvOptions { timeout: PATIENCE, ..KvOptions::default() }).unwrap();
        assert_eq!(get(&mut other, b"key"), None);
    });
}

/// The process that exposes the memory knows no tables, so its device carries out no GETs.
#[test]
fn gets_by_calls_are_refused_there() {
    with_hub("gets_by_calls_are_refused_there", || {
        let _server = KvProcess::start("separate");
        drop(open("plain", options(GetWay::OneSided)));
        let refused = KvTable::open(ADDRESS, "plain", options(GetWay::Device)).map(|_| ());
        assert!(matches!(refused, Err(KvError::NoDeviceGets(_))), "{refused:?}");
    });
}
