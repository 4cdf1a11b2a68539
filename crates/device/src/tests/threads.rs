//! Many threads at once, with queues of their own and with shared ones.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use transport::{Completion, QpType, SendOp, Status};

use super::rig::*;
use crate::testing;

const THREADS: usize = 4;
const MESSAGES: usize = 300;
const LEN: usize = 3000;

#[test]
pub(super) fn threads_with_queue_pairs_of_their_own() {
    on_loopback(|group| {
        let (shm, far) = (testing::open(group, 1, "lo"), testing::open(group, 2, "lo"));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (shm, far) = (shm.clone(), far.clone());
                scope.spawn(move || {
                    let setup = Setup::new(QpType::Rc);
                    let (a, b) = (Node::new(shm, setup), Node::new(far, setup));
                    link(&a, &b);
                    for message in 0..MESSAGES {
                        let data = pattern(thread * MESSAGES + message, LEN);
                        b.post_recv(message as u64, 0, LEN);
                        a.write(0, &data);
                        a.send(message as u64, SendOp::Send, 0, LEN);
                        assert_eq!(b.received().wr_id, message as u64);
                        assert_eq!(b.read(0, LEN), data);
                        assert_eq!(a.sent().wr_id, message as u64);
                    }
                });
            }
        });
    });
}

#[test]
pub(super) fn threads_that_share_a_completion_queue_lose_nothing() {
    on_loopback(|group| {
        let (shm, far) = (testing::open(group, 1, "lo"), testing::open(group, 2, "lo"));
        let setup = Setup::new(QpType::Rc);
        let cq = shm.create_cq(10_000, None, 0).unwrap();
        let pairs: Vec<_> = (0..THREADS)
            .map(|_| {
                let a = Node::with_cq(shm.clone(), setup, &cq);
                let b = Node::new(far.clone(), setup);
                link(&a, &b);
                (a, b)
            })
            .collect();
        let done = AtomicUsize::new(0);
        let collected = std::thread::scope(|scope| {
            for (a, b) in &pairs {
                scope.spawn(move || {
                    for message in 0..MESSAGES {
                        let wr = a.send_wr(message as u64, SendOp::Write(b.remote(0)), 0, LEN);
                        post_when_there_is_room(a, wr);
                    }
                });
            }
            let pollers: Vec<_> = (0..2).map(|_| scope.spawn(|| poll_all(&cq, &done))).collect();
            pollers.into_iter().flat_map(|poller| poller.join().unwrap()).collect::<Vec<_>>()
        });
        for (a, _) in &pairs {
            let mut ids: Vec<_> = collected.iter().filter(|c| c.qpn == a.qp.qpn()).map(|c| c.wr_id).collect();
            ids.sort_unstable();
            assert_eq!(ids, (0..MESSAGES as u64).collect::<Vec<_>>());
        }
    });
}

fn post_when_there_is_room(node: &Node, wr: transport::SendWr) {
    wait_until("room in the send queue", || match node.qp.post_send([wr.clone()]) {
        Ok(()) => true,
        Err(failure) => {
            assert_eq!(failure.errno(), libc::ENOMEM);
            false
        }
    });
}

fn poll_all(cq: &crate::Cq, done: &AtomicUsize) -> Vec<Completion> {
    let mut out = Vec::new();
    while done.load(SeqCst) < THREADS * MESSAGES {
        let count = cq.poll(&mut out, 16).unwrap();
        done.fetch_add(count, SeqCst);
    }
    assert!(out.iter().all(|completion| completion.status == Status::Success));
    out
}

#[test]
pub(super) fn one_queue_pair_used_by_many_threads_keeps_order() {
    on_loopback(|group| {
        // No poll takes completions while the machine is busy with the other threads.
        let setup = Setup { cq_capacity: (THREADS * MESSAGES) as u32, ..Setup::new(QpType::Rc) };
        let (a, b) = pair(group, setup);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (a, b) = (&a, &b);
                scope.spawn(move || {
                    for message in 0..MESSAGES {
                        let wr_id = (thread * MESSAGES + message) as u64;
                        let wr = a.send_wr(wr_id, SendOp::Write(b.remote(thread * LEN)), thread * LEN, LEN);
                        post_when_there_is_room(a, wr);
                    }
                });
            }
            let mut last = [None; THREADS];
            for _ in 0..THREADS * MESSAGES {
                let wr_id = a.sent().wr_id as usize;
                let (thread, message) = (wr_id / MESSAGES, wr_id % MESSAGES);
                assert!(last[thread].is_none_or(|last| last < message), "in the order of posting");
                last[thread] = Some(message);
            }
        });
        assert_eq!(b.qp.counters().out_of_sequence_requests, 0, "nothing overtook anything");
    });
}
