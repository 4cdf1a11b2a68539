//! Two devices in a network namespace of their own, with queue pairs between them; or a process with a hub of
//! its own.
#![allow(dead_code, reason = "each test uses part of it")]

use std::process::Command;
use std::time::{Duration, Instant};

use longarm::{
    Access, Buffer, CompletionQueue, Connected, Context, ProtectionDomain, QpBuilder, QueuePair, Rc, Uc, Unconnected,
};

/// The limit of every wait in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// All rights of peers.
pub(crate) const ALL: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE).union(Access::REMOTE_ATOMIC);

/// One side of a test: a device with a domain and a completion queue.
pub(crate) struct TestSide {
    pub(crate) context: Context,
    pub(crate) domain: ProtectionDomain,
    pub(crate) cq: CompletionQueue,
}

impl TestSide {
    pub(crate) fn new(context: Context) -> TestSide {
        let domain = context.protection_domain().unwrap();
        let cq = context.completion_queue().unwrap();
        TestSide { context, domain, cq }
    }

    pub(crate) fn rc(&self) -> QpBuilder<Rc> {
        self.domain.rc(&self.cq)
    }

    pub(crate) fn uc(&self) -> QpBuilder<Uc> {
        self.domain.uc(&self.cq)
    }

    pub(crate) fn buffer(&self, contents: &[u8]) -> Buffer {
        self.domain.allocate(contents.len().max(1)).unwrap().with(contents)
    }

    pub(crate) fn empty(&self, len: usize) -> Buffer {
        self.domain.allocate(len).unwrap()
    }
}

/// Runs `test` on the loop-back of a new network namespace, with two devices on engines of
/// their own.
pub(crate) fn two_sides(test: impl FnOnce(TestSide, TestSide) + Send) {
    let group = udp::PortGroup::bind(4).unwrap();
    let side = |slot| TestSide::new(device::testing::open(&group, slot, "lo").into());
    test(side(1), side(2));
}

/// Connects two queue pairs.
pub(crate) fn join<S: Connected>(a: Unconnected<S>, b: Unconnected<S>) -> (QueuePair<S>, QueuePair<S>) {
    let (to_a, to_b) = (a.address(), b.address());
    (a.connect(&to_b).unwrap(), b.connect(&to_a).unwrap())
}

/// Two connected RC queue pairs.
pub(crate) fn rc_pair(a: &TestSide, b: &TestSide) -> (QueuePair<Rc>, QueuePair<Rc>) {
    join(a.rc().build().unwrap(), b.rc().build().unwrap())
}

/// Waits until `done` holds, or fails the test.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes that depend on their position.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// The role of this process, in a test binary that runs itself.
const ROLE: &str = "LONGARM_TEST_ROLE";

/// Runs `body` in a new process with its own hub and network namespace, since a process has one
/// connection manager. Only the test function `test` may call this.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    with_hub_and_peer(test, body, |_| panic!("this test has no peer"));
}

/// The same for a test with a peer: processes of [`start_peer`] run `peer` with their word.
pub(crate) fn with_hub_and_peer(test: &str, body: impl FnOnce(), peer: impl FnOnce(&str)) {
    match std::env::var(ROLE).as_deref() {
        Ok("body") => return body(),
        Ok(word) => return peer(word),
        Err(_) => {}
    }
    let mut command = run_again(test, "body");
    command.env_remove("LONGARM_DEVICE");
    hub::testing::passes_with_hub(test, command);
}

/// Starts the peer of a test.
pub(crate) fn start_peer(test: &str, word: &str) -> std::process::Child {
    run_again(test, word).stdout(std::process::Stdio::null()).spawn().unwrap()
}

fn run_again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(ROLE, role);
    command
}
