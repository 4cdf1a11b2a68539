//! READs of objects at one moment, by this processor or by the peer.

use wire::{Opcode, Packet};

use super::*;
use crate::memory::Access;
use crate::testing::{Node, PD, PacketFate, Pair, Side, word};
use crate::transcript::PacketDirection;
use crate::wr::RemoteAddr;

const LOCK: u64 = 1 << 63;

fn object_read(wr_id: u64, from: RemoteAddr, to: &Buffer) -> SendWr {
    send_wr(wr_id, SendOp::ObjectRead(from, LOCK), payload(to))
}

fn object(node: &Node, first: u64, len_bytes: usize) -> Buffer {
    let mut bytes = pattern(len_bytes, 3);
    bytes[..8].copy_from_slice(&first.to_ne_bytes());
    node.host.memory.filled(&bytes)
}

#[test]
fn objects_come_whole_or_busy_by_each_way() {
    for mode in ShmMode::ALL {
        for signal_all in [false, true] {
            let mut pair = ShmPair::connected(&Setup { signal_all, ..setup() }).in_mode(mode);
            let (whole, locked) = (object(&pair.b, 5, 16 << 10), object(&pair.b, LOCK, 1000));
            let (first, second) = (pair.a.host.memory.region(16 << 10), pair.a.host.memory.region(1000));
            assert_eq!(pair.a.qp.peer_extends(), Some(true));
            pair.a.send(object_read(1, whole.remote(0), &first));
            pair.a.send(object_read(2, locked.remote(0), &second));
            pair.a.send(send_wr(3, SendOp::Read(locked.remote(8)), payload(&pair.a.host.memory.region(8))));
            pair.run();
            let lengths: Vec<u32> = pair.a.host.sent.iter().map(|c| c.byte_len).collect();
            assert_eq!((lengths, pair.a.host.take_sent()), (vec![16 << 10, 8, 8], successes([1, 2, 3])), "{mode:?}");
            assert_eq!(pair.a.host.memory.bytes(&first), pair.b.host.memory.bytes(&whole));
            assert_eq!(word(&pair.a.host.memory.bytes(&second)), LOCK);
            assert_eq!(pair.b.host.memory.object_reads.get(), 2);
        }
    }
}

#[test]
fn what_is_not_allowed_is_refused() {
    let read = Access::LOCAL_WRITE | Access::REMOTE_READ;
    let cases = [
        (read, 0, Status::Success),
        (Access::LOCAL_WRITE | Access::REMOTE_WRITE, 0, Status::RemoteAccess),
        (read, 4, Status::RemoteInvalidRequest),
        (read, 64, Status::RemoteAccess),
    ];
    for mode in ShmMode::ALL {
        for (access, offset, status) in cases {
            let mut pair = pair(mode);
            let (at, to) = (pair.b.host.memory.region_in(PD, 64, access), pair.a.host.memory.region(64));
            pair.a.send(object_read(1, RemoteAddr { addr: at.addr + offset, rkey: at.rkey }, &to));
            pair.run();
            assert_eq!(pair.a.host.take_sent(), [(1, status)], "{mode:?} {access:?} {offset}");
        }
        let mut pair = ShmPair::connected(&Setup { access: Access::REMOTE_WRITE, ..setup() }).in_mode(mode);
        let (at, to) = (pair.b.host.memory.region(64), pair.a.host.memory.region(64));
        pair.a.send(object_read(1, at.remote(0), &to));
        pair.run();
        assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteAccess)], "{mode:?}");
    }
}

#[test]
fn a_full_lane_delays_the_reply() {
    let mut pair = pair(ShmMode::ByRequest);
    let (at, to) = (object(&pair.b, 5, 64), pair.a.host.memory.region(64));
    pair.shared.room[1].set(0);
    pair.a.send(object_read(1, at.remote(0), &to));
    for _ in 0..3 {
        pair.go(Side::A, true);
        pair.deliver(Side::B);
        pair.go(Side::B, true);
    }
    assert_eq!(pair.a.host.take_sent(), []);
    pair.shared.room[1].set(1000);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.b.host.memory.object_reads.get(), 1);
}

/// Opcode, headers but for the PSN, and payload of the packets of A, without the question whether the peer knows it.
fn shown(packets: impl Iterator<Item = (bool, Vec<u8>)>) -> Vec<(bool, Opcode, String, Vec<u8>)> {
    let plain = |(sent, bytes): (bool, Vec<u8>)| {
        let packet = Packet::parse(&bytes).expect("well-formed");
        let extensions = packet.extensions();
        let headers = format!("{:?} {:?} {:?}", extensions.reth, extensions.object, extensions.reply);
        (sent, packet.opcode(), headers, packet.payload().to_vec())
    };
    packets.map(plain).filter(|(_, opcode, ..)| matches!(*opcode, Opcode::OBJECT_READ | Opcode::REPLY)).collect()
}

#[test]
fn captures_show_the_packets_of_the_wire() {
    for first in [5, LOCK] {
        let mut wire = Pair::connected(&setup());
        let (at, to) = (object(&wire.b, first, 1000), wire.a.host.memory.region(1000));
        wire.a.send(object_read(1, at.remote(0), &to));
        let mut seen = Vec::new();
        wire.run_with(|side, packet| {
            seen.push((side == Side::A, packet.bytes().to_vec()));
            PacketFate::Pass
        });
        let expected = shown(seen.into_iter());
        assert!(expected.len() >= 2);
        for mode in ShmMode::ALL {
            let mut pair = ShmPair::connected(&setup()).in_mode(mode);
            pair.write_down();
            let (at, to) = (object(&pair.b, first, 1000), pair.a.host.memory.region(1000));
            pair.a.send(object_read(1, at.remote(0), &to));
            pair.run();
            for side in [Side::A, Side::B] {
                let is_sent = |direction| (direction == PacketDirection::Sent) == (side == Side::A);
                let packets = pair.packets(side).into_iter().map(|(direction, bytes)| (is_sent(direction), bytes));
                assert_eq!(shown(packets), expected, "{mode:?} {side:?}");
            }
        }
    }
}
