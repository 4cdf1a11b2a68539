//! Every operation does what it says, at every size that matters.

use wire::{Opcode, Psn};

use super::*;
use crate::completion::CompletionOp;
use crate::host::QpEvent;
use crate::memory::{Access, BindMw};
use crate::testing::{Side, Verdict, send_wr};
use crate::time::Time;
use crate::wr::{RemoteAddr, SendFlags, SendOp};

const SIZES: [usize; 9] = [0, 1, 3, 255, 256, 257, 512, 1000, 40_000];

#[test]
fn send_of_every_size() {
    for len in SIZES {
        let mut pair = pair();
        let data = pattern(len, 1);
        let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(len + 8));
        post_recv(&mut pair, 9, &to);
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([1]), "{len} bytes");
        let [received] = pair.b.host.received[..] else { panic!("one completion") };
        assert_eq!((received.wr_id, received.status, received.byte_len), (9, Status::Success, len as u32));
        assert_eq!((received.op, received.imm, received.grh), (CompletionOp::Recv, None, false));
        assert_eq!(pair.b.host.memory.bytes(&to)[..len], data);
        assert_eq!(pair.a.qp.counters().tx_bytes, len as u64);
        assert_eq!(pair.b.qp.counters().rx_bytes, len as u64);
    }
}

#[test]
fn write_of_every_size() {
    for len in SIZES {
        let mut pair = pair();
        let data = pattern(len, 2);
        let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(len + 16));
        let there = pair.b.host.memory.region(8);
        post_recv(&mut pair, 9, &there);
        pair.a.send(send_wr(1, SendOp::Write(to.remote(8)), payload(&from)));
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([1]), "{len} bytes");
        assert!(pair.b.host.received.is_empty(), "a WRITE completes nothing at the target");
        let bytes = pair.b.host.memory.bytes(&to);
        assert_eq!(bytes[8..8 + len], data);
        assert!(bytes[..8].iter().chain(&bytes[8 + len..]).all(|byte| *byte == 0), "nothing around it");
    }
}

#[test]
fn immediate_data_and_solicited_reach_the_receiver() {
    for len in [0, 256, 700] {
        let mut pair = pair();
        let (from, to) = (pair.a.host.memory.filled(&pattern(len, 3)), pair.b.host.memory.region(len));
        post_recv(&mut pair, 1, &to);
        post_recv(&mut pair, 2, &to);
        let mut send = send_wr(1, SendOp::SendImm(0x1122_3344), payload(&from));
        send.flags |= SendFlags::SOLICITED;
        pair.a.send(send);
        pair.a.send(send_wr(2, SendOp::WriteImm(to.remote(0), 7), payload(&from)));
        pair.pump();
        let [first, second] = pair.b.host.received[..] else { panic!("two completions") };
        assert_eq!((first.imm, first.solicited, first.op), (Some(0x1122_3344), true, CompletionOp::Recv));
        assert_eq!((second.imm, second.solicited, second.op), (Some(7), false, CompletionOp::RecvWriteImm));
        assert_eq!((first.byte_len, second.byte_len), (len as u32, len as u32));
    }
}

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
        Verdict::Pass
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
fn unsignaled_successes_leave_no_trace() {
    let mut pair = pair();
    for wr_id in 1..=4 {
        let mut wr = send_wr(wr_id, SendOp::Send, Payload::empty());
        wr.flags.set(SendFlags::SIGNALED, wr_id == 3);
        pair.a.send(wr);
    }
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([3]));
}

#[test]
fn lists_and_inline_data_are_gathered() {
    let mut pair = pair();
    let data = pattern(500, 6);
    let from = pair.a.host.memory.filled(&data);
    let to = pair.b.host.memory.region(600);
    let sgl = [from.sge(300, 200), from.sge(0, 0), from.sge(0, 300)];
    post_recv(&mut pair, 1, &to);
    pair.b.recv(recv_wr(2, [to.sge(590, 4), to.sge(580, 10)].into_iter().collect()));
    pair.a.send(send_wr(1, SendOp::Send, Payload::Sgl(sgl.into_iter().collect())));
    pair.a.send(send_wr(2, SendOp::Send, Payload::Inline(smallvec::SmallVec::from_slice(b"inline"))));
    pair.pump();
    let bytes = pair.b.host.memory.bytes(&to);
    assert_eq!((&bytes[..200], &bytes[200..500]), (&data[300..], &data[..300]));
    assert_eq!((&bytes[590..594], &bytes[580..582]), (&b"inli"[..], &b"ne"[..]));
}

#[test]
fn windows_open_and_close_in_order() {
    let mut pair = pair();
    let region = pair.a.host.memory.region(64);
    let window = pair.a.host.memory.window();
    let new_rkey = wire::RKey(window.0 | 5);
    let access = Access::REMOTE_WRITE;
    let bind = BindMw { window, new_rkey, region: region.lkey, addr: region.addr + 8, len_bytes: 8, access };
    pair.a.send(send_wr(1, SendOp::Bind(bind), Payload::empty()));
    pair.a.send(send_wr(2, SendOp::Send, Payload::empty()));
    pair.pump();
    assert_eq!(pair.a.host.sent[0].op, CompletionOp::BindMw);
    assert_eq!(pair.a.host.take_sent(), successes([1, 2]));

    let from = pair.b.host.memory.filled(&[7; 8]);
    let at = RemoteAddr { addr: region.addr + 8, rkey: new_rkey };
    pair.b.send(send_wr(1, SendOp::Write(at), payload(&from)));
    pair.pump();
    assert_eq!(pair.a.host.memory.bytes(&region)[8..16], [7; 8]);

    pair.a.send(send_wr(3, SendOp::LocalInvalidate(new_rkey), Payload::empty()));
    pair.pump();
    assert_eq!(pair.a.host.sent[0].op, CompletionOp::LocalInvalidate);
    pair.a.host.memory.put(&region, 8, &[0; 8]);
    pair.b.send(send_wr(2, SendOp::Write(at), payload(&from)));
    pair.pump();
    assert_eq!(pair.a.host.memory.bytes(&region), [0; 64], "the window is closed");
}

#[test]
fn the_passive_side_hears_of_the_first_message() {
    let mut pair = Pair::ready_to_receive(&setup());
    pair.a.enter_rts(&setup());
    for wr_id in 0..3 {
        pair.b.recv(recv_wr(wr_id, Default::default()));
        pair.a.send(send_wr(wr_id, SendOp::Send, Payload::empty()));
    }
    pair.pump();
    assert_eq!(pair.b.host.events, [QpEvent::CommunicationEstablished]);
    assert_eq!(pair.b.host.take_received(), successes([0, 1, 2]));
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
