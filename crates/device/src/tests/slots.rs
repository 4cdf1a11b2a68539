//! Engines with several slots: packets reach their queue pair through any of the sockets.

use std::collections::BTreeSet;

use transport::{QpType, SendOp, Status};
use wire::Qpn;

use super::datagrams::group_gid;
use super::rig::*;
use crate::handles::device::Device;
use crate::testing;

const LEN: usize = 5000;
const MESSAGES: usize = 40;
const SHM: &[u8] = &[1, 2, 3];
const FAR: &[u8] = &[4, 5];

/// Connected nodes, so many that each slot of one engine meets each slot of the other.
fn pairs(shm: &Device, far: &Device) -> Vec<(Node, Node)> {
    let setup = Setup { memory_bytes: LEN, ..Setup::new(QpType::Rc) };
    let node = |device: &Device| Node::new(device.clone(), setup);
    let pairs: Vec<_> = (0..SHM.len() * FAR.len()).map(|_| (node(shm), node(far))).collect();
    pairs.iter().for_each(|(a, b)| link(a, b));
    pairs
}

fn slot(node: &Node) -> u8 {
    node.qp.qpn().slot()
}

/// Sends a message and reads it back.
fn exchange(a: &Node, b: &Node, seed: usize) {
    let data = pattern(seed, LEN);
    b.post_recv(seed as u64, 0, LEN);
    a.write(0, &data);
    a.send(1, SendOp::Send, 0, LEN);
    assert_eq!(b.received().wr_id, seed as u64);
    a.sent();
    a.write(0, &pattern(0, LEN));
    a.send(2, SendOp::Read(b.remote(0)), 0, LEN);
    a.sent();
    assert_eq!(a.read(0, LEN), data);
}

#[test]
pub(super) fn each_slot_reaches_each_other() {
    on_loopback(|group| {
        let (shm, far) = (testing::open_slots(group, SHM, "lo"), testing::open_slots(group, FAR, "lo"));
        let pairs = pairs(&shm, &far);
        let met: BTreeSet<_> = pairs.iter().map(|(a, b)| (slot(a), slot(b))).collect();
        assert_eq!(met.len(), pairs.len(), "queue pairs are made on each slot in turn");
        for (index, (a, b)) in pairs.iter().enumerate() {
            exchange(a, b, index);
            exchange(b, a, index + 100);
        }
    });
}

#[test]
pub(super) fn threads_receive_from_slots_of_their_own() {
    on_loopback(|group| {
        let (shm, far) = (testing::open_slots(group, SHM, "lo"), testing::open_slots(group, FAR, "lo"));
        let pairs = pairs(&shm, &far);
        std::thread::scope(|scope| {
            for (a, b) in &pairs {
                scope.spawn(move || (0..MESSAGES).for_each(|seed| exchange(a, b, seed)));
            }
        });
    });
}

#[test]
pub(super) fn timers_run_on_each_slot() {
    on_loopback(|group| {
        let (shm, far) = (testing::open_slots(group, SHM, "lo"), testing::open_slots(group, FAR, "lo"));
        let pairs = pairs(&shm, &far);
        for (a, b) in &pairs {
            b.qp.destroy().unwrap();
            a.send(7, SendOp::Send, 0, LEN);
        }
        // The peer never answers, so only timers end the request.
        for (a, _) in &pairs {
            let completion = next(&a.send_cq);
            assert_eq!((completion.wr_id, completion.status), (7, Status::RetryExceeded), "{:?}", a.qp.qpn());
        }
    });
}

#[test]
fn datagrams_find_each_slot_and_groups_each_process_once() {
    on_loopback(|group| {
        let (shm, far) = (testing::open_slots(group, SHM, "lo"), testing::open_slots(group, FAR, "lo"));
        let setup = Setup::new(QpType::Ud);
        let sender = Node::new(shm, setup);
        let receivers = [(); 4].map(|()| Node::new(far.clone(), setup));
        let multicast = group_gid();
        sender.ready();
        for receiver in &receivers {
            receiver.ready();
            receiver.qp.attach_multicast(multicast).unwrap();
            (0..4).for_each(|wr_id| receiver.post_recv(wr_id, 0, LEN));
        }
        let send = |gid, qpn: Qpn| {
            let mut wr = sender.send_wr(1, SendOp::Send, 0, 100);
            wr.datagram = Some(Box::new(sender.datagram_to(gid, qpn)));
            sender.qp.post_send([wr]).unwrap();
            sender.sent();
        };
        for receiver in &receivers {
            send(receiver.gid, receiver.qp.qpn());
            assert_eq!(receiver.received().byte_len, (100 + GRH_BYTES) as u32);
        }
        send(multicast, Qpn::MULTICAST);
        for receiver in &receivers {
            assert_eq!(receiver.received().byte_len, (100 + GRH_BYTES) as u32);
            let mut more = Vec::new();
            assert_eq!(receiver.recv_cq.poll(&mut more, 1).unwrap(), 0, "one copy for each queue pair");
        }
    });
}
