//! Tests that need both ends in one process.

use transport::{AtomicOp, AttrMask, Mtu, QpAttr, QpState, QpType, RemoteAddr, SendOp, Status};

use super::rig::*;
use crate::testing;
use crate::testing::EnginePath;

/// Two nodes of one process.
fn both(setup: Setup, test: impl Fn(&Node, &Node) + Send + Sync) {
    by(EnginePath::OneProcess, || {
        on_loopback(|group| {
            let (a, b) = pair(group, setup);
            test(&a, &b);
            assert_eq!(a.device.counters().get("tx_packets"), 0, "{:?}", a.device.counters());
        });
    });
}

#[test]
fn no_packet_leaves() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        both(Setup::new(qp_type), |a, b| {
            a.write(0, &pattern(1, 4000));
            b.post_recv(7, 8192, GRH_BYTES + 4000);
            let mut wr = a.send_wr(6, SendOp::Send, 0, 4000);
            let mut skipped = 0;
            if qp_type == QpType::Ud {
                wr.datagram = Some(Box::new(a.datagram_to(b.gid, b.qp.qpn())));
                skipped = GRH_BYTES;
            }
            a.qp.post_send([wr]).unwrap();
            assert_eq!((b.received().wr_id, a.sent().wr_id), (7, 6));
            assert_eq!(b.read(8192 + skipped, 4000), pattern(1, 4000));
        });
    }
}

/// Its own requester and its own responder talk over one lane.
#[test]
fn a_queue_pair_talks_to_itself() {
    for len in [0, 8, 300, 5000, 100_000] {
        both(Setup::new(QpType::Rc), |a, _| {
            a.qp.modify(&QpAttr { state: QpState::Reset, ..QpAttr::default() }, AttrMask::STATE).unwrap();
            a.connect(a, Mtu::B1024);
            a.write(0, &pattern(3, len));
            a.post_recv(1, 200_000, len);
            a.send(2, SendOp::Send, 0, len);
            assert_eq!((a.received().byte_len, a.sent().wr_id), (len as u32, 2));
            a.send(3, SendOp::Write(a.remote(400_000)), 0, len);
            a.send(4, SendOp::Read(a.remote(400_000)), 600_000, len);
            a.post_recv(5, 0, 0);
            a.send(6, SendOp::WriteImm(a.remote(800_000), 9), 0, len);
            a.send(7, SendOp::Atomic(a.remote(1 << 19), AtomicOp::FetchAdd { add: 5 }), 0, 8);
            assert_eq!([a.sent().wr_id, a.sent().wr_id, a.sent().wr_id, a.sent().wr_id], [3, 4, 6, 7]);
            assert_eq!(a.received().imm, Some(9));
            for offset in [200_000, 600_000, 800_000] {
                assert_eq!(a.read(offset, len), pattern(3, len), "{offset}");
            }
        });
    }
}

/// An access without rights is refused as on the wire, and both queue pairs fail.
#[test]
fn a_refused_access_ends_both() {
    both(Setup::new(QpType::Rc), |a, b| {
        let beyond = RemoteAddr { addr: b.remote(0).addr + (1 << 20), ..b.remote(0) };
        a.send(1, SendOp::Write(beyond), 0, 8);
        assert_eq!(next(&a.send_cq).status, Status::RemoteAccess);
        wait_until("the peer's error", || {
            b.device.progress();
            b.qp.state() == QpState::Error
        });
    });
}

/// Some threads use the two ends of connections, others destroy them at any moment.
#[test]
fn either_queue_pair_may_go_at_any_moment() {
    by(EnginePath::OneProcess, || {
        on_loopback(|group| {
            let device = testing::open(group, 1, "lo");
            let setup = Setup { memory_bytes: 1 << 14, ..Setup::new(QpType::Rc) };
            std::thread::scope(|scope| {
                for thread in 0..4usize {
                    let device = device.clone();
                    scope.spawn(move || {
                        for round in 0..40 {
                            let (a, b) = (Node::new(device.clone(), setup), Node::new(device.clone(), setup));
                            link(&a, &b);
                            for id in 0..8 {
                                b.post_recv(id, 0, 4000);
                                a.send(id, SendOp::Send, 4096, 3000);
                                a.send(id, SendOp::Write(b.remote(0)), 4096, 3000);
                                b.send(id, SendOp::Read(a.remote(0)), 4096, 3000);
                            }
                            let (first, second) = if (round + thread) % 2 == 0 { (a, b) } else { (b, a) };
                            std::thread::scope(|ends| {
                                ends.spawn(|| first.qp.destroy().unwrap());
                                drop(second.mr.deregister());
                                device.progress();
                            });
                            second.qp.destroy().unwrap();
                        }
                    });
                }
            });
        });
    });
}
