//! Both ends of a connection take the same path, also if only one of them could use shared memory.

mod support;

use longarm_device::{SendOp, Status};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{End, Other, heard, meet, open, run_apart};

const TEST: &str = "an_end_that_took_packets_declines_the_link_of_its_peer";
const LEN: usize = 3000;

/// One process has no descriptor for a link when it connects, so it takes the wire. Then its peer asks for a link.
#[test]
fn an_end_that_took_packets_declines_the_link_of_its_peer() {
    match testkit::role().unwrap_or_default().as_str() {
        "short" => be_short_of_descriptors(),
        "peer" => be_peer(),
        _ => run_apart(TEST, "short"),
    }
}

fn be_short_of_descriptors() {
    let device = open();
    let mut peer = Other::start(TEST, "peer");
    let first = End::on(&device);
    let line = peer.line("peer ");
    without_descriptors(|| first.connect(&line));
    peer.tell(&first.describe());
    peer.line("ready");
    exchange(&first);
    assert_eq!(device.counters().get("shm_links"), 0);
    drop(first);
    // The hub introduces two processes only once, so they stay on the wire.
    let second = End::on(&device);
    peer.connect(&second);
    exchange(&second);
    assert_eq!(device.counters().get("shm_links"), 0);
    // A link to another process can still come up.
    let mut other = Other::start(TEST, "peer");
    let third = End::on(&device);
    other.connect(&third);
    exchange(&third);
    assert_eq!(device.counters().get("shm_links"), 1);
}

fn be_peer() {
    let device = open();
    for _ in 0..2 {
        let end = End::on(&device);
        meet(&end);
        // A message that comes before its receive is sent again.
        end.receive(0, LEN);
        end.wait(1);
        end.post(SendOp::Send, 0, LEN).unwrap();
        end.wait(1);
    }
    heard();
}

/// Sends a message and receives one.
fn exchange(end: &End) {
    end.receive(LEN, LEN);
    end.fill(0, &[7; LEN]);
    end.post(SendOp::Send, 0, LEN).unwrap();
    let done = end.completions(2);
    assert!(done.iter().all(|done| done.status == Status::Success), "{done:?}: {:?}", end.qp.failure());
    assert!(end.bytes(LEN, LEN) == [7; LEN]);
}

/// Calls `act` while this process can open no descriptor.
fn without_descriptors<R>(act: impl FnOnce() -> R) -> R {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
    let result = act();
    setrlimit(Resource::Nofile, limit).unwrap();
    result
}
