//! The packets of UC, and the end of a request.

use wire::{Opcode, Psn};

use super::*;
use crate::testing::{PacketFate, Side, send_wr};
use crate::time::Time;
use crate::wr::{SendFlags, SendOp};

#[test]
fn packets_are_numbered_and_ask_for_nothing() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&pattern(600, 4));
    let to = pair.b.host.memory.region(600);
    let mut write = send_wr(1, SendOp::Write(to.remote(0)), payload(&from));
    write.flags |= SendFlags::SOLICITED;
    pair.a.send(write);
    pair.a.send(send_wr(2, SendOp::Send, Payload::empty()));
    let mut seen = Vec::new();
    pair.pump_with(|_, packet| {
        let bth = packet.bth();
        assert!(!bth.ack_req && !bth.solicited, "UC is not acknowledged, and a WRITE is no event");
        seen.push((bth.opcode, bth.psn));
        PacketFate::Pass
    });
    let opcodes = [Opcode::UC_WRITE_FIRST, Opcode::UC_WRITE_MIDDLE, Opcode::UC_WRITE_LAST, Opcode::UC_SEND_ONLY];
    let first = setup().first_psn;
    let expected: Vec<_> = opcodes.into_iter().enumerate().map(|(i, o)| (o, first.add(i as u32))).collect();
    assert_eq!(seen, expected);
    assert_eq!(pair.a.qp.query().sq_psn, Psn::new(1), "PSNs wrap");
    assert_eq!(pair.b.qp.query().rq_psn, Psn::new(1));
}

#[test]
fn a_request_is_done_when_its_last_packet_has_left() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&pattern(257, 5));
    pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
    assert!(pair.a.poll(Time(0)).is_some());
    assert!(pair.a.host.sent.is_empty() && pair.a.qp.wants_transmit());
    assert!(pair.a.poll(Time(0)).is_some());
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert!(!pair.a.qp.wants_transmit());
    assert!(pair.a.poll(Time(0)).is_none());
    assert_eq!(pair.a.qp.next_timeout(), None);
}

#[test]
fn shared_receive_queues_serve_in_order() {
    let mut pair = Pair::connected(&Setup { shared_recv: true, ..setup() });
    for wr_id in 0..3 {
        pair.b.host.shared.push_back(recv_wr(wr_id, Default::default()));
        pair.a.send(send_wr(wr_id, SendOp::SendImm(wr_id as u32), Payload::empty()));
    }
    pair.pump();
    assert_eq!(pair.b.host.take_received(), successes([0, 1, 2]));
    assert_eq!(pair.sent.iter().filter(|(side, _)| *side == Side::B).count(), 0, "UC answers nothing");
}
