//! Refusals of post.

use smallvec::{SmallVec, smallvec};
use wire::{Qpn, RKey};

use crate::attr::QpState::{self, Error, Init, Reset, Rtr, Rts, Sqd};
use crate::attr::{Mtu, QpType};
use crate::completion::Status;
use crate::error::PostError;
use crate::memory::{AtomicOp, BindMw, LKey, Sge};
use crate::reason::Reason;
use crate::testing::{Node, Pair, Setup, datagram, recv_wr, send_wr};
use crate::time::Time;
use crate::wr::{AddressVector, Payload, RemoteAddr, SendOp, SendWr, Sgl};

const AT: RemoteAddr = RemoteAddr { addr: 0, rkey: RKey(1) };
const ADD: SendOp = SendOp::Atomic(AT, AtomicOp::FetchAdd { add: 1 });

fn sges(lens: &[u32]) -> Payload {
    Payload::Sgl(lens.iter().map(|len| Sge { addr: 0, len_bytes: *len, lkey: LKey(1) }).collect())
}

fn inline(len: usize) -> Payload {
    Payload::Inline(SmallVec::from_elem(0, len))
}

fn post(node: &mut Node, op: SendOp, payload: Payload) -> Result<(), PostError> {
    let mut wr = send_wr(1, op, payload);
    match node.qp.qp_type() {
        QpType::Ud => wr.datagram = Some(datagram(node.path_to(node), Qpn::new(9))),
        QpType::XrcSend => wr.xrc_srq = Some(5),
        _ => {}
    }
    node.qp.post_send(wr, &mut node.host)
}

fn connected(setup: &Setup) -> Node {
    Pair::connected(setup).a
}

#[test]
fn sends_wait_for_rts() {
    for service in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let setup = Setup::new(service);
        let mut init = Node::new(&setup, 1);
        init.enter_init(&setup);
        let mut drained = connected(&setup);
        drained.go(Sqd);
        let ready = Pair::ready_to_receive(&setup).a;
        for (mut node, state, taken) in [
            (Node::new(&setup, 1), Reset, false),
            (init, Init, false),
            (ready, Rtr, false),
            (connected(&setup), Rts, true),
            (drained, Sqd, true),
        ] {
            let expected = if taken { Ok(()) } else { Err(PostError::WrongState { state }) };
            assert_eq!(post(&mut node, SendOp::Send, Payload::empty()), expected, "{service:?}");
            assert!(node.host.sent.is_empty());
        }
    }
}

#[test]
fn in_the_error_state_work_requests_are_flushed() {
    for service in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut node = connected(&Setup::new(service));
        node.go(Error);
        assert_eq!(post(&mut node, SendOp::Send, Payload::empty()), Ok(()));
        node.recv(recv_wr(2, Sgl::new()));
        assert_eq!(node.host.take_sent(), [(1, Status::WorkRequestFlushed)]);
        assert_eq!(node.host.take_received(), [(2, Status::WorkRequestFlushed)]);
    }
}

#[test]
fn each_service_has_its_operations() {
    let bind = BindMw {
        window: RKey(1),
        new_rkey: RKey(2),
        region: LKey(1),
        addr: 0,
        len_bytes: 0,
        access: crate::memory::Access::empty(),
    };
    let (rc, uc, ud, xrc) = (QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcSend);
    let table: [(SendOp, &str, &[QpType]); 9] = [
        (SendOp::Send, "SEND", &[rc, uc, ud, xrc]),
        (SendOp::SendImm(1), "SEND with immediate", &[rc, uc, ud, xrc]),
        (SendOp::SendInvalidate(RKey(1)), "SEND with invalidate", &[rc, xrc]),
        (SendOp::Write(AT), "WRITE", &[rc, uc, xrc]),
        (SendOp::WriteImm(AT, 1), "WRITE with immediate", &[rc, uc, xrc]),
        (SendOp::Read(AT), "READ", &[rc, xrc]),
        (ADD, "atomics", &[rc, xrc]),
        (SendOp::LocalInvalidate(RKey(1)), "local invalidate", &[rc, uc, xrc]),
        (SendOp::Bind(bind), "memory window bind", &[rc, uc, xrc]),
    ];
    for (op, name, services) in table {
        for service in [rc, uc, ud, xrc] {
            let payload = || if op == ADD { sges(&[8]) } else { Payload::empty() };
            let mut node = connected(&Setup::new(service));
            assert_eq!(post(&mut node, op, payload()), Ok(()), "{service:?} {name}");
            if services.contains(&service) {
                continue;
            }
            assert_eq!(post(&mut node, SendOp::Send, Payload::empty()), Ok(()));
            while node.poll(Time(0)).is_some() {}
            let expected = [(1, Status::LocalQpOperation), (1, Status::WorkRequestFlushed)];
            assert_eq!(node.host.take_sent(), expected, "{service:?} {name}");
            assert_eq!((node.qp.state(), node.qp.failure()), (QpState::Sqe, Some(Reason::NotForService(name))));
        }
        let mut target = connected(&Setup::new(QpType::XrcRecv));
        assert_eq!(post(&mut target, op, Payload::empty()), Err(PostError::NotForService { op: "sends" }), "{name}");
    }
}

/// UD: a datagram that is longer than the path MTU of the port fails when its turn comes, behind those before it.
#[test]
fn a_datagram_that_is_too_long_fails_in_its_turn() {
    let mut setup = Setup::new(QpType::Ud);
    setup.tuning.max_datagram = Mtu::B1024;
    let mut node = connected(&setup);
    let good = node.host.memory.region(1025);
    for len_bytes in [1024, 1025] {
        assert_eq!(post(&mut node, SendOp::Send, Payload::Sgl([good.sge(0, len_bytes)].into_iter().collect())), Ok(()));
    }
    while node.poll(Time(0)).is_some() {}
    assert_eq!(node.host.take_sent(), [(1, Status::Success), (1, Status::LocalLength)]);
    assert_eq!((node.qp.state(), node.qp.failure()), (QpState::Sqe, Some(Reason::DatagramTooLong)));
}

#[test]
fn addresses_of_datagrams_must_lead_somewhere() {
    let mut node = connected(&Setup::new(QpType::Ud));
    let good = node.path_to(&node);
    let v6 = wire::Gid::from(core::net::IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]));
    let group = wire::Gid::from(core::net::IpAddr::from([239, 0, 0, 1]));
    let path = PostError::Path;
    for (address, expected) in [
        (good, Ok(())),
        (AddressVector { destination: group, ..good }, Ok(())),
        (AddressVector { flow_label: 0xf_ffff, ..good }, Ok(())),
        (AddressVector { flow_label: 0x10_0000, ..good }, Err(path("its flow label has more than 20 bits"))),
        (AddressVector { source: wire::Gid::default(), ..good }, Err(path("it has no source GID"))),
        (AddressVector { destination: wire::Gid::default(), ..good }, Err(path("it has no destination GID"))),
        (AddressVector { destination: v6, ..good }, Err(path("one GID is IPv4, the other IPv6"))),
    ] {
        let datagram = Some(datagram(address, Qpn::new(9)));
        let wr = SendWr { datagram, ..send_wr(1, SendOp::Send, Payload::empty()) };
        assert_eq!(node.qp.post_send(wr, &mut node.host), expected, "{address:?}");
    }
}

#[test]
fn numbers_of_shared_receive_queues_are_for_xrc_initiators() {
    let wr = |op, xrc_srq| SendWr { xrc_srq, ..send_wr(1, op, Payload::empty()) };
    let refused = Err(PostError::XrcSrq);
    for (service, op, srq, expected) in [
        (QpType::XrcSend, SendOp::Send, Some(0xff_ffff), Ok(())),
        (QpType::XrcSend, SendOp::Send, Some(0x100_0000), refused),
        (QpType::XrcSend, SendOp::Send, None, refused),
        (QpType::XrcSend, SendOp::Write(AT), None, refused),
        (QpType::XrcSend, SendOp::LocalInvalidate(RKey(1)), None, Ok(())),
        (QpType::Rc, SendOp::Send, Some(0), refused),
        (QpType::Uc, SendOp::Send, Some(0), refused),
    ] {
        let mut node = connected(&Setup::new(service));
        assert_eq!(node.qp.post_send(wr(op, srq), &mut node.host), expected, "{service:?} {op:?} {srq:?}");
    }
}

#[test]
fn xrc_queue_pairs_have_no_receive_queue() {
    for service in [QpType::XrcSend, QpType::XrcRecv] {
        for state in [Init, Rts, Error] {
            let mut node =
                if state == Init { Node::new(&Setup::new(service), 1) } else { connected(&Setup::new(service)) };
            match state {
                Init => node.enter_init(&Setup::new(service)),
                Error => node.go(Error),
                _ => {}
            }
            let posted = node.qp.post_recv(recv_wr(1, Sgl::new()), &mut node.host);
            assert_eq!(posted, Err(PostError::NotForService { op: "receives" }), "{service:?} {state:?}");
        }
    }
}

#[test]
fn addresses_are_for_datagrams() {
    for service in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut node = connected(&Setup::new(service));
        let mut wr = send_wr(1, SendOp::Send, Payload::empty());
        if service != QpType::Ud {
            wr.datagram = Some(datagram(node.path_to(&node), Qpn::new(9)));
        }
        assert_eq!(node.qp.post_send(wr, &mut node.host), Err(PostError::Address), "{service:?}");
    }
}

#[test]
fn sizes_are_limited() {
    let (rc, uc, ud) = (QpType::Rc, QpType::Uc, QpType::Ud);
    let too_long = |max_bytes| Err(PostError::MessageTooLong { max_bytes });
    let read = SendOp::Read(AT);
    let cases: [(QpType, SendOp, Payload, Result<(), PostError>); 16] = [
        (rc, SendOp::Send, sges(&[0; 4]), Ok(())),
        (rc, SendOp::Send, sges(&[0; 5]), Err(PostError::TooManySges { max: 4 })),
        (uc, SendOp::Send, inline(64), Ok(())),
        (uc, SendOp::Send, inline(65), Err(PostError::InlineTooLong { max_bytes: 64 })),
        (rc, SendOp::Send, sges(&[1 << 30, 1 << 30]), Ok(())),
        (rc, SendOp::Send, sges(&[1 << 30, 1 << 30, 1]), too_long(1 << 31)),
        (uc, SendOp::Write(AT), sges(&[u32::MAX, u32::MAX]), too_long(1 << 31)),
        (rc, read, sges(&[u32::MAX]), too_long(1 << 31)),
        (ud, SendOp::Send, sges(&[1024]), Ok(())),
        (ud, SendOp::Send, sges(&[1024, 1]), Ok(())),
        (rc, read, inline(8), Err(PostError::InlineResult)),
        (rc, ADD, inline(8), Err(PostError::InlineResult)),
        (rc, ADD, sges(&[4, 4]), Ok(())),
        (rc, ADD, sges(&[7]), Err(PostError::AtomicLength)),
        (rc, ADD, sges(&[9]), Err(PostError::AtomicLength)),
        (rc, ADD, Payload::empty(), Err(PostError::AtomicLength)),
    ];
    for (service, op, payload, expected) in cases {
        let mut setup = Setup::new(service);
        setup.tuning.max_datagram = Mtu::B1024;
        let case = format!("{service:?} {op:?} {payload:?}");
        assert_eq!(post(&mut connected(&setup), op, payload), expected, "{case}");
    }
}

#[test]
fn reads_need_read_depth() {
    let mut node = connected(&Setup { max_rd_atomic: 0, ..Setup::new(QpType::Rc) });
    for (op, len) in [(SendOp::Read(AT), 1), (ADD, 8)] {
        assert_eq!(post(&mut node, op, sges(&[len])), Err(PostError::NoReadDepth));
    }
    assert_eq!(post(&mut node, SendOp::Write(AT), sges(&[1])), Ok(()));
}

#[test]
fn queues_fill_up() {
    for service in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut setup = Setup::new(service);
        (setup.caps.max_send_wr, setup.caps.max_recv_wr) = (2, 3);
        let mut node = connected(&setup);
        for _ in 0..2 {
            assert_eq!(post(&mut node, SendOp::Send, Payload::empty()), Ok(()));
        }
        let refused = post(&mut node, SendOp::Send, Payload::empty());
        assert_eq!(refused, Err(PostError::QueueFull { capacity: 2 }));
        assert_eq!(refused.map_err(|e| e.errno()), Err(12));
        for _ in 0..3 {
            node.recv(recv_wr(1, Sgl::new()));
        }
        let refused = node.qp.post_recv(recv_wr(1, Sgl::new()), &mut node.host);
        assert_eq!(refused, Err(PostError::QueueFull { capacity: 3 }));
    }
}

#[test]
fn receives_are_refused_in_reset_and_beside_a_shared_queue() {
    let setup = Setup::new(QpType::Uc);
    let recv = |node: &mut Node, sgl: Sgl| node.qp.post_recv(recv_wr(1, sgl), &mut node.host);
    let mut node = Node::new(&setup, 1);
    assert_eq!(recv(&mut node, Sgl::new()), Err(PostError::WrongState { state: Reset }));
    node.enter_init(&setup);
    assert_eq!(recv(&mut node, Sgl::new()), Ok(()));
    let too_many = smallvec![Sge::default(); 5];
    assert_eq!(recv(&mut node, too_many), Err(PostError::TooManySges { max: 4 }));
    let mut shared = connected(&Setup { shared_recv: true, ..setup });
    let refused = recv(&mut shared, Sgl::new());
    assert_eq!(refused, Err(PostError::SharedRecv));
    assert_eq!(refused.map_err(|e| e.errno()), Err(22));
}

#[test]
fn a_refused_request_leaves_no_trace() {
    let mut node = connected(&Setup::new(QpType::Uc));
    post(&mut node, SendOp::Send, inline(65)).expect_err("it was made for 64 bytes");
    assert_eq!((node.qp.state(), node.qp.wants_transmit()), (QpState::Rts, false));
    assert!(node.host.sent.is_empty());
}
