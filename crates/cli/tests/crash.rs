//! kill -9 of a process during traffic: the peer notices in bounded time, the
//! hub stays, and a new pair connects at once.

mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use support::{Host, Hosts, Running, exit_of};
use testkit::{must_succeed, said};

#[test]
fn a_killed_peer_is_an_error_completion_and_the_next_pair_works() {
    let hosts = Hosts::one("crash");
    must_succeed(hosts.longarm().args(["up"]));
    for op in ["send", "write", "read", "fetch-add"] {
        let (mut server, at) = hosts.server(Host::First, "127.0.0.1", None);
        let mut client = hosts.longarm();
        client.args(["perf", op, "-m", "stream", "-D", "60", "--connect", &at]).stderr(Stdio::piped());
        let mut client = Running(client.spawn().expect("the client starts"));
        std::thread::sleep(Duration::from_millis(700));
        let start = Instant::now();
        server.kill();
        let status = exit_of(&mut client.0);
        assert!(!status.success(), "{op}: the client must notice");
        let mut text = String::new();
        std::io::Read::read_to_string(client.0.stderr.as_mut().unwrap(), &mut text).unwrap();
        assert!(text.contains("RetryExceeded"), "{op}: after {:?} it said {text}", start.elapsed());
        must_succeed(hosts.longarm().args(["perf", op, "-m", "stream", "-D", "0.1"]));
    }
    let status = said(&must_succeed(hosts.longarm().args(["status", "--json"])));
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["clients"].as_array().map(Vec::len), Some(0), "the hub cleaned up: {status}");
    must_succeed(hosts.longarm().args(["down"]));
}
