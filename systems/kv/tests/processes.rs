//! Servers that are stopped, killed and started again.

mod support;

use std::time::Duration;

use longarm_kv::{GetWay, KvError, KvOptions, PutExpiry, PutIf};
use support::{KvProcess, get, open, options, with_hub};

fn client(_: u32) {}

#[test]
fn clients_read_while_the_server_is_stopped() {
    with_hub("clients_read_while_the_server_is_stopped", || {
        let server = KvProcess::server();
        let mut table = open("cluster", KvOptions { timeout: Duration::from_millis(300), ..options(GetWay::OneSided) });
        for number in 0..1000_u32 {
            table.put(&number.to_le_bytes(), &[number as u8; 64]).unwrap();
        }
        table.put_with(b"soon", b"1", PutIf::Always, PutExpiry::AfterNs(400_000_000)).unwrap();
        table.put_with(b"late", b"2", PutIf::Always, PutExpiry::AfterNs(u64::MAX)).unwrap();
        assert_eq!(get(&mut table, &1_u32.to_le_bytes()).unwrap(), [1; 64]);
        server.stop();
        for number in 0..1000_u32 {
            assert_eq!(get(&mut table, &number.to_le_bytes()).unwrap(), [number as u8; 64]);
        }
        assert_eq!(get(&mut table, b"no such key"), None);
        assert_eq!(get(&mut table, b"late").unwrap(), b"2");
        // The server cannot remove it, and nobody takes it for live.
        testkit::wait_until("the key expires", || match table.get(b"soon") {
            Ok(found) => found.is_none(),
            // For a moment only the server could tell.
            Err(KvError::Server(_)) => false,
            Err(error) => panic!("{error}"),
        });
        assert!(matches!(table.put(b"key", b"value"), Err(KvError::Server(_))));
        server.go_on();
        testkit::wait_until("the server answers", || table.put(b"key", b"other").is_ok());
        assert_eq!(get(&mut table, b"key").unwrap(), b"other");
    });
}

#[test]
fn clients_find_a_server_that_was_killed_and_started_again() {
    with_hub("clients_find_a_server_that_was_killed_and_started_again", || {
        let mut server = KvProcess::server();
        let mut clients = GetWay::ALL.map(|way| open("cluster", options(way)));
        let mut versions = Vec::new();
        for life in 0..3_u8 {
            for (number, table) in clients.iter_mut().enumerate() {
                let key = [number as u8];
                // A new life has no keys. The first GET makes the connections anew: the memory of the life before is still
                // mapped here, and must not answer.
                assert_eq!(get(table, &key), None, "life {life}, {:?}", GetWay::ALL[number]);
                let version = table.insert(&key, &[life; 10]).unwrap();
                assert!(!versions.contains(&version), "a version came again");
                versions.push(version);
                assert_eq!(get(table, &key).unwrap(), [life; 10]);
            }
            server.kill();
            server = KvProcess::server();
        }
    });
}

#[test]
fn a_killed_server_is_reported_in_time() {
    with_hub("a_killed_server_is_reported_in_time", || {
        let server = KvProcess::server();
        for way in GetWay::ALL {
            let mut table = open("cluster", KvOptions { timeout: Duration::from_millis(500), ..options(way) });
            table.put(b"key", b"value").unwrap();
            assert_eq!(get(&mut table, b"key").unwrap(), b"value");
        }
        let mut table = open("cluster", KvOptions { timeout: Duration::from_millis(500), ..options(GetWay::OneSided) });
        server.kill();
        let gone = table.get(b"key");
        assert!(matches!(gone, Err(KvError::Server(_) | KvError::NotAttached(..))), "{gone:?}");
        let gone = table.put(b"key", b"value");
        assert!(matches!(gone, Err(KvError::Server(_))), "{gone:?}");
    });
}
