//! Refusals of modify, and what a successful one takes over.

use wire::{Gid, Psn, QKey, Qpn};

use crate::attr::QpState::{self, Error, Init, Reset, Rtr, Rts, Sqd, Sqe};
use crate::attr::{AttrMask as M, Mtu, QpAttr, QpType};
use crate::error::ModifyError;
use crate::memory::Access;
use crate::testing::{Node, Pair, Setup, send_wr};
use crate::time::Time;
use crate::wr::{AddressVector, Payload, SendOp};

fn modify(node: &mut Node, attr: &QpAttr, mask: M) -> Result<(), ModifyError> {
    node.qp.modify(attr, mask, &mut node.host)
}

/// A queue pair of `service` in `state`, reached by the fewest steps.
fn node_in(service: QpType, state: QpState) -> Node {
    let setup = Setup::new(service);
    if state == Reset || state == Init {
        let mut node = Node::new(&setup, 1);
        if state == Init {
            node.enter_init(&setup);
        }
        return node;
    }
    let mut node = Pair::ready_to_receive(&setup).a;
    if state == Rtr {
        return node;
    }
    node.enter_rts(&setup);
    match state {
        Sqd | Error => node.go(state),
        Sqe => fail_a_send(&mut node, service),
        _ => {}
    }
    node
}

fn fail_a_send(node: &mut Node, service: QpType) {
    let mut memory = node.host.memory.region(8);
    memory.lkey.0 ^= 1 << 20;
    let mut wr = send_wr(1, SendOp::Send, Payload::Sgl(memory.sgl()));
    if service == QpType::Ud {
        wr.datagram = Some(crate::testing::datagram(node.path_to(node), Qpn::new(0x123)));
    }
    node.send(wr);
    assert!(node.poll(Time(0)).is_none());
    assert_eq!(node.qp.state(), Sqe);
    node.host.sent.clear();
}

/// Good values for everything.
fn good(node: &Node, state: QpState) -> QpAttr {
    QpAttr {
        state,
        current_state: node.qp.state(),
        address: node.path_to(&Node::new(&Setup::new(QpType::Rc), 2)),
        dest_qpn: Qpn::new(0x22),
        rnr_retry: 7,
        retry_count: 7,
        timeout: 31,
        min_rnr_timer: 31,
        max_rd_atomic: 1,
        max_dest_rd_atomic: 1,
        rq_psn: Psn::new(5),
        sq_psn: Psn::new(6),
        qkey: QKey(9),
        ..QpAttr::default()
    }
}

const SERVICES: [QpType; 5] = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcSend, QpType::XrcRecv];

const CONNECT: M = M::STATE.union(M::AV).union(M::PATH_MTU).union(M::DEST_QPN).union(M::RQ_PSN);

/// The attributes that each service needs from Reset to RTS.
fn ladder(service: QpType) -> [(QpState, M); 3] {
    let init = M::STATE | M::PKEY_INDEX | M::PORT;
    match service {
        QpType::XrcSend => [
            (Init, init | M::ACCESS_FLAGS),
            (Rtr, CONNECT),
            (Rts, M::STATE | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC),
        ],
        QpType::XrcRecv => [
            (Init, init | M::ACCESS_FLAGS),
            (Rtr, CONNECT | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER),
            (Rts, M::STATE | M::TIMEOUT | M::SQ_PSN),
        ],
        QpType::Rc => [
            (Init, init | M::ACCESS_FLAGS),
            (Rtr, CONNECT | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER),
            (Rts, M::STATE | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC),
        ],
        QpType::Uc => [(Init, init | M::ACCESS_FLAGS), (Rtr, CONNECT), (Rts, M::STATE | M::SQ_PSN)],
        QpType::Ud => [(Init, init | M::QKEY), (Rtr, M::STATE), (Rts, M::STATE | M::SQ_PSN)],
    }
}

#[test]
fn every_attribute_of_the_ladder_is_needed() {
    for service in SERVICES {
        let mut node = Node::new(&Setup::new(service), 1);
        for (state, mask) in ladder(service) {
            let attr = good(&node, state);
            for missing in (mask - M::STATE).iter() {
                let refused = modify(&mut node, &attr, mask - missing);
                assert_eq!(refused, Err(ModifyError::Missing(missing)), "{service:?} -> {state:?}");
            }
            modify(&mut node, &attr, mask).expect("all that is needed");
            assert_eq!(node.qp.state(), state);
        }
    }
}

#[test]
fn steps_that_the_table_does_not_have_are_refused() {
    let rc_uc = [(Reset, Rtr), (Reset, Rts), (Init, Rts), (Init, Sqd), (Rtr, Init), (Rtr, Rtr), (Rtr, Sqd), (Rts, Rtr)];
    let more = [(Sqd, Rtr), (Sqd, Init), (Error, Init), (Error, Rts), (Reset, Sqe), (Rts, Sqe), (Error, Sqe)];
    for service in SERVICES {
        for (from, to) in rc_uc.into_iter().chain(more) {
            let mut node = node_in(service, from);
            let attr = good(&node, to);
            let refused = modify(&mut node, &attr, M::STATE);
            assert_eq!(refused, Err(ModifyError::NoTransition { from, to }), "{service:?}");
            assert_eq!(node.qp.state(), from);
        }
    }
}

#[test]
fn reset_and_error_are_reached_from_everywhere() {
    for service in SERVICES {
        for from in [Reset, Init, Rtr, Rts, Sqd, Sqe, Error] {
            for to in [Reset, Error] {
                if service.is_reliable() && from == Sqe {
                    continue; // They have no such state.
                }
                let mut node = node_in(service, from);
                node.go(to);
                assert_eq!(node.qp.state(), to, "{service:?} from {from:?}");
            }
        }
    }
}

#[test]
fn attributes_in_the_wrong_place_are_refused() {
    let cases = [
        (QpType::Rc, Reset, Init, ladder(QpType::Rc)[0].1, M::QKEY),
        (QpType::Ud, Reset, Init, ladder(QpType::Ud)[0].1, M::ACCESS_FLAGS),
        (QpType::Uc, Init, Rtr, CONNECT, M::MAX_DEST_RD_ATOMIC),
        (QpType::Uc, Init, Rtr, CONNECT, M::MIN_RNR_TIMER),
        (QpType::Ud, Init, Rtr, M::STATE, M::AV),
        (QpType::Ud, Rtr, Rts, M::STATE | M::SQ_PSN, M::TIMEOUT),
        (QpType::Rc, Rts, Rts, M::STATE, M::PATH_MTU),
        (QpType::Rc, Rts, Rts, M::empty(), M::SQ_PSN),
        (QpType::Rc, Rts, Sqd, M::STATE, M::AV),
        (QpType::Uc, Sqd, Sqd, M::STATE, M::PORT),
        (QpType::Rc, Rts, Error, M::STATE, M::CUR_STATE),
        (QpType::Rc, Rts, Reset, M::STATE, M::RQ_PSN),
    ];
    for (service, from, to, mask, wrong) in cases {
        let mut node = node_in(service, from);
        let attr = good(&node, to);
        let refused = modify(&mut node, &attr, mask | wrong);
        assert_eq!(refused, Err(ModifyError::NotAllowed(wrong)), "{service:?} {from:?} -> {to:?}");
    }
}

#[test]
fn values_out_of_range_are_refused() {
    type Spoil = fn(&mut QpAttr);
    let cases: [(usize, Spoil, &str, u64); 9] = [
        (0, |a| a.port = 0, "port", 0),
        (0, |a| a.port = 2, "port", 2),
        (0, |a| a.pkey_index = 1, "pkey_index", 1),
        (1, |a| a.min_rnr_timer = 32, "min_rnr_timer", 32),
        (1, |a| a.address.flow_label = 1 << 20, "flow_label", 1 << 20),
        (2, |a| a.timeout = 32, "timeout", 32),
        (2, |a| a.retry_count = 8, "retry_count", 8),
        (2, |a| a.rnr_retry = 8, "rnr_retry", 8),
        (2, |a| a.rnr_retry = 255, "rnr_retry", 255),
    ];
    for (rung, spoil, attribute, value) in cases {
        let mut node = node_in(QpType::Rc, [Reset, Init, Rtr][rung]);
        let before = node.qp.query();
        let (state, mask) = ladder(QpType::Rc)[rung];
        let mut attr = good(&node, state);
        spoil(&mut attr);
        assert_eq!(modify(&mut node, &attr, mask), Err(ModifyError::Value { attribute, value }));
        assert_eq!(node.qp.query(), before, "nothing changes on an error");
    }
}

#[test]
fn paths_that_lead_nowhere_are_refused() {
    let gid = |text: &str| Gid::from(text.parse::<core::net::IpAddr>().expect("an address"));
    let (v4, v6) = (gid("10.0.0.1"), gid("fd00::2"));
    let cases = [
        (Gid::default(), v4, "it has no source GID"),
        (v4, Gid::default(), "it has no destination GID"),
        (v4, gid("239.1.2.3"), "its destination is a multicast group"),
        (v6, gid("ff0e::1"), "its destination is a multicast group"),
        (v4, v6, "one GID is IPv4, the other IPv6"),
    ];
    for (source, destination, wrong) in cases {
        let mut node = node_in(QpType::Rc, Init);
        let (state, mask) = ladder(QpType::Rc)[1];
        let attr = QpAttr { address: AddressVector::new(source, destination), ..good(&node, state) };
        assert_eq!(modify(&mut node, &attr, mask), Err(ModifyError::Path(wrong)));
    }
}

#[test]
fn what_the_device_does_not_have_is_refused_as_such() {
    for unsupported in [M::ALT_PATH, M::PATH_MIG_STATE, M::RATE_LIMIT] {
        let mut node = node_in(QpType::Rc, Rtr);
        let attr = good(&node, Rts);
        let refused = modify(&mut node, &attr, ladder(QpType::Rc)[2].1 | unsupported).expect_err("not supported");
        assert!(matches!(refused, ModifyError::Unsupported(_)), "{refused}");
        assert_eq!(refused.errno(), 95);
        assert_eq!(node.qp.state(), Rtr);
    }
}

#[test]
fn a_wrong_belief_about_the_state_is_refused() {
    let mut node = node_in(QpType::Uc, Sqe);
    let attr = QpAttr { current_state: Sqd, ..good(&node, Rts) };
    let refused = modify(&mut node, &attr, M::STATE | M::CUR_STATE);
    assert_eq!(refused, Err(ModifyError::NotInState { is: Sqe, claimed: Sqd }));
    assert_eq!(refused.map_err(|e| e.errno()), Err(22));
    let attr = good(&node, Rts);
    modify(&mut node, &attr, M::STATE | M::CUR_STATE).expect("the right belief");
    assert_eq!(node.qp.state(), Rts);
    assert_eq!(node.qp.failure(), None);
}

#[test]
fn only_masked_attributes_are_taken_over() {
    let mut node = node_in(QpType::Rc, Init);
    let (state, mask) = ladder(QpType::Rc)[1];
    let attr = QpAttr { access: Access::REMOTE_READ, qkey: QKey(77), path_mtu: Mtu::B4096, ..good(&node, state) };
    let before = node.qp.query();
    modify(&mut node, &attr, mask).expect("Init -> RTR");
    let after = node.qp.query();
    assert_eq!(after.path_mtu, Mtu::B4096);
    assert_eq!((after.dest_qpn, after.rq_psn, after.address), (attr.dest_qpn, attr.rq_psn, attr.address));
    assert_eq!((after.access, after.qkey, after.timeout), (before.access, before.qkey, before.timeout));
    let attr = QpAttr { access: Access::REMOTE_WRITE, ..good(&node, Rts) };
    modify(&mut node, &attr, ladder(QpType::Rc)[2].1).expect("RTR -> RTS");
    assert_eq!(node.qp.query().access, before.access);
    assert_eq!(node.qp.query().sq_psn, Psn::new(6));
}

#[test]
fn the_source_port_follows_the_path() {
    for (flow_label, mask) in [(0, M::empty()), (0x1_2345, M::AV)] {
        let mut pair = Pair::connected(&Setup::new(QpType::Rc));
        pair.a.go(Sqd);
        let mut attr = pair.a.qp.query();
        attr.address.flow_label = flow_label;
        modify(&mut pair.a, &attr, mask).expect("SQD -> SQD");
        pair.a.go(Rts);
        pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
        let (_, transmit) = pair.a.poll(Time(0)).expect("a packet");
        assert_eq!(transmit.source_port, wire::source_port(flow_label, pair.a.qp.qpn(), pair.b.qp.qpn()));
        assert_eq!(transmit.address.flow_label, flow_label);
    }
}

#[test]
fn reset_gives_back_what_a_message_took_from_a_shared_queue() {
    for service in [QpType::Rc, QpType::Uc] {
        for shared_recv in [true, false] {
            let mut pair = Pair::connected(&Setup { shared_recv, ..Setup::new(service) });
            let from = pair.a.host.memory.region(700);
            let to = pair.b.host.memory.region(700);
            let wr = crate::testing::recv_wr(5, to.sgl());
            match shared_recv {
                true => pair.b.host.shared.push_back(wr),
                false => pair.b.recv(wr),
            }
            pair.a.send(send_wr(1, SendOp::Send, Payload::Sgl(from.sgl())));
            let (first, transmit) = pair.a.poll(Time(0)).expect("a packet");
            pair.deliver(crate::testing::Side::A, &first, &transmit);
            pair.b.go(Reset);
            let flushed = vec![(5, crate::completion::Status::WorkRequestFlushed)];
            let expected = if shared_recv { flushed } else { Vec::new() };
            assert_eq!(pair.b.host.take_received(), expected, "{service:?}");
            assert!(pair.b.host.events.is_empty());
        }
    }
}

#[test]
fn reset_forgets_everything() {
    let setup = Setup::new(QpType::Uc);
    let mut pair = Pair::connected(&setup);
    pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.a.go(Reset);
    assert_eq!(pair.a.qp.query(), Node::new(&setup, 1).qp.query());
    assert!(!pair.a.qp.wants_transmit());
    assert!(pair.a.host.sent.is_empty(), "reset gives no completions");
}
