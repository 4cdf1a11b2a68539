//! Windows, credits, receivers that are not ready, fences, draining.

use super::*;
use crate::attr::{AttrMask, QpAttr, QpState};
use crate::host::QpEvent;
use crate::testing::{PacketFate, Side};
use crate::time::Time;
use crate::wr::SendFlags;

#[test]
fn what_is_in_flight_is_bounded_by_the_window() {
    let mut setup = setup();
    setup.tuning.window_initial_bytes = 4 << 10;
    setup.tuning.window_max_bytes = 4 << 10;
    let mut pair = Pair::connected(&setup);
    let len = 100_000;
    let data = pattern(len, 1);
    let (from, target) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(len));
    let back = pair.a.host.memory.region(len);
    pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
    pair.a.send(send_wr(2, SendOp::Read(target.remote(0)), payload(&back)));
    let window_packets = (4 << 10) / 256;
    loop {
        let before = pair.sent.len();
        if !pair.round(&mut |_, _| PacketFate::Pass) {
            break;
        }
        assert!(pair.sent.len() - before <= 2 * window_packets + 2, "a round carries a window at most");
    }
    assert_eq!(pair.a.host.take_sent(), successes([1, 2]));
    assert_eq!(pair.a.host.memory.bytes(&back), data);
}

#[test]
fn credits_keep_a_sender_from_running_into_an_empty_queue() {
    let mut pair = pair();
    let to = pair.b.host.memory.region(64);
    post_recv(&mut pair, 0, &to);
    pair.a.send(send_wr(0, SendOp::Send, Payload::empty()));
    pair.pump(); // the ACK says: no receive WQE is posted
    for id in 1..6 {
        post_recv(&mut pair, id, &to);
        pair.pump();
    }
    for id in 1..6 {
        pair.a.send(send_wr(id, SendOp::Send, Payload::empty()));
    }
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes(0..6));
    assert_eq!(pair.b.qp.counters().tx_rnr_naks, 0);
    assert_eq!(pair.a.qp.counters().rx_rnr_naks, 0);
}

#[test]
fn a_late_receive_is_waited_for() {
    let mut pair = pair();
    let data = pattern(1000, 2);
    let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(1000));
    pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
    pair.pump();
    assert_eq!(pair.b.qp.counters().tx_rnr_naks, 1);
    assert_eq!(pair.b.qp.counters().tx_sequence_naks, 0, "what followed draws no second NAK");
    assert!(pair.a.host.sent.is_empty());
    post_recv(&mut pair, 5, &to);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.b.host.memory.bytes(&to), data);
}

#[test]
fn rnr_waits_as_long_as_the_peer_asks() {
    let mut pair = pair();
    pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.pump();
    let wait = wire::rnr_timer(setup().min_rnr_timer);
    let until = pair.a.qp.next_timeout().expect("a timer");
    assert!(until >= Time(0) + wait && until <= pair.now + wait);
}

#[test]
fn rnr_retries_end_unless_they_are_seven() {
    let mut pair = pair();
    pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.a.send(send_wr(2, SendOp::Send, Payload::empty()));
    pair.run();
    let flushed = (2, Status::WorkRequestFlushed);
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RnrRetryExceeded), flushed]);
    assert_eq!(pair.a.qp.counters().rx_rnr_naks, 4, "once and three retries");

    let mut pair = Pair::connected(&Setup { rnr_retry: 7, ..setup() });
    let to = pair.b.host.memory.region(8);
    pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
    for _ in 0..50 {
        pair.pump();
        assert!(pair.elapse());
    }
    post_recv(&mut pair, 1, &to);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
}

#[test]
fn a_fence_waits_for_reads() {
    let mut pair = pair();
    let (source, target) = (pair.b.host.memory.filled(&[7; 600]), pair.b.host.memory.region(600));
    let buffer = pair.a.host.memory.region(600);
    pair.a.send(send_wr(1, SendOp::Read(source.remote(0)), payload(&buffer)));
    let mut write = send_wr(2, SendOp::Write(target.remote(0)), payload(&buffer));
    write.flags |= SendFlags::FENCE;
    pair.a.send(write);
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([1, 2]));
    assert_eq!(pair.b.host.memory.bytes(&target), [7; 600], "the WRITE sent what the READ brought");
}

#[test]
fn reads_and_atomics_stay_within_the_agreed_depth() {
    let mut pair = Pair::connected(&Setup { max_rd_atomic: 2, max_dest_rd_atomic: 2, ..setup() });
    let (old, counter) = (pair.a.host.memory.region(8), pair.b.host.memory.region(8));
    for id in 0..20 {
        pair.a.send(fetch_add(id, &old, &counter, 1));
    }
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes(0..20));
    assert_eq!(word(&pair.b.host.memory.bytes(&counter)), 20);

    let mut pair = Pair::connected(&Setup { max_rd_atomic: 8, max_dest_rd_atomic: 2, ..setup() });
    let (old, counter) = (pair.a.host.memory.region(8), pair.b.host.memory.region(8));
    for id in 0..8 {
        pair.a.send(fetch_add(id, &old, &counter, 1));
    }
    pair.pump();
    let (id, status) = pair.a.host.take_sent()[2];
    assert_eq!((id, status), (2, Status::RemoteInvalidRequest), "one more than the responder agreed to");
}

#[test]
fn sqd_finishes_what_was_begun_and_says_so() {
    let mut pair = pair();
    let (from, target) = (pair.a.host.memory.filled(&pattern(1000, 3)), pair.b.host.memory.region(1000));
    pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
    let (first, transmit) = pair.a.poll(pair.now).expect("a packet");
    pair.a.send(send_wr(2, SendOp::Write(target.remote(0)), payload(&from)));
    let attr = QpAttr { state: QpState::Sqd, notify_drained: true, ..QpAttr::default() };
    pair.a.modify(&attr, AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY);
    assert!(pair.a.qp.query().draining);
    pair.deliver(Side::A, &first, &transmit);
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.a.host.events, [QpEvent::SendQueueDrained]);
    assert!(!pair.a.qp.query().draining);
    pair.a.go(QpState::Rts);
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([2]));
}

#[test]
fn shared_receive_queues_serve_in_order() {
    let mut pair = Pair::connected(&Setup { shared_recv: true, ..setup() });
    let to = pair.b.host.memory.region(64);
    pair.b.host.shared.extend((10..13).map(|id| recv_wr(id, to.sgl())));
    for id in 0..3 {
        pair.a.send(send_wr(id, SendOp::Send, Payload::empty()));
    }
    pair.pump();
    assert_eq!(pair.b.host.take_received(), successes(10..13));
    pair.b.go(QpState::Error);
    assert_eq!(pair.b.host.events, [QpEvent::LastWqeReached]);
}

#[test]
fn what_is_held_back_waits_and_the_rest_does_not() {
    let mut pair = pair();
    let data = pattern(3000, 5);
    let (from, target) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(3000));
    let other = pair.a.host.memory.region(16);
    pair.a.qp.hold_requests(true);
    pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
    assert!(pair.a.qp.is_held_back() && !pair.a.qp.wants_transmit());
    assert_eq!(pair.a.qp.in_flight_bytes(), 0);
    // It answers the peer meanwhile.
    let word = pair.b.host.memory.filled(&[9; 16]);
    pair.b.send(send_wr(2, SendOp::Write(other.remote(0)), payload(&word)));
    pair.pump();
    assert_eq!(pair.b.host.take_sent(), successes([2]));
    assert!(pair.a.host.take_sent().is_empty());
    pair.a.qp.hold_requests(false);
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.b.host.memory.bytes(&target), data);
}

#[test]
fn what_is_sent_again_is_not_held_back() {
    let mut pair = pair();
    let data = pattern(3000, 5);
    let (from, target) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(3000));
    pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
    let mut lost = 0;
    pair.round(&mut |_, _| {
        lost += 1;
        if lost == 2 { PacketFate::Drop } else { PacketFate::Pass }
    });
    pair.a.qp.hold_requests(true);
    assert!(pair.a.qp.in_flight_bytes() > 0);
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!((pair.a.qp.in_flight_bytes(), pair.b.host.memory.bytes(&target)), (0, data));
}

/// Between Longarm peers unsignaled requests get one ACK for 32 requests, or a delayed one.
#[test]
fn what_nobody_waits_for_is_acknowledged_in_a_while() {
    let mut setup = setup();
    setup.caps.max_send_wr = 128;
    let mut pair = Pair::connected(&setup);
    let (from, target) = (pair.a.host.memory.filled(&[7; 8]), pair.b.host.memory.region(8));
    let quiet =
        |id| SendWr { flags: SendFlags::empty(), ..send_wr(id, SendOp::Write(target.remote(0)), payload(&from)) };
    pair.a.send(send_wr(0, SendOp::Write(target.remote(0)), payload(&from)));
    pair.pump(); // from its answer we know the peer
    let acks = |pair: &Pair| pair.b.qp.counters().tx_acks;
    let before = acks(&pair);
    for id in 1..=40 {
        pair.a.send(quiet(id));
        assert!(pair.round(&mut |_, _| PacketFate::Pass));
    }
    while pair.round(&mut |_, _| PacketFate::Pass) {}
    assert_eq!(acks(&pair) - before, 1);
    assert!(!pair.a.qp.awaits_answer() && pair.a.qp.in_flight_bytes() > 0);
    let at = pair.b.qp.next_timeout().unwrap();
    pair.b.qp.handle_timeout(at, &mut pair.b.host);
    pair.pump();
    assert_eq!((acks(&pair) - before, pair.a.qp.in_flight_bytes()), (2, 0));
    assert_eq!(pair.b.qp.next_timeout(), None);
    // A queue pair that is about to be destroyed does not wait.
    pair.a.send(quiet(41));
    while pair.round(&mut |_, _| PacketFate::Pass) {}
    pair.b.qp.ack_now();
    assert!(pair.b.qp.ack_due());
    pair.pump();
    assert_eq!((acks(&pair) - before, pair.a.qp.in_flight_bytes()), (3, 0));
    assert_eq!(pair.a.qp.counters().probes, 0);
}

/// ACKs bring credits, so they are asked for before the credits run out: no SEND waits for a delayed one.
#[test]
fn sends_that_nobody_waits_for_do_not_run_out_of_credits() {
    let mut pair = pair();
    let (from, into) = (pair.a.host.memory.filled(&[7; 8]), pair.b.host.memory.region(8));
    for id in 0..12 {
        pair.b.recv(recv_wr(id, into.sgl()));
    }
    pair.a.send(send_wr(0, SendOp::Send, payload(&from)));
    pair.pump();
    assert_eq!(pair.b.host.take_received().len(), 1);
    for id in 1..=40 {
        pair.b.recv(recv_wr(100 + id, into.sgl()));
        pair.a.send(SendWr { flags: SendFlags::empty(), ..send_wr(id, SendOp::Send, payload(&from)) });
        while pair.round(&mut |_, _| PacketFate::Pass) {}
        assert_eq!(pair.b.host.take_received().len(), 1, "message {id}");
    }
}
