//! Calls between two queue pairs on one host.

use wire::{Opcode, Packet};

use super::*;
use crate::call::CallBuffers;
use crate::memory::Access;
use crate::reason::Reason;
use crate::testing::{PD, PacketFate, Pair, Side, word};
use crate::transcript::PacketDirection;
use crate::wr::RemoteAddr;

fn allowing() -> Setup {
    let setup = setup();
    Setup { access: setup.access | Access::REMOTE_CALL, ..setup }
}

fn call(wr_id: u64, to: RemoteAddr, request: &[u8], reply: &Buffer) -> SendWr {
    let call = CallBuffers { request: request.into(), reply: reply.sgl() };
    send_wr(wr_id, SendOp::Call(to), Payload::Call(Box::new(call)))
}

#[test]
fn calls_are_executed_in_order_and_once() {
    for mode in ShmMode::ALL {
        let mut pair = ShmPair::connected(&allowing()).in_mode(mode);
        let at = pair.b.host.memory.region(64);
        let replies: Vec<Buffer> = (0..10).map(|_| pair.a.host.memory.region(300)).collect();
        for (number, reply) in replies.iter().enumerate() {
            pair.a.send(call(number as u64, at.remote(8), &pattern(25 * number, number), reply));
        }
        pair.run();
        let lengths: Vec<u32> = pair.a.host.sent.iter().map(|c| c.byte_len).collect();
        assert_eq!(lengths, (0..10).map(|number| 8 + 25 * number).collect::<Vec<_>>());
        assert_eq!(pair.a.host.take_sent(), successes(0..10));
        for (number, reply) in replies.iter().enumerate() {
            let bytes = pair.a.host.memory.bytes(reply);
            assert_eq!(
                (word(&bytes), &bytes[8..8 + 25 * number]),
                (number as u64 + 1, &pattern(25 * number, number)[..])
            );
        }
    }
}

#[test]
fn what_is_not_allowed_is_refused() {
    for (access, request, status) in [
        (Access::REMOTE_CALL, &b""[..], Status::Success),
        (Access::REMOTE_READ, b"", Status::RemoteAccess),
        (Access::REMOTE_CALL, b"panic", Status::RemoteOperation),
    ] {
        let mut pair = ShmPair::connected(&allowing());
        let (at, reply) = (pair.b.host.memory.region_in(PD, 64, access), pair.a.host.memory.region(16));
        pair.a.send(call(1, at.remote(0), request, &reply));
        pair.run();
        assert_eq!(pair.a.host.take_sent(), [(1, status)]);
        let panicked = status == Status::RemoteOperation;
        assert_eq!(pair.b.qp.failure() == Some(Reason::CallPanicked), panicked);
    }
    let mut pair = ShmPair::connected(&setup());
    let (at, reply) = (pair.b.host.memory.region(64), pair.a.host.memory.region(16));
    pair.a.send(call(1, at.remote(0), b"", &reply));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteAccess)], "the queue pair does not allow it");
}

fn shown(packets: impl Iterator<Item = (bool, Vec<u8>)>) -> Vec<(bool, Opcode, String, Vec<u8>)> {
    let plain = |(sent, bytes): (bool, Vec<u8>)| {
        let packet = Packet::parse(&bytes).expect("well-formed");
        let headers = format!("{:?} {:?}", packet.reth(), packet.reply());
        (sent, packet.opcode(), headers, packet.payload().to_vec())
    };
    packets.map(plain).filter(|(_, opcode, ..)| matches!(*opcode, Opcode::CALL | Opcode::REPLY)).collect()
}

#[test]
fn captures_show_the_packets_of_the_wire() {
    for request in [0, 100, 256] {
        let request = pattern(request, 1);
        let mut wire = Pair::connected(&allowing());
        let (at, reply) = (wire.b.host.memory.region(64), wire.a.host.memory.region(1000));
        wire.a.send(call(1, at.remote(0), &request, &reply));
        let mut seen = Vec::new();
        wire.run_with(|side, packet| {
            seen.push((side == Side::A, packet.bytes().to_vec()));
            PacketFate::Pass
        });
        let expected = shown(seen.into_iter());
        let mut pair = ShmPair::connected(&allowing());
        pair.write_down();
        let (at, reply) = (pair.b.host.memory.region(64), pair.a.host.memory.region(1000));
        pair.a.send(call(1, at.remote(0), &request, &reply));
        pair.run();
        for side in [Side::A, Side::B] {
            let is_sent = |direction| (direction == PacketDirection::Sent) == (side == Side::A);
            let packets = pair.packets(side).into_iter().map(|(direction, bytes)| (is_sent(direction), bytes));
            assert_eq!(shown(packets), expected, "{side:?}");
        }
    }
}
