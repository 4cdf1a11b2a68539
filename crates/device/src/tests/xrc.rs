//! Extended reliable connections.

use smallvec::smallvec;
use transport::{Access, Mtu, Payload, QpEvent, QpState, QpType, Reason, RecvWr, SendOp, SendWr, Sge, Status};
use udp::PortGroup;
use wire::NakCode;

use super::rig::*;
use crate::handles::cq::Cq;
use crate::handles::device::Device;
use crate::handles::mr::Mr;
use crate::handles::pd::Pd;
use crate::handles::qp::{Qp, QpSpec};
use crate::handles::srq::Srq;
use crate::handles::xrc::Xrcd;
use crate::objects::events::AsyncEvent;
use crate::objects::srq::SrqAttr;
use crate::{Error, FaultPlan, testing};

const ATTR: SrqAttr = SrqAttr { max_wr: 64, max_sge: 2, limit: 0 };

/// A host with an XRC domain.
struct Host {
    device: Device,
    xrcd: Xrcd,
    target: Qp,
}

/// A shared receive queue with a protection domain, memory and completions of its own.
struct Queue {
    pd: Pd,
    cq: Cq,
    srq: Srq,
    mr: Mr,
}

impl Host {
    fn queue(&self) -> Queue {
        let pd = self.device.alloc_pd().unwrap();
        let cq = self.device.create_cq(100, None, 9).unwrap();
        let srq = self.device.create_xrc_srq(&pd, &self.xrcd, &cq, &ATTR).unwrap();
        let mr = pd.allocate(1 << 16, ALL_ACCESS).unwrap();
        Queue { pd, cq, srq, mr }
    }
}

impl Queue {
    fn number(&self) -> u32 {
        self.srq.number().expect("a queue of an XRC domain has a number")
    }

    fn post(&self, wr_id: u64, offset: u64, len_bytes: u32) {
        let sge = Sge { addr: self.mr.addr() + offset, len_bytes, lkey: self.mr.lkey() };
        self.srq.post([RecvWr { wr_id, sgl: smallvec![sge] }]).unwrap();
    }

    fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.mr.region().unwrap().span().part(offset, len).unwrap().read(&mut bytes);
        bytes
    }

    fn remote(&self, offset: u64) -> transport::RemoteAddr {
        transport::RemoteAddr { addr: self.mr.addr() + offset, rkey: self.mr.rkey() }
    }
}

/// An initiator, connected to the target of a host.
fn connected(group: &PortGroup) -> (Node, Host) {
    let a = Node::new(testing::open(group, 1, "lo"), Setup::new(QpType::XrcSend));
    let device = testing::open(group, 2, "lo");
    let xrcd = device.open_xrcd().unwrap();
    let target = device.create_xrc_recv_qp(&xrcd).unwrap();
    let gid = gid_of(&device, false);
    connect(&a.qp, a.gid, target.qpn(), gid, Mtu::B1024);
    connect(&target, gid, a.qp.qpn(), a.gid, Mtu::B1024);
    (a, Host { device, xrcd, target })
}

fn send_to(a: &Node, queue: &Queue, wr: SendWr) {
    a.qp.post_send([SendWr { xrc_srq: Some(queue.number()), ..wr }]).unwrap();
}

#[test]
fn one_connection_serves_every_queue_of_the_domain() {
    on_loopback(|group| {
        let (a, host) = connected(group);
        let queues = [host.queue(), host.queue(), host.queue()];
        for (index, queue) in queues.iter().enumerate() {
            queue.post(index as u64, 0, 4096);
            a.write(0, &pattern(index, 4096));
            send_to(&a, queue, a.send_wr(5, SendOp::SendImm(index as u32), 0, 4096));
            a.sent();
            let completion = next(&queue.cq);
            assert_eq!((completion.wr_id, completion.imm), (index as u64, Some(index as u32)));
            assert_eq!((completion.qpn, completion.byte_len), (host.target.qpn(), 4096));
            assert_eq!(queue.read(0, 4096), pattern(index, 4096));
        }
        assert_ne!(queues[0].number(), queues[1].number());
    });
}

#[test]
fn losses_are_repaired() {
    on_loopback(|group| {
        let (a, host) = connected(group);
        let queue = host.queue();
        for device in [&a.device, &host.device] {
            let plan = FaultPlan { seed: 1, loss: 0.05, dup: 0.05, ..FaultPlan::default() };
            device.set_faults(Some(plan));
        }
        let bytes = pattern(1, 1 << 16);
        a.write(0, &bytes);
        for round in 0..20 {
            queue.post(round, 0, 1 << 16);
            send_to(&a, &queue, a.send_wr(1, SendOp::Send, 0, 1 << 16));
            send_to(&a, &queue, a.send_wr(2, SendOp::Read(queue.remote(0)), 1 << 16, 1 << 16));
            assert_eq!((a.sent().wr_id, a.sent().wr_id), (1, 2));
            assert_eq!(next(&queue.cq).wr_id, round);
            assert_eq!(a.read(1 << 16, 1 << 16), bytes);
        }
    });
}

#[test]
fn a_queue_of_another_domain_is_refused() {
    on_loopback(|group| {
        let (a, host) = connected(group);
        let other = Host { xrcd: host.device.open_xrcd().unwrap(), device: host.device.clone(), target: host.target };
        let queue = other.queue();
        queue.post(1, 0, 64);
        send_to(&a, &queue, a.send_wr(1, SendOp::Send, 0, 64));
        assert_eq!(next(&a.send_cq).status, Status::RemoteInvalidRdRequest);
        assert_eq!(a.qp.failure(), Some(Reason::PeerRefused(NakCode::InvalidRdRequest)));
        assert_eq!(other.target.state(), QpState::Error);
        let event = |event| Some(AsyncEvent::Qp { qpn: other.target.qpn(), event });
        assert_eq!(other.device.next_event(), event(QpEvent::LastWqeReached));
        assert_eq!(other.device.next_event(), event(QpEvent::RequestError));
        assert_eq!(other.device.counters().get("drop_xrc_srq"), 1);
    });
}

#[test]
fn keys_are_those_of_the_queue_that_is_named() {
    on_loopback(|group| {
        let (a, host) = connected(group);
        let (queue, stranger) = (host.queue(), host.queue());
        a.write(0, &pattern(1, 64));
        send_to(&a, &queue, a.send_wr(1, SendOp::Write(queue.remote(0)), 0, 64));
        a.sent();
        assert_eq!(queue.read(0, 64), pattern(1, 64));
        send_to(&a, &stranger, a.send_wr(2, SendOp::Write(queue.remote(0)), 0, 64));
        assert_eq!(next(&a.send_cq).status, Status::RemoteAccess);
    });
}

#[test]
fn a_queue_that_was_destroyed_is_unknown() {
    on_loopback(|group| {
        let (a, host) = connected(group);
        let queue = host.queue();
        queue.srq.destroy().unwrap();
        send_to(&a, &queue, a.send_wr(1, SendOp::Send, 0, 64));
        assert_eq!(next(&a.send_cq).status, Status::RemoteInvalidRdRequest);
        queue.cq.destroy().unwrap();
        queue.mr.deregister().unwrap();
        drop(queue.mr);
        queue.pd.destroy().unwrap();
    });
}

#[test]
fn an_overrun_of_a_queues_completions_fails_the_targets_of_its_domain() {
    on_loopback(|group| {
        let (a, host) = connected(group);
        let pd = host.device.alloc_pd().unwrap();
        let cq = host.device.create_cq(1, None, 9).unwrap();
        let srq = host.device.create_xrc_srq(&pd, &host.xrcd, &cq, &ATTR).unwrap();
        srq.post((0..2).map(|wr_id| RecvWr { wr_id, sgl: smallvec![] })).unwrap();
        for _ in 0..2 {
            let wr = SendWr { payload: Payload::empty(), ..a.send_wr(1, SendOp::Send, 0, 0) };
            a.qp.post_send([SendWr { xrc_srq: srq.number(), ..wr }]).unwrap();
        }
        wait_until("the failure", || host.target.state() == QpState::Error);
        assert_eq!(host.target.failure(), Some(Reason::CompletionQueueOverrun));
    });
}

#[test]
fn domains_are_busy_while_they_have_queues_or_queue_pairs() {
    on_loopback(|group| {
        let (_a, host) = connected(group);
        let queue = host.queue();
        assert!(matches!(host.xrcd.destroy(), Err(Error::Busy { users: 2, .. })));
        assert!(matches!(queue.cq.destroy(), Err(Error::Busy { .. })));
        assert!(matches!(queue.pd.destroy(), Err(Error::Busy { .. })));
        queue.srq.destroy().unwrap();
        assert!(matches!(host.xrcd.destroy(), Err(Error::Busy { users: 1, .. })));
        host.target.destroy().unwrap();
        host.xrcd.destroy().unwrap();
        assert!(matches!(host.device.create_xrc_recv_qp(&host.xrcd), Err(Error::Destroyed(_))));
    });
}

#[test]
fn dropping_destroys() {
    on_loopback(|group| {
        let (_a, host) = connected(group);
        let queue = host.queue();
        let Queue { srq, mr, .. } = queue;
        drop((srq, mr));
        queue.cq.destroy().unwrap();
        queue.pd.destroy().unwrap();
        drop(host.target);
        host.xrcd.destroy().unwrap();
    });
}

#[test]
fn each_call_makes_only_its_kind_of_queue_pair() {
    on_loopback(|group| {
        let (a, host) = connected(group);
        let spec = QpSpec {
            qp_type: QpType::XrcRecv,
            pd: &a.pd,
            send_cq: &a.send_cq,
            recv_cq: &a.recv_cq,
            srq: None,
            caps: CAPS,
            signal_all: false,
        };
        assert!(matches!(a.device.create_qp(&spec), Err(Error::Invalid(_))));
        let srq = a.device.create_srq(&a.pd, 4, 1, 0).unwrap();
        assert_eq!(srq.number(), None);
        let spec = QpSpec { qp_type: QpType::XrcSend, srq: Some(&srq), ..spec };
        assert!(matches!(a.device.create_qp(&spec), Err(Error::Invalid(_))));
        assert_eq!((a.qp.caps().max_recv_wr, a.qp.caps().max_send_wr), (0, CAPS.max_send_wr));
        assert_eq!(host.target.qp_type(), QpType::XrcRecv);
        let posted = host.target.post_send([a.send_wr(1, SendOp::Send, 0, 8)]);
        assert_eq!(posted.unwrap_err().errno(), libc::EINVAL);
        let refused = a.device.create_xrc_recv_qp(&host.xrcd);
        assert!(matches!(refused, Err(Error::OtherDevice(_))), "two devices");
        assert!(a.pd.allocate(64, Access::LOCAL_WRITE).is_ok());
    });
}
