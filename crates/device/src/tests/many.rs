//! Many queue pairs that send to one destination at once.

use transport::{AddressVector, AttrMask, Mtu, QpAttr, QpState, QpType, SendOp, Status};

use super::rig::*;
use crate::handles::device::Device;
use crate::testing;

const QPS: usize = 200;
const MESSAGES: usize = 32;
const LEN: usize = 4096;

/// All queue pairs together post several times the budget of a destination. Some are destroyed
/// while they wait for their turn. The others must still get theirs.
#[test]
pub(super) fn all_have_their_turn() {
    check_turns(|b, _| SendOp::Write(b.remote(0)));
}

/// Does the same with so many messages that a lane has room for only a part of them.
#[test]
pub(super) fn all_messages_have_their_turn() {
    check_turns(|b, message| {
        b.post_recv(message as u64, 0, LEN);
        SendOp::Send
    });
}

fn check_turns(op: impl Fn(&Node, usize) -> SendOp + Sync) {
    on_loopback(|group| {
        let (shm, far) = (testing::open(group, 1, "lo"), testing::open(group, 2, "lo"));
        let setup = Setup { memory_bytes: LEN, ..Setup::new(QpType::Rc) };
        let cq = shm.create_cq((QPS * MESSAGES) as u32, None, 0).unwrap();
        let pairs: Vec<_> = (0..QPS)
            .map(|_| {
                let (a, b) = (Node::with_cq(shm.clone(), setup, &cq), Node::new(far.clone(), setup));
                link(&a, &b);
                (a, b)
            })
            .collect();
        for (index, (a, b)) in pairs.iter().enumerate() {
            a.write(0, &pattern(index, LEN));
            let wr = |message| a.send_wr((index * MESSAGES + message) as u64, op(b, message), 0, LEN);
            a.qp.post_send((0..MESSAGES).map(wr)).unwrap();
        }
        let gone = |index: usize| index % 8 == 7;
        for (index, (a, _)) in pairs.iter().enumerate().filter(|(index, _)| gone(*index)) {
            match index % 16 {
                7 => a.qp.destroy().unwrap(),
                _ => a.qp.modify(&QpAttr { state: QpState::Reset, ..QpAttr::default() }, AttrMask::STATE).unwrap(),
            }
        }
        let mut done = vec![0; QPS];
        while (0..QPS).any(|index| !gone(index) && done[index] < MESSAGES) {
            let completion = next(&cq);
            assert_eq!(completion.status, Status::Success);
            done[completion.wr_id as usize / MESSAGES] += 1;
        }
        for (index, (_, b)) in pairs.iter().enumerate().filter(|(index, _)| !gone(*index)) {
            assert_eq!(b.read(0, LEN), pattern(index, LEN), "{index}");
        }
    });
}

/// Queue pairs whose targets were destroyed, with enough bytes in flight to use up any budget.
const ABANDONED: usize = 32;
const ABANDONED_READS: usize = 16;
const ABANDONED_READ_BYTES: usize = 64 << 10;
/// The timeout code for an infinite timeout.
const NO_TIMEOUT: u8 = 0;

/// Requests to queue pairs that are gone are never answered. Other queue pairs to the same process continue, and
/// the abandoned ones do not fail.
#[test]
pub(super) fn destroyed_targets_starve_nobody() {
    on_loopback(|group| {
        let (shm, far) = (testing::open(group, 1, "lo"), testing::open(group, 2, "lo"));
        let setup = Setup { memory_bytes: ABANDONED_READ_BYTES, ..Setup::new(QpType::Rc) };
        let abandoned: Vec<_> = (0..ABANDONED).map(|_| abandoned(&shm, &far, setup)).collect();
        let (a, b) = (Node::new(shm.clone(), setup), Node::new(far.clone(), setup));
        link(&a, &b);
        for round in 0..64 {
            b.write(0, &pattern(round, LEN));
            a.send(round as u64, SendOp::Read(b.remote(0)), 0, LEN);
            a.sent();
            assert_eq!(a.read(0, LEN), pattern(round, LEN), "round {round}");
        }
        assert!(abandoned.iter().all(|node| node.qp.failure().is_none()), "these wait for ever");
    });
}

/// A queue pair with READs of a target that is gone.
fn abandoned(shm: &Device, far: &Device, setup: Setup) -> Node {
    let (a, b) = (Node::new(shm.clone(), setup), Node::new(far.clone(), setup));
    let address = |from: &Node, to: &Node| AddressVector::new(from.gid, to.gid);
    connect_with_timeout(&a.qp, address(&a, &b), b.qp.qpn(), Mtu::B4096, NO_TIMEOUT);
    connect_with_timeout(&b.qp, address(&b, &a), a.qp.qpn(), Mtu::B4096, NO_TIMEOUT);
    b.qp.destroy().unwrap();
    let read = |id| a.send_wr(id, SendOp::Read(b.remote(0)), 0, ABANDONED_READ_BYTES);
    a.qp.post_send((0..ABANDONED_READS as u64).map(read)).unwrap();
    a
}
