//! Clients that people use: redis-cli, redis-benchmark, the crate `redis`; and an RDMA client of the same table.

mod support;

use std::process::Command;
use std::sync::Arc;

use longarm_kv::{KvOptions, KvTable};
use longarm_resp::{RespOptions, Users};
use redis::Commands;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use support::{DOOR, OpenDoor, Raw, with_hub};

fn cli(arguments: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-p", "6390"]).args(arguments).output();
    let output = output.expect("redis-cli is installed (Debian package redis-tools)");
    testkit::said(&output)
}

#[test]
fn redis_and_rdma_clients_see_each_others_changes() {
    with_hub("redis_and_rdma_clients_see_each_others_changes", || {
        let _door = OpenDoor::new(RespOptions::default());
        let mut table = KvTable::open("127.0.0.1:7480", "default", KvOptions::default()).unwrap();
        for (version, value) in [("-2", "tuesday"), ("-3", "friday")] {
            assert!(cli(&[version, "set", "alice", value]).contains("OK"));
            assert_eq!(table.get(b"alice").unwrap().unwrap().bytes, value.as_bytes());
            table.put(b"bob", value.as_bytes()).unwrap();
            assert!(cli(&[version, "get", "bob"]).contains(value));
        }
        // A transaction notices the change of an RDMA client.
        let mut raw = Raw::connect(DOOR);
        assert_eq!(raw.ask(&["watch", "bob"]), "+OK\r\n");
        table.put(b"bob", b"other").unwrap();
        assert_eq!(raw.ask(&["multi"]), "+OK\r\n");
        assert_eq!(raw.ask(&["set", "bob", "mine"]), "+QUEUED\r\n");
        assert_eq!(raw.ask(&["exec"]), "*-1\r\n");
        assert_eq!(table.get(b"bob").unwrap().unwrap().bytes, b"other");
    });
}

#[test]
fn redis_benchmark_and_the_crate_redis_work() {
    with_hub("redis_benchmark_and_the_crate_redis_work", || {
        let _door = OpenDoor::new(RespOptions::default());
        let output = Command::new("redis-benchmark")
            .args(["-p", "6390", "-c", "50", "-P", "16", "-n", "20000", "-t", "ping,set,get,incr,mset", "-q"])
            .output()
            .expect("redis-benchmark is installed (Debian package redis-tools)");
        let said = testkit::said(&output);
        for name in ["PING_INLINE", "SET", "GET", "INCR", "MSET (10 keys)"] {
            assert!(said.contains(&format!("{name}: ")), "{name}: {said}");
        }
        assert!(!said.contains("Error"), "{said}");
        for protocol in ["resp2", "resp3"] {
            let client = redis::Client::open(format!("redis://{DOOR}/?protocol={protocol}")).unwrap();
            let mut connection = client.get_connection().unwrap();
            let _: () = connection.set_ex("k", "v", 100).unwrap();
            let (value, left): (String, i64) = (connection.get("k").unwrap(), connection.ttl("k").unwrap());
            assert_eq!(value, "v");
            assert!((90..=100).contains(&left));
            let sum: (i64, i64) =
                redis::pipe().atomic().set("n", 1).ignore().incr("n", 5).incr("n", 6).query(&mut connection).unwrap();
            assert_eq!(sum, (6, 12));
            let keys: Vec<String> = connection.scan_match("k*").unwrap().collect();
            assert!(keys.contains(&"k".to_owned()), "{keys:?}");
            let mut listener = client.get_connection().unwrap();
            let mut channel = listener.as_pubsub();
            channel.subscribe("news").unwrap();
            let receivers: i64 = connection.publish("news", "hello").unwrap();
            let message: String = channel.get_message().unwrap().get_payload().unwrap();
            assert_eq!((receivers, message.as_str()), (1, "hello"));
        }
    });
}

/// As Redis does: replies are left out, messages of channels are not.
#[test]
fn replies_that_a_client_does_not_want_are_left_out() {
    with_hub("replies_that_a_client_does_not_want_are_left_out", || {
        let (_redis, _door) = (support::redis(), OpenDoor::new(RespOptions::default()));
        let requests: [&[&str]; 22] = [
            &["client", "reply", "skip"],
            &["set", "a", "1"],
            &["get", "a"],
            &["client", "reply", "off"],
            &["set", "a", "2"],
            &["nonsense"],
            &["client", "reply", "skip"],
            &["client", "reply", "nonsense"],
            &["multi"],
            &["incr", "a"],
            &["exec"],
            &["client", "reply", "on"],
            &["get", "a"],
            &["client", "reply", "skip"],
            &["client", "reply", "on"],
            &["client", "reply", "skip"],
            &["client", "reply", "skip"],
            &["get", "a"],
            &["client", "reply", "off"],
            &["subscribe", "news"],
            &["unsubscribe"],
            &["quit"],
        ];
        let bytes: Vec<u8> = requests
            .iter()
            .flat_map(|words| support::encode(&words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>()))
            .collect();
        let [of_redis, of_door] = [support::REDIS, DOOR].map(|address| {
            let mut raw = Raw::connect(address);
            raw.send_bytes(&bytes).unwrap();
            String::from_utf8(raw.rest()).unwrap()
        });
        assert_eq!(of_redis, of_door);
        assert!(of_door.starts_with("$1\r\n1\r\n+OK\r\n$1\r\n3\r\n"), "{of_door}");
        let [of_redis, of_door] =
            [support::REDIS, DOOR].map(|address| Raw::connect(address).ask(&["client", "kill", "user", "nobody"]));
        assert_eq!(of_redis, of_door);
    });
}

#[test]
fn strangers_are_refused_until_they_give_a_password() {
    with_hub("strangers_are_refused_until_they_give_a_password", || {
        let mut options = RespOptions::default();
        options.users = Users::with_password(b"sesame");
        let _door = OpenDoor::new(options);
        let mut raw = Raw::connect(DOOR);
        assert_eq!(raw.ask(&["get", "k"]), "-NOAUTH Authentication required.\r\n");
        assert!(raw.ask(&["hello", "3"]).starts_with("-NOAUTH HELLO must be called"));
        assert!(raw.ask(&["auth", "wrong"]).starts_with("-WRONGPASS"));
        assert_eq!(raw.ask(&["get", "k"]), "-NOAUTH Authentication required.\r\n");
        assert_eq!(raw.ask(&["auth", "default", "sesame"]), "+OK\r\n");
        assert_eq!(raw.ask(&["get", "k"]), "$-1\r\n");
        let mut other = Raw::connect(DOOR);
        let long = "x".repeat(20_000);
        other.send(&[b"get".to_vec(), long.into_bytes()]);
        let rest = String::from_utf8(other.rest()).unwrap();
        assert_eq!(rest, "-ERR Protocol error: unauthenticated bulk length\r\n");
    });
}

#[test]
fn redis_cli_comes_through_tls() {
    with_hub("redis_cli_comes_through_tls", || {
        let (authority, place) = (testkit::Authority::default(), testkit::TestDir::new("resp-tls"));
        let (certificate, key) = authority.write_identity(place.path(), "server.test");
        let chain = CertificateDer::pem_file_iter(&certificate).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::from_pem_file(&key).unwrap();
        let mut options = RespOptions::default();
        options.tls = Some(Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()));
        let _door = OpenDoor::new(options);
        // OpenSSL refuses the chain of the tests' authority, whose certificates all have one subject.
        let tls = ["--tls", "--insecure"];
        let long = "x".repeat(50_000);
        let said = cli(&[&tls[..], &["set", "k", &long]].concat());
        assert!(said.contains("OK"), "{said}");
        assert!(cli(&[&tls[..], &["get", "k"]].concat()).contains(&long));
        // Without TLS there is no reply.
        let mut plain = Raw::connect(DOOR);
        plain.send(&[b"get".to_vec(), b"k".to_vec()]);
        assert!(!plain.rest().windows(3).any(|three| three == b"xxx"));
    });
}
