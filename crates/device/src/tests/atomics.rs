//! Atomics have the right results, also when two peers work on one word.

use transport::{AtomicOp, CompletionOp, QpType, SendOp};

use super::rig::*;
use crate::testing;

fn word(node: &Node, at: usize) -> u64 {
    u64::from_ne_bytes(node.read(at, 8).try_into().unwrap())
}

fn atomic(node: &Node, at: &Node, op: AtomicOp) -> u64 {
    node.send(1, SendOp::Atomic(at.remote(64), op), 0, 8);
    node.sent();
    word(node, 0)
}

#[test]
pub(super) fn compare_and_swap_and_fetch_and_add() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        b.write(64, &7u64.to_ne_bytes());
        assert_eq!(atomic(&a, &b, AtomicOp::FetchAdd { add: 5 }), 7);
        assert_eq!(atomic(&a, &b, AtomicOp::CompareSwap { compare: 11, swap: 1 }), 12, "no match, no swap");
        assert_eq!(atomic(&a, &b, AtomicOp::CompareSwap { compare: 12, swap: 100 }), 12);
        assert_eq!(atomic(&a, &b, AtomicOp::FetchAdd { add: u64::MAX }), 100, "it wraps");
        assert_eq!(word(&b, 64), 99);
    });
}

#[test]
pub(super) fn the_completion_tells_which() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        for (op, expected) in [
            (AtomicOp::FetchAdd { add: 1 }, CompletionOp::FetchAdd),
            (AtomicOp::CompareSwap { compare: 0, swap: 0 }, CompletionOp::CompareSwap),
        ] {
            a.send(1, SendOp::Atomic(b.remote(64), op), 0, 8);
            let completion = a.sent();
            assert_eq!((completion.op, completion.byte_len), (expected, 8));
        }
    });
}

#[test]
pub(super) fn two_peers_lose_no_increment() {
    const EACH: u64 = 500;
    on_loopback(|group| {
        let setup = Setup::new(QpType::Rc);
        let [one, two, target] = [1, 2, 3].map(|slot| testing::open(group, slot, "lo"));
        let first = Node::new(target.clone(), setup);
        let second = Node::with(target, setup, &first.pd, (first.send_cq.clone(), first.recv_cq.clone()), None);
        let peers = [(Node::new(one, setup), &first), (Node::new(two, setup), &second)];
        std::thread::scope(|scope| {
            for (shm, far) in &peers {
                link(shm, far);
                let first = &first;
                scope.spawn(move || {
                    for _ in 0..EACH {
                        atomic(shm, first, AtomicOp::FetchAdd { add: 1 });
                    }
                });
            }
        });
        assert_eq!(word(&first, 64), 2 * EACH);
    });
}
