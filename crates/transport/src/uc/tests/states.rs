//! SQE, SQD and Error.

use super::*;
use crate::attr::{AttrMask, QpAttr, QpState};
use crate::host::QpEvent;
use crate::reason::Reason;
use crate::testing::send_wr;
use crate::time::Time;
use crate::wr::SendOp;

const FLUSHED: Status = Status::WorkRequestFlushed;

#[test]
fn a_failed_send_stops_the_send_queue_only() {
    let mut pair = pair();
    let (good, gone) = (pair.a.host.memory.filled(&pattern(600, 1)), pair.a.host.memory.region(600));
    let to = pair.b.host.memory.region(600);
    for wr_id in 0..4 {
        pair.b.recv(recv_wr(wr_id, to.sgl()));
    }
    pair.a.send(send_wr(1, SendOp::Send, payload(&good)));
    pair.a.send(send_wr(2, SendOp::Send, payload(&gone)));
    pair.a.send(send_wr(3, SendOp::Send, payload(&good)));
    for _ in 0..4 {
        let (bytes, transmit) = pair.a.poll(Time(0)).expect("a packet");
        pair.deliver(crate::testing::Side::A, &bytes, &transmit);
    }
    pair.a.host.memory.kill(&gone);
    pair.pump();
    assert_eq!(pair.a.qp.state(), QpState::Sqe);
    assert!(matches!(pair.a.qp.failure(), Some(Reason::LocalMemory(_))));
    assert_eq!(pair.a.host.take_sent(), [(1, Status::Success), (2, Status::LocalProtection), (3, FLUSHED)]);

    // Posted sends are flushed; receiving continues.
    pair.a.send(send_wr(4, SendOp::Send, payload(&good)));
    assert_eq!(pair.a.host.take_sent(), [(4, FLUSHED)]);
    pair.a.recv(recv_wr(9, Default::default()));
    pair.b.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.pump();
    assert_eq!(pair.a.host.take_received(), successes([9]));

    // Back to RTS, and the next message arrives whole in the WQE of the broken one.
    pair.a.go(QpState::Rts);
    assert_eq!(pair.a.qp.failure(), None);
    pair.a.send(send_wr(5, SendOp::Send, payload(&good)));
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([5]));
    assert_eq!(pair.b.host.take_received(), successes([0, 1]));
}

#[test]
fn failed_local_operations_stop_the_send_queue_too() {
    let key = wire::RKey(0xbad);
    let bind = crate::memory::BindMw {
        window: key,
        new_rkey: key,
        region: crate::memory::LKey(1),
        addr: 0,
        len_bytes: 8,
        access: crate::memory::Access::REMOTE_WRITE,
    };
    for (op, status) in [(SendOp::Bind(bind), Status::MwBind), (SendOp::LocalInvalidate(key), Status::MwBind)] {
        let mut pair = pair();
        pair.a.send(send_wr(1, op, Payload::empty()));
        pair.a.send(send_wr(2, SendOp::Send, Payload::empty()));
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), [(1, status), (2, FLUSHED)]);
        assert_eq!(pair.a.qp.state(), QpState::Sqe);
        assert!(pair.sent.is_empty());
    }
}

fn drain(pair: &mut Pair, notify: bool) {
    let attr = QpAttr { state: QpState::Sqd, notify_drained: notify, ..QpAttr::default() };
    pair.a.modify(&attr, AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY);
}

#[test]
fn sqd_finishes_the_message_begun_and_says_so_once() {
    for notify in [true, false] {
        let mut pair = pair();
        let from = pair.a.host.memory.filled(&pattern(600, 1));
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.a.send(send_wr(2, SendOp::Send, payload(&from)));
        pair.a.poll(Time(0)).expect("a packet");
        drain(&mut pair, notify);
        assert!(pair.a.qp.query().draining && pair.a.qp.wants_transmit());
        assert!(pair.a.host.events.is_empty());
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([1]), "the second waits");
        assert!(!pair.a.qp.query().draining && !pair.a.qp.wants_transmit());
        let expected: &[_] = if notify { &[QpEvent::SendQueueDrained] } else { &[] };
        assert_eq!(pair.a.host.events, expected);

        pair.a.send(send_wr(3, SendOp::Send, payload(&from)));
        pair.pump();
        assert!(pair.a.host.sent.is_empty(), "SQD takes requests and starts none");
        pair.a.go(QpState::Rts);
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([2, 3]));
        assert_eq!(pair.a.host.events, expected);
    }
}

#[test]
fn an_idle_send_queue_is_drained_at_once() {
    let mut pair = pair();
    drain(&mut pair, true);
    assert_eq!(pair.a.host.events, [QpEvent::SendQueueDrained]);
    pair.a.go(QpState::Rts);
    pair.a.go(QpState::Sqd);
    assert_eq!(pair.a.host.events.len(), 1, "the wish was for the first time");
}

#[test]
fn a_failure_while_draining_leads_to_sqe() {
    let mut pair = pair();
    let gone = pair.a.host.memory.region(600);
    pair.a.send(send_wr(1, SendOp::Send, payload(&gone)));
    pair.a.send(send_wr(2, SendOp::Send, payload(&gone)));
    pair.a.poll(Time(0)).expect("a packet");
    drain(&mut pair, true);
    pair.a.host.memory.kill(&gone);
    pair.pump();
    assert_eq!(pair.a.qp.state(), QpState::Sqe);
    assert_eq!(pair.a.host.take_sent(), [(1, Status::LocalProtection), (2, FLUSHED)]);
    assert!(pair.a.host.events.is_empty());
}

#[test]
fn the_first_reason_counts() {
    let mut pair = pair();
    let gone = pair.a.host.memory.region(600);
    pair.a.host.memory.kill(&gone);
    pair.a.send(send_wr(1, SendOp::Send, payload(&gone)));
    pair.pump();
    pair.a.go(QpState::Error);
    assert!(matches!(pair.a.qp.failure(), Some(Reason::LocalMemory(_))), "and not the program's own wish");
    pair.b.go(QpState::Error);
    assert_eq!(pair.b.qp.failure(), Some(Reason::Requested));
}

#[test]
fn the_error_state_flushes_the_wqe_in_use_first() {
    for shared_recv in [false, true] {
        let mut pair = Pair::connected(&Setup { shared_recv, ..setup() });
        let (from, to) = (pair.a.host.memory.filled(&pattern(600, 1)), pair.b.host.memory.region(600));
        for wr_id in 0..3 {
            let wr = recv_wr(wr_id, to.sgl());
            if shared_recv { pair.b.host.shared.push_back(wr) } else { pair.b.recv(wr) }
        }
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        let (bytes, transmit) = pair.a.poll(Time(0)).expect("a packet");
        pair.deliver(crate::testing::Side::A, &bytes, &transmit);
        pair.b.go(QpState::Error);
        if shared_recv {
            assert_eq!(pair.b.host.take_received(), [(0, FLUSHED)]);
            assert_eq!(pair.b.host.events, [QpEvent::LastWqeReached]);
            assert_eq!(pair.b.host.shared.len(), 2);
        } else {
            assert_eq!(pair.b.host.take_received(), [(0, FLUSHED), (1, FLUSHED), (2, FLUSHED)]);
        }
        pair.a.go(QpState::Error);
        assert_eq!(pair.a.host.take_sent(), [(1, FLUSHED)]);
        pair.pump();
        assert!(pair.a.poll(Time(0)).is_none());
    }
}

#[test]
fn a_queue_pair_can_be_connected_again_after_reset() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&pattern(600, 1));
    pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
    pair.a.poll(Time(0)).expect("a packet");
    let path = pair.a.path_to(&pair.b);
    let peer = pair.b.qp.qpn();
    pair.a.go(QpState::Reset);
    pair.a.enter_init(&setup());
    pair.a.enter_rtr(&setup(), path, peer);
    pair.a.enter_rts(&setup());
    pair.b.recv(recv_wr(1, Default::default()));
    pair.a.send(send_wr(2, SendOp::Send, Payload::empty()));
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([2]));
    assert_eq!(pair.b.host.take_received(), successes([1]));
}
