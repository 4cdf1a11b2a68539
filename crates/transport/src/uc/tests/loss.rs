//! Messages arrive whole, once and in order, or not at all.

use wire::{Bth, Extensions, Opcode};

use super::*;
use crate::drop::DropReason;
use crate::testing::{PacketFate, Side, send_wr};
use crate::wr::SendOp;

/// Sizes of the messages of the scripts: SEND, WRITE with immediate, SEND, WRITE, SEND.
const SIZES: [usize; 5] = [700, 600, 100, 513, 256];

/// Packets of each, at an MTU of 256.
const PACKETS: [usize; 5] = [3, 3, 1, 3, 1];

/// Posts the five messages, each with a buffer of its own.
fn script(pair: &mut Pair) -> Vec<(Buffer, Vec<u8>)> {
    let targets: Vec<_> = SIZES.iter().map(|len| pair.b.host.memory.region(*len)).collect();
    let data: Vec<_> = SIZES.iter().enumerate().map(|(i, len)| pattern(*len, i + 1)).collect();
    for (i, (to, data)) in targets.iter().zip(&data).enumerate() {
        let from = pair.a.host.memory.filled(data);
        let op = match i {
            1 => SendOp::WriteImm(to.remote(0), 1),
            3 => SendOp::Write(to.remote(0)),
            _ => SendOp::SendImm(i as u32),
        };
        pair.a.send(send_wr(i as u64, op, payload(&from)));
    }
    // Every receive WQE fits every SEND, so that it can serve another than its own.
    for wr_id in 0..4 {
        let buffer = pair.b.host.memory.region(1024);
        post_recv(pair, wr_id, &buffer);
    }
    targets.into_iter().zip(data).collect()
}

/// The message that packet number `packet` belongs to.
fn message_of(packet: usize) -> usize {
    let ends = PACKETS.iter().scan(0, |end, count| {
        *end += count;
        Some(*end)
    });
    ends.take_while(|end| packet >= *end).count()
}

/// Immediate data of everything that completed at the receiver: the number of its message.
fn arrived(pair: &Pair) -> Vec<u32> {
    pair.b.host.received.iter().map(|c| c.imm.expect("all of the script carry it")).collect()
}

fn nth(verdict: PacketFate, lost: usize) -> impl FnMut(Side, &wire::Packet<'_>) -> PacketFate {
    let mut count = 0;
    move |_, _| {
        count += 1;
        if count - 1 == lost { verdict } else { PacketFate::Pass }
    }
}

#[test]
fn a_lost_or_late_packet_costs_its_message_and_no_other() {
    for verdict in [PacketFate::Drop, PacketFate::Late] {
        for lost in 0..PACKETS.iter().sum() {
            let mut pair = pair();
            let targets = script(&mut pair);
            pair.pump_with(nth(verdict, lost));
            let message = message_of(lost);
            let expected: Vec<u32> = [0, 1, 2, 4].into_iter().filter(|i| *i != message as u32).collect();
            let last = lost + 1 == PACKETS.iter().sum::<usize>();
            if last && verdict == PacketFate::Late {
                assert_eq!(arrived(&pair), [0, 1, 2, 4], "the last packet cannot be late");
            } else {
                assert_eq!(arrived(&pair), expected, "{verdict:?} {lost}");
            }
            let (to, data) = &targets[3];
            assert_eq!(pair.b.host.memory.bytes(to) == *data, message != 3, "{verdict:?} {lost}");
            assert_eq!(pair.a.host.take_sent(), successes(0..5), "the sender does not know");
            let wqes: Vec<_> = pair.b.host.take_received().into_iter().map(|(wr_id, _)| wr_id).collect();
            assert_eq!(wqes, (0..wqes.len() as u64).collect::<Vec<_>>(), "receive WQEs in order, none skipped");
        }
    }
}

#[test]
fn duplicates_arrive_once() {
    let mut pair = pair();
    let targets = script(&mut pair);
    pair.pump_with(|_, _| PacketFate::Duplicate);
    assert_eq!(arrived(&pair), [0, 1, 2, 4]);
    assert_eq!(pair.b.host.memory.bytes(&targets[3].0), targets[3].1);
    assert_eq!(pair.dropped, [(Side::B, DropReason::UcLate); 11]);
    assert_eq!(pair.b.qp.counters().duplicate_requests, 11);
    assert_eq!(pair.b.qp.counters().messages_dropped, 0);
}

#[test]
fn a_receive_wqe_of_a_broken_message_serves_the_next() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&pattern(600, 1));
    let to = pair.b.host.memory.region(600);
    post_recv(&mut pair, 77, &to);
    for wr_id in 0..2 {
        pair.a.send(send_wr(wr_id, SendOp::SendImm(wr_id as u32), payload(&from)));
    }
    pair.pump_with(nth(PacketFate::Drop, 2));
    assert_eq!(arrived(&pair), [1]);
    assert_eq!(pair.b.host.take_received(), successes([77]));
    assert_eq!(pair.b.qp.counters().messages_dropped, 1);
    assert_eq!(pair.b.host.memory.bytes(&to), pattern(600, 1));
}

#[test]
fn a_broken_write_leaves_what_it_wrote_and_gives_no_notice() {
    let mut pair = pair();
    let data = pattern(600, 9);
    let from = pair.a.host.memory.filled(&data);
    let to = pair.b.host.memory.region(600);
    pair.b.recv(recv_wr(1, Default::default()));
    pair.a.send(send_wr(1, SendOp::WriteImm(to.remote(0), 3), payload(&from)));
    pair.pump_with(nth(PacketFate::Drop, 1));
    let bytes = pair.b.host.memory.bytes(&to);
    assert_eq!(bytes[..256], data[..256]);
    assert!(bytes[256..].iter().all(|byte| *byte == 0));
    assert!(pair.b.host.received.is_empty());
    assert_eq!(pair.dropped, [(Side::B, DropReason::UcGap)]);
}

#[test]
fn nothing_posted_loses_the_message_and_not_the_connection() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&pattern(600, 1));
    let to = pair.b.host.memory.region(600);
    pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
    pair.a.send(send_wr(2, SendOp::WriteImm(to.remote(0), 1), payload(&from)));
    pair.pump();
    assert_eq!(pair.dropped, [(Side::B, DropReason::NoRecvWqe); 4], "the SEND, and the WRITE's last packet");
    assert_eq!(pair.b.host.memory.bytes(&to)[..512], pattern(600, 1)[..512]);
    assert_eq!(pair.b.host.memory.bytes(&to)[512..], [0; 88], "without a notice the last packet is not written");
    post_recv(&mut pair, 5, &to);
    pair.a.send(send_wr(3, SendOp::Send, payload(&from)));
    pair.pump();
    assert_eq!(pair.b.host.take_received(), successes([5]));
    assert_eq!(pair.b.qp.counters().messages_dropped, 2);
}

#[test]
fn an_injected_shortage_looks_like_a_real_one() {
    let mut pair = pair();
    pair.b.host.refuse_recv = 1;
    for wr_id in 0..2 {
        pair.b.recv(recv_wr(wr_id, Default::default()));
        pair.a.send(send_wr(wr_id, SendOp::SendImm(wr_id as u32), Payload::empty()));
    }
    pair.pump();
    assert_eq!(arrived(&pair), [1]);
    assert_eq!(pair.dropped, [(Side::B, DropReason::NoRecvWqe)]);
}

/// Far behind is not a duplicate: the peer has started again.
#[test]
fn a_peer_may_begin_anew() {
    for (back, taken) in [(0, true), (1, false), (4096, false), (4097, true), (0x80_0000, true)] {
        let mut pair = pair();
        pair.b.recv(recv_wr(1, Default::default()));
        let psn = setup().first_psn.sub(back);
        let bth = Bth { opcode: Opcode::UC_SEND_ONLY, psn, pkey: wire::PKey::DEFAULT, ..Bth::default() };
        let outcome = pair.inject(Side::B, bth, Extensions::default(), &[]);
        assert_eq!(outcome, if taken { Ok(()) } else { Err(DropReason::UcLate) }, "{back} behind");
        let expected = if taken { psn.next() } else { setup().first_psn };
        assert_eq!(pair.b.qp.query().rq_psn, expected);
    }
}
