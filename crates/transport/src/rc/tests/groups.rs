//! Packets that leave together: long WRITEs in pieces of one length, and windows filled by whole groups.

use wire::Opcode;

use super::*;
use crate::testing::{PacketFate, Side};

/// Opcodes of what A has sent since `from`.
fn requests(pair: &Pair, from: usize) -> Vec<Opcode> {
    pair.sent[from..].iter().filter(|(side, _)| *side == Side::A).map(|(_, opcode)| *opcode).collect()
}

const AS_ONE: [Opcode; 4] =
    [Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_MIDDLE, Opcode::RC_WRITE_MIDDLE, Opcode::RC_WRITE_LAST];
const IN_PIECES: [Opcode; 4] = [Opcode::RC_WRITE_ONLY; 4];

/// Two WRITEs of four packets, one after the other; the opcodes of each.
fn two_writes(pair: &mut Pair) -> [Vec<Opcode>; 2] {
    let data = pattern(2000, 9);
    let (from, target) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(2000));
    let opcodes = [0, 1].map(|half: u32| {
        let before = pair.sent.len();
        let part = from.sge(u64::from(half) * 1000, 1000);
        let to = target.remote(u64::from(half) * 1000);
        pair.a.send(send_wr(u64::from(half), SendOp::Write(to), Payload::Sgl(crate::wr::Sgl::from_slice(&[part]))));
        pair.pump();
        requests(pair, before)
    });
    assert_eq!(pair.a.host.take_sent(), successes([0, 1]));
    assert_eq!(pair.b.host.memory.bytes(&target), data);
    opcodes
}

#[test]
fn long_writes_go_in_pieces_as_soon_as_the_peer_is_known_to_be_like_us() {
    assert_eq!(two_writes(&mut pair()), [AS_ONE, IN_PIECES]);
}

#[test]
fn others_get_them_as_one_message() {
    let mut other = setup();
    other.tuning.selective = false;
    assert_eq!(two_writes(&mut Pair::of_two(&setup(), &other)), [AS_ONE, AS_ONE]);
}

#[test]
fn immediate_data_tells_of_the_whole_message() {
    let mut pair = pair();
    let (from, target) = (pair.a.host.memory.filled(&[3; 1000]), pair.b.host.memory.region(1000));
    let notice = pair.b.host.memory.region(8);
    pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
    pair.pump();
    post_recv(&mut pair, 2, &notice);
    pair.a.send(send_wr(3, SendOp::WriteImm(target.remote(0), 5), payload(&from)));
    pair.pump();
    let [received] = pair.b.host.received[..] else { panic!("one completion") };
    assert_eq!((received.imm, received.byte_len), (Some(5), 1000));
}

/// A retransmission looks like the first transmission, even if the requester has learned about the peer meanwhile.
#[test]
fn a_write_begun_as_one_message_stays_one() {
    let mut pair = pair();
    let data = pattern(1000, 4);
    let (from, target) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(1000));
    pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
    let mut packets = 0;
    pair.pump_with(|side, _| {
        packets += u32::from(side == Side::A);
        if side == Side::A && packets == 2 { PacketFate::Drop } else { PacketFate::Pass }
    });
    assert_eq!(requests(&pair, 0)[..5], [&AS_ONE[..], &AS_ONE[1..2]].concat());
    assert_eq!((pair.a.host.take_sent(), pair.b.host.memory.bytes(&target)), (successes([1]), data));
}

/// ACKs open a window of several groups; whole groups leave, and few ACKs are needed.
#[test]
fn a_large_window_is_filled_by_whole_groups() {
    let mut setup = setup();
    setup.tuning.window_initial_bytes = 70 * (256 + 128);
    setup.tuning.window_max_bytes = 70 * (256 + 128);
    let mut pair = Pair::connected(&setup);
    let len = 300_000;
    let data = pattern(len, 6);
    let (from, target) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(len));
    pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
    let mut bursts = Vec::new();
    loop {
        let before = pair.sent.len();
        if !pair.round(&mut |_, _| PacketFate::Pass) {
            break;
        }
        bursts.push(requests(&pair, before).len());
    }
    let bursts: Vec<usize> = bursts.into_iter().filter(|burst| *burst > 0).collect();
    let (ends, between) = ([bursts[0], bursts[bursts.len() - 1]], &bursts[1..bursts.len() - 1]);
    assert!(between.len() > 5 && between.iter().all(|burst| burst % 15 == 0), "{ends:?} {between:?}");
    assert!(pair.b.qp.counters().tx_acks < 60, "{} ACKs", pair.b.qp.counters().tx_acks);
    assert_eq!((pair.a.host.take_sent(), pair.b.host.memory.bytes(&target)), (successes([1]), data));
}
