//! Three servers of one cluster, and the clients of Redis Cluster that people use.

mod support;
#[path = "support/trio.rs"]
mod trio;

use std::process::Command;

use longarm_kv::{KvCluster, KvOptions};
use redis::Commands;
use redis::cluster::ClusterClient;
use support::{Raw, drivers, run_driver, with_hub};
use trio::{TRIO, open_trio};

/// Keys of slots 12182, 5061 and 866: of the third, the first and the first server.
const FOO: &str = "foo";
const BAR: &str = "bar";

fn program(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(name).args(arguments).output();
    testkit::said(&output.expect("redis-cli and redis-benchmark are installed (Debian package redis-tools)"))
}

#[test]
fn redis_cli_follows_to_the_right_server_and_rdma_clients_see_it() {
    with_hub("redis_cli_follows_to_the_right_server_and_rdma_clients_see_it", || {
        let _doors = open_trio();
        let cli = |words: &[&str]| program("redis-cli", &[&["-p", "7001", "-c"], words].concat());
        for key in [FOO, BAR, "hello", "{x}1"] {
            assert!(cli(&["set", key, "by redis-cli"]).contains("OK"), "{key}");
            assert!(cli(&["get", key]).contains("by redis-cli"), "{key}");
        }
        assert!(cli(&["mset", "{x}1", "1", "{x}2", "2"]).contains("OK"));
        assert!(cli(&["mset", FOO, "1", BAR, "2"]).contains("CROSSSLOT"));
        // Without -c it shows the refusal.
        let refused = program("redis-cli", &["-p", "7001", "get", FOO]);
        assert!(refused.contains("MOVED 12182 127.0.0.1:7003"), "{refused}");
        let mut cluster = KvCluster::open(&[TRIO[0].1], "default", KvOptions::default()).unwrap();
        let found = cluster.with(FOO.as_bytes(), |table| table.get(FOO.as_bytes())).unwrap();
        assert_eq!(found.unwrap().bytes, b"by redis-cli");
        let check = program("redis-cli", &["--cluster", "check", "127.0.0.1:7002"]);
        assert!(check.contains("[OK] All 16384 slots covered"), "{check}");
    });
}

#[test]
fn redis_benchmark_finds_all_three() {
    with_hub("redis_benchmark_finds_all_three", || {
        let doors = open_trio();
        let counts = || doors.iter().map(|door| door.door.counts().commands).collect::<Vec<_>>();
        let arguments = ["-p", "7002", "--cluster", "-c", "12", "-P", "8", "-n", "20000", "-t", "set,get,incr", "-q"];
        let said = program("redis-benchmark", &arguments);
        assert!(said.contains("Master 2") && said.contains("INCR: ") && !said.contains("Error"), "{said}");
        testkit::wait_until("each server has executed its part", || counts().iter().all(|count| *count > 10_000));
    });
}

#[test]
fn the_cluster_client_of_the_crate_redis_works() {
    with_hub("the_cluster_client_of_the_crate_redis_works", || {
        let _doors = open_trio();
        for protocol in ["resp2", "resp3"] {
            let client = ClusterClient::new(vec![format!("redis://{}/?protocol={protocol}", TRIO[1].2)]).unwrap();
            let mut connection = client.get_connection().unwrap();
            for number in 0..300_i64 {
                let key = format!("{protocol}:{number}");
                let _: () = connection.set(&key, number).unwrap();
                let sum: i64 = connection.incr(&key, 5).unwrap();
                assert_eq!(sum, number + 5);
            }
            let keys: Vec<String> = (0..300).map(|number| format!("{protocol}:{number}")).collect();
            // The client splits this by servers.
            let values: Vec<i64> = connection.mget(&keys).unwrap();
            assert_eq!(values, (5..305).collect::<Vec<_>>());
            let removed: i64 = connection.del(&keys).unwrap();
            assert_eq!(removed, 300);
            let mut pipe = redis::cluster::cluster_pipe();
            for key in &keys {
                pipe.cmd("APPEND").arg(key).arg("x");
            }
            let lengths: Vec<i64> = pipe.query(&mut connection).unwrap();
            assert_eq!(lengths, vec![1; 300]);
        }
    });
}

#[test]
fn redis_py_and_ioredis_find_the_servers() {
    let dir = if testkit::role().is_none() { drivers() } else { support::drivers_dir() };
    with_hub("redis_py_and_ioredis_find_the_servers", || {
        let _doors = open_trio();
        for program in ["cluster.py", "cluster.cjs"] {
            run_driver(&dir, program, &["7002"]);
        }
    });
}

#[test]
fn each_door_refuses_keys_of_the_others() {
    with_hub("each_door_refuses_keys_of_the_others", || {
        let _doors = open_trio();
        let (mut first, mut third) = (Raw::connect(TRIO[0].2), Raw::connect(TRIO[2].2));
        let moved = "-MOVED 12182 127.0.0.1:7003\r\n";
        assert_eq!(first.ask(&["set", FOO, "1"]), moved);
        assert_eq!(first.ask(&["asking"]), "+OK\r\n");
        assert_eq!(first.ask(&["set", FOO, "1"]), moved);
        assert_eq!(first.ask(&["readonly"]), "+OK\r\n");
        assert_eq!(first.ask(&["get", FOO]), moved);
        assert_eq!(third.ask(&["set", FOO, "1"]), "+OK\r\n");
        assert_eq!(third.ask(&["cluster", "getkeysinslot", "12182", "10"]), "*1\r\n$3\r\nfoo\r\n");
        // A refusal breaks the transaction.
        assert_eq!(first.ask(&["multi"]), "+OK\r\n");
        assert_eq!(first.ask(&["incr", FOO]), moved);
        assert_eq!(first.ask(&["set", BAR, "1"]), "+QUEUED\r\n");
        assert!(first.ask(&["exec"]).starts_with("-EXECABORT"));
        assert_eq!(first.ask(&["exists", BAR]), ":0\r\n");
        // Messages that would miss the clients of others are refused; those of a slot reach all who may listen.
        assert!(first.ask(&["publish", "news", "x"]).starts_with("-ERR PUBLISH does not reach"));
        assert_eq!(first.ask(&["spublish", FOO, "x"]), moved);
        assert!(third.ask(&["ssubscribe", FOO]).contains("ssubscribe"));
        let mut other = Raw::connect(TRIO[2].2);
        assert_eq!(other.ask(&["spublish", FOO, "x"]), ":1\r\n");
    });
}
