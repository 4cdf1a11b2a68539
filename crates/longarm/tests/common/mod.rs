//! Two devices in a network namespace of the test's own, and queue pairs between them; or a process of
//! the test's own with a hub.
#![allow(dead_code, reason = "each test uses part of it")]

use std::os::unix::fs::DirBuilderExt;
use std::process::Command;
use std::time::{Duration, Instant};

use longarm::{
    Access, Buffer, CompletionQueue, Connected, Context, ProtectionDomain, QpBuilder, QueuePair, Rc, Uc, Unconnected,
};

/// Nothing in these tests takes so long, unless it never comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// All that peers may do.
pub(crate) const ALL: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE).union(Access::REMOTE_ATOMIC);

/// One side: a device with the usual things on it.
pub(crate) struct Side {
    pub(crate) context: Context,
    pub(crate) domain: ProtectionDomain,
    pub(crate) cq: CompletionQueue,
}

impl Side {
    pub(crate) fn new(context: Context) -> Side {
        let domain = context.protection_domain().unwrap();
        let cq = context.completion_queue().unwrap();
        Side { context, domain, cq }
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
pub(crate) fn two_sides(test: impl FnOnce(Side, Side) + Send) {
    let group = udp::PortGroup::bind(4).unwrap();
    let side = |slot| Side::new(device::testing::open(&group, slot, "lo").into());
    test(side(1), side(2));
}

/// Connects two queue pairs.
pub(crate) fn join<S: Connected>(a: Unconnected<S>, b: Unconnected<S>) -> (QueuePair<S>, QueuePair<S>) {
    let (to_a, to_b) = (a.address(), b.address());
    (a.connect(&to_b).unwrap(), b.connect(&to_a).unwrap())
}

/// Two connected RC queue pairs.
pub(crate) fn rc_pair(a: &Side, b: &Side) -> (QueuePair<Rc>, QueuePair<Rc>) {
    join(a.rc().build().unwrap(), b.rc().build().unwrap())
}

/// Waits until `done`.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes that tell where they are.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// What this process is to do, in a test binary that runs itself.
const ROLE: &str = "LONGARM_TEST_ROLE";

/// Runs `body` in a process of its own with a hub of its own, in a network namespace of its own: the
/// connection manager is one per process. To be called from the test function `test` itself.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    with_hub_and_peer(test, body, |_| panic!("this test has no peer"));
}

/// Likewise; processes that [`start_peer`] starts run `peer` with its word instead.
pub(crate) fn with_hub_and_peer(test: &str, body: impl FnOnce(), peer: impl FnOnce(&str)) {
    match std::env::var(ROLE).as_deref() {
        Ok("body") => return body(),
        Ok(word) => return peer(word),
        Err(_) => {}
    }
    let place = std::env::temp_dir().join(format!("longarm-{test}-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&place).unwrap();
    let mut command = run_again(test, "body");
    command.env("LONGARM_RUNTIME_DIR", &place).env_remove("LONGARM_DEVICE");
    let mut output = None;
    udp::testing::in_new_netns(|| output = Some(command.output().unwrap()));
    let _ = std::fs::remove_dir_all(&place);
    // For an ordinary user the namespace is another process, which has checked this already.
    let Some(output) = output else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
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
