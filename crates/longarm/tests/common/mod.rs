//! Two devices in a network namespace of the test's own, and queue pairs between them.
#![allow(dead_code, reason = "each test uses part of it")]

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
