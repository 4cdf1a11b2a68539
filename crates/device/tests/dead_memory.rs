//! The memory of a killed process is still mapped in its peers. From its death on no access to it succeeds: not for the
//! milliseconds until a thread has looked at a socket either.

mod support;

use longarm_device::{AtomicOp, RemoteAddr, SendOp, Status, WriteAtOnce};
use support::{End, Other, heard, meet, open, run_apart};

const TEST: &str = "no_access_to_the_memory_of_a_dead_process_succeeds";

#[test]
fn no_access_to_the_memory_of_a_dead_process_succeeds() {
    match testkit::role().unwrap_or_default().as_str() {
        "survivor" => be_survivor(),
        "victim" => be_victim(),
        _ => run_apart(TEST, "survivor"),
    }
}

fn be_victim() {
    let end = End::on(&open());
    meet(&end);
    heard();
}

fn be_survivor() {
    let device = open();
    let ops: [fn(RemoteAddr) -> SendOp; 5] = [
        SendOp::Write,
        SendOp::Read,
        SendOp::AtomicWrite,
        |remote| SendOp::Atomic(remote, AtomicOp::FetchAdd { add: 1 }),
        |remote| SendOp::ObjectRead(remote, 1),
    ];
    for op in ops {
        let (end, mut victim) = (End::on(&device), Other::start(TEST, "victim"));
        let op = op(victim.connect(&end));
        end.post(op, 0, len(op)).unwrap();
        end.wait(1);
        victim.kill();
        end.post(op, 0, len(op)).unwrap();
        let done = end.completions(1);
        assert_eq!(done[0].status, Status::RetryExceeded, "{op:?}");
    }
    let (end, mut victim) = (End::on(&device), Other::start(TEST, "victim"));
    let remote = victim.connect(&end);
    assert_eq!(end.qp.write_at_once(b"once", remote), WriteAtOnce::Done);
    assert_eq!(end.qp.read_at_once(&mut [0; 4], remote, None), Some(4));
    victim.kill();
    assert_eq!(end.qp.write_at_once(b"late", remote), WriteAtOnce::Refused);
    assert_eq!(end.qp.read_at_once(&mut [0; 4], remote, None), None);
    assert!(device.counters().get("shm_writes") > 1, "they were this processor's own accesses");
}

/// An object is longer than a word.
fn len(op: SendOp) -> usize {
    if matches!(op, SendOp::ObjectRead(..)) { 64 } else { 8 }
}
