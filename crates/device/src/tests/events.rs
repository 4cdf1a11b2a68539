//! Asynchronous events and shared receive queues.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smallvec::smallvec;
use transport::{AttrMask, QpAttr, QpEvent, QpState, QpType, RecvWr, SendOp, Status};

use super::rig::*;
use crate::handles::device::Device;
use crate::handles::pd::Pd;
use crate::handles::srq::Srq;
use crate::objects::events::AsyncEvent;
use crate::{FaultPlan, testing};

fn events_pending(device: &Device) -> bool {
    let fd = device.event_fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

/// Two pairs whose second nodes share a receive queue.
fn shared(group: &udp::PortGroup) -> ([(Node, Node); 2], Pd, Srq) {
    let (shm, far) = (testing::open(group, 1, "lo"), testing::open(group, 2, "lo"));
    let setup = Setup::new(QpType::Rc);
    let pd = far.alloc_pd().unwrap();
    let srq = far.create_srq(&pd, 16, 2, 0).unwrap();
    let pairs = [0, 1].map(|_| {
        let cq = far.create_cq(100, None, 0).unwrap();
        let b = Node::with(far.clone(), setup, &pd, (cq.clone(), cq), Some(&srq));
        let a = Node::new(shm.clone(), setup);
        link(&a, &b);
        (a, b)
    });
    (pairs, pd, srq)
}

fn post(srq: &Srq, node: &Node, wr_id: u64) {
    srq.post([RecvWr { wr_id, sgl: smallvec![node.sge(wr_id as usize * 64, 64)] }]).unwrap();
}

#[test]
pub(super) fn queue_pairs_take_turns_at_a_shared_receive_queue() {
    on_loopback(|group| {
        let ([(a, b), (c, d)], _pd, srq) = shared(group);
        for wr_id in 0..4 {
            post(&srq, &b, wr_id);
        }
        for (index, (from, to)) in [(&a, &b), (&c, &d), (&c, &d), (&a, &b)].into_iter().enumerate() {
            from.write(0, &pattern(index, 64));
            from.send(1, SendOp::Send, 0, 64);
            let completion = to.received();
            assert_eq!((completion.wr_id, completion.qpn), (index as u64, to.qp.qpn()));
            assert_eq!(b.read(index * 64, 64), pattern(index, 64));
            from.sent();
        }
    });
}

#[test]
pub(super) fn the_limit_is_told_once_when_it_is_crossed() {
    on_loopback(|group| {
        let ([(a, b), _], _pd, srq) = shared(group);
        for wr_id in 0..5 {
            post(&srq, &b, wr_id);
        }
        srq.modify(3).unwrap();
        assert_eq!(srq.query().limit, 3);
        let send = || {
            a.send(1, SendOp::Send, 0, 8);
            b.received();
        };
        send();
        send();
        assert!(!events_pending(&b.device), "three are left");
        send();
        assert!(events_pending(&b.device));
        assert_eq!(b.device.next_event(), Some(AsyncEvent::SrqLimitReached(srq.id())));
        assert!(!events_pending(&b.device));
        send();
        assert_eq!(b.device.next_event(), None, "it is disarmed");
        assert_eq!(srq.query().limit, 0);
    });
}

#[test]
pub(super) fn a_failed_queue_pair_tells_that_it_takes_no_more() {
    on_loopback(|group| {
        let ([(_a, b), _], _pd, srq) = shared(group);
        post(&srq, &b, 1);
        b.qp.modify(&QpAttr { state: QpState::Error, ..QpAttr::default() }, AttrMask::STATE).unwrap();
        let expected = AsyncEvent::Qp { qpn: b.qp.qpn(), event: QpEvent::LastWqeReached };
        assert_eq!(b.device.next_event(), Some(expected));
        assert!(b.recv_cq.is_empty(), "the shared queue keeps its work requests");
    });
}

#[test]
fn a_full_shared_queue_refuses_with_the_index() {
    on_loopback(|group| {
        let ([(_a, b), _], _pd, srq) = shared(group);
        let list = (0..20).map(|wr_id| RecvWr { wr_id, sgl: smallvec![b.sge(0, 64)] });
        let failure = srq.post(list).unwrap_err();
        assert_eq!((failure.index, failure.errno()), (16, libc::ENOMEM));
        assert_eq!(srq.resize(15).unwrap_err().errno(), libc::EINVAL);
        srq.resize(32).unwrap();
        post(&srq, &b, 1);
    });
}

#[test]
pub(super) fn a_refused_request_tells_both_sides() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let mut remote = b.remote(0);
        remote.rkey.0 ^= 0x100;
        a.send(5, SendOp::Write(remote), 0, 64);
        let completion = next(&a.send_cq);
        assert_eq!((completion.wr_id, completion.status), (5, Status::RemoteAccess));
        let expected = AsyncEvent::Qp { qpn: b.qp.qpn(), event: QpEvent::AccessError };
        wait_until("the event", || b.device.next_event() == Some(expected));
        assert!(a.qp.failure().is_some() && b.qp.failure().is_some());
    });
}

#[test]
fn each_open_device_has_its_own_events() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        b.post_recv(1, 0, 8);
        a.send(1, SendOp::Write(crate::RemoteAddr { addr: 0, rkey: crate::RKey(1) }), 0, 8);
        next(&a.send_cq);
        wait_until("the event", || events_pending(&b.device));
        assert!(!events_pending(&a.device));
        assert_eq!(b.received().status, Status::WorkRequestFlushed);
    });
}

#[test]
fn objects_take_their_events_with_them() {
    on_loopback(|group| {
        let ([(a, b), _], _pd, srq) = shared(group);
        srq.modify(8).unwrap();
        post(&srq, &b, 0);
        a.send(1, SendOp::Send, 0, 64);
        b.received();
        b.qp.modify(&QpAttr { state: QpState::Error, ..QpAttr::default() }, AttrMask::STATE).unwrap();
        let device = b.device.clone();
        assert!(events_pending(&device));
        b.qp.destroy().unwrap();
        assert_eq!(device.next_event(), Some(AsyncEvent::SrqLimitReached(srq.id())), "the queue is still there");
        assert_eq!(device.next_event(), None, "the last WQE event went with the queue pair");
        assert!(!events_pending(&device));
    });
}

#[test]
fn reset_returns_the_receive_of_an_unfinished_message() {
    const BYTES: usize = 1 << 20;
    on_loopback(|group| {
        let ([(a, b), _], _pd, srq) = shared(group);
        for wr_id in [7, 8] {
            srq.post([RecvWr { wr_id, sgl: smallvec![b.sge(0, BYTES)] }]).unwrap();
        }
        // Without ACKs only a window of the message arrives.
        b.device.set_faults(Some(FaultPlan { loss: 1.0, ..FaultPlan::default() }));
        a.write(0, &[1; BYTES]);
        a.send(1, SendOp::Send, 0, BYTES);
        wait_until("the beginning", || b.read(0, 1) == [1]);
        let reset = QpAttr { state: QpState::Reset, ..QpAttr::default() };
        b.qp.modify(&reset, AttrMask::STATE).unwrap();
        let completion = next(&b.recv_cq);
        assert_eq!((completion.wr_id, completion.status), (7, Status::WorkRequestFlushed));
    });
}
