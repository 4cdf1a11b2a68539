//! Calls that the responder's device carries out. The handler of these tests counts calls in the word that they name, and
//! replies with the count and the request.

use wire::{Bth, Extensions, NakCode, Opcode, PKey, RKey, Reth};

use super::*;
use crate::attr::Tuning;
use crate::call::CallBuffers;
use crate::drop::DropReason;
use crate::error::PostError;
use crate::memory::Access;
use crate::reason::Reason;
use crate::testing::{PD, PacketFate};
use crate::wr::RemoteAddr;

fn allowing() -> Setup {
    let setup = setup();
    Setup { access: setup.access | Access::REMOTE_CALL, ..setup }
}

fn call(wr_id: u64, to: RemoteAddr, request: &[u8], reply: &Buffer) -> SendWr {
    let call = CallBuffers { request: request.into(), reply: reply.sgl() };
    send_wr(wr_id, SendOp::Call(to), Payload::Call(Box::new(call)))
}

/// The count and the request in a reply.
fn replied(pair: &Pair, reply: &Buffer) -> (u64, Vec<u8>) {
    let bytes = pair.a.host.memory.bytes(reply);
    (word(&bytes), bytes[8..].to_vec())
}

#[test]
fn a_call_is_one_packet_and_its_reply_comes_back() {
    let mut pair = Pair::connected(&allowing());
    let (at, reply) = (pair.b.host.memory.region(64), pair.a.host.memory.region(264));
    let request = pattern(256, 5);
    pair.a.send(call(1, at.remote(16), &request, &reply));
    pair.a.send(call(2, at.remote(16), b"abc", &pair.a.host.memory.region(1000)));
    let mut seen = Vec::new();
    pair.pump_with(|_, packet| {
        seen.push((packet.opcode(), packet.reth(), packet.payload().len()));
        PacketFate::Pass
    });
    let lengths: Vec<_> = pair.a.host.sent.iter().map(|c| (c.op, c.byte_len)).collect();
    assert_eq!(lengths, [(crate::completion::CompletionOp::Call, 264), (crate::completion::CompletionOp::Call, 11)]);
    assert_eq!((pair.a.host.take_sent(), replied(&pair, &reply)), (successes([1, 2]), (1, request)));
    let reth = |len_bytes| Some(Reth { addr: at.addr + 16, rkey: at.rkey, len_bytes });
    let calls: Vec<_> = seen.into_iter().filter(|(opcode, ..)| opcode.0 >= 0xc0).collect();
    let expected = [
        (Opcode::CALL, reth(264), 256),
        (Opcode::CALL, reth(1000), 3),
        (Opcode::REPLY, None, 256),
        (Opcode::REPLY, None, 8),
        (Opcode::REPLY, None, 11),
    ];
    assert_eq!(calls, expected);
    // The second had room for four packets, of which its reply has used one.
    assert_eq!(pair.a.qp.query().sq_psn, pair.b.qp.query().rq_psn);
}

#[test]
fn a_short_reply_leaves_its_other_numbers_unused() {
    let mut pair = Pair::connected(&allowing());
    let at = pair.b.host.memory.region(64);
    for wr_id in 0..40 {
        let room = pair.a.host.memory.region(2000);
        pair.a.send(call(wr_id, at.remote(0), b"x", &room));
    }
    let last = pair.a.host.memory.region(64);
    pair.a.send(send_wr(40, SendOp::Read(at.remote(0)), payload(&last)));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes(0..41));
    assert_eq!(word(&pair.a.host.memory.bytes(&last)), 40);
}

#[test]
fn over_a_rough_wire_each_is_executed_once_and_in_order() {
    for seed in 0..300u64 {
        let mut pair = Pair::connected(&Setup { retry_count: 7, max_rd_atomic: 1 + (seed % 4) as u8, ..allowing() });
        let at = pair.b.host.memory.region(64);
        let mut replies = Vec::new();
        for wr_id in 0..20u64 {
            let reply = pair.a.host.memory.region(8 + (wr_id as usize * 91 + seed as usize) % 250);
            pair.a.send(call(wr_id, at.remote(0), &pattern(reply.len_bytes as usize - 8, wr_id as usize), &reply));
            replies.push(reply);
        }
        let mut state = seed + 1;
        pair.run_with(|_, _| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match (state >> 40) % 16 {
                0 => PacketFate::Drop,
                1 => PacketFate::Duplicate,
                2 => PacketFate::Late,
                _ => PacketFate::Pass,
            }
        });
        assert_eq!(pair.a.host.take_sent(), successes(0..20), "seed {seed}");
        for (number, reply) in replies.iter().enumerate() {
            let request = pattern(reply.len_bytes as usize - 8, number);
            assert_eq!(replied(&pair, reply), (number as u64 + 1, request), "seed {seed}");
        }
        assert_eq!(word(&pair.b.host.memory.bytes(&at)), 20, "seed {seed}: executions");
    }
}

#[test]
fn a_duplicate_is_answered_from_what_was_kept_or_not_at_all() {
    let mut pair = Pair::connected(&Setup { max_dest_rd_atomic: 2, ..allowing() });
    let at = pair.b.host.memory.region(64);
    let first = pair.b.qp.query().rq_psn;
    let mut inject = |number: u32| {
        let reth = Some(Reth { addr: at.addr, rkey: at.rkey, len_bytes: 8 });
        let bth = Bth { opcode: Opcode::CALL, pkey: PKey::DEFAULT, psn: first.add(number), ..Bth::default() };
        let outcome = pair.inject(Side::B, bth, Extensions { reth, ..Extensions::default() }, &[]);
        let mut counts = Vec::new();
        while let Some((bytes, _)) = pair.b.poll(pair.now) {
            counts.push(word(wire::Packet::parse(&bytes).expect("well-formed").payload()));
        }
        (outcome, counts)
    };
    assert_eq!(inject(0), (Ok(()), vec![1]));
    assert_eq!(inject(0), (Ok(()), vec![1]), "the same reply");
    assert_eq!((inject(1), inject(2)), ((Ok(()), vec![2]), (Ok(()), vec![3])));
    assert_eq!(inject(0), (Err(DropReason::StaleDuplicate), vec![]), "two are kept");
    assert_eq!(inject(1), (Ok(()), vec![2]));
    assert_eq!(word(&pair.b.host.memory.bytes(&at)), 3);
}

#[test]
fn key_range_and_rights_are_checked() {
    let calls = Access::REMOTE_CALL;
    for (access, qp_access, offset, status) in [
        (calls, calls, 0, Status::Success),
        (Access::REMOTE_READ, calls, 0, Status::RemoteAccess),
        (calls, Access::empty(), 0, Status::RemoteAccess),
        (calls, calls, 64, Status::RemoteAccess),
        (calls, calls, 1 << 40, Status::RemoteAccess),
    ] {
        let setup = setup();
        let access_b = setup.access | qp_access;
        let mut pair = Pair::of_two(&setup, &Setup { access: access_b, ..setup });
        let (at, reply) = (pair.b.host.memory.region_in(PD, 64, access), pair.a.host.memory.region(16));
        pair.a.send(call(1, RemoteAddr { addr: at.addr + offset, rkey: at.rkey }, b"", &reply));
        pair.run();
        assert_eq!(pair.a.host.take_sent(), [(1, status)], "{access:?} {qp_access:?} {offset}");
    }
    let mut pair = Pair::connected(&allowing());
    let (at, reply) = (pair.b.host.memory.region(64), pair.a.host.memory.region(16));
    pair.a.send(call(1, RemoteAddr { rkey: RKey(5), ..at.remote(0) }, b"", &reply));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteAccess)]);
}

#[test]
fn a_panic_is_a_remote_operation_error() {
    let mut pair = Pair::connected(&allowing());
    let (at, reply) = (pair.b.host.memory.region(64), pair.a.host.memory.region(16));
    pair.a.send(call(1, at.remote(0), b"panic", &reply));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteOperation)]);
    assert_eq!(pair.a.qp.failure(), Some(Reason::PeerRefused(NakCode::RemoteOperationalError)));
    assert_eq!(pair.b.qp.failure(), Some(Reason::CallPanicked));
}

#[test]
fn wrong_calls_are_refused_when_they_are_posted() {
    let mut pair = Pair::connected(&allowing());
    let (at, reply) = (pair.b.host.memory.region(64), pair.a.host.memory.region(16));
    let long = pair.a.host.memory.region((16 << 10) + 1);
    let with = |op, payload| send_wr(1, op, payload);
    let buffers = || Payload::Call(Box::new(CallBuffers { request: [][..].into(), reply: reply.sgl() }));
    for (wr, refused) in [
        (call(1, at.remote(0), &[0; 257], &reply), PostError::MessageTooLong { max_bytes: 256 }),
        (call(1, at.remote(0), b"", &long), PostError::MessageTooLong { max_bytes: 16 << 10 }),
        (with(SendOp::Call(at.remote(0)), payload(&reply)), PostError::Call),
        (with(SendOp::Read(at.remote(0)), buffers()), PostError::Call),
        (with(SendOp::Send, buffers()), PostError::Call),
    ] {
        assert_eq!(pair.a.qp.post_send(wr, &mut pair.a.host), Err(refused));
    }
}

#[test]
fn malformed_ones_are_refused() {
    for (len_bytes, have) in [((16 << 10) + 1, 0), (u32::MAX, 0), (8, 257)] {
        let mut pair = Pair::connected(&allowing());
        let at = pair.b.host.memory.region(64);
        let reth = Some(Reth { addr: at.addr, rkey: at.rkey, len_bytes });
        let psn = pair.b.qp.query().rq_psn;
        let bth = Bth { opcode: Opcode::CALL, pkey: PKey::DEFAULT, psn, ..Bth::default() };
        let outcome = pair.inject(Side::B, bth, Extensions { reth, ..Extensions::default() }, &vec![0; have]);
        assert_eq!(outcome, Err(DropReason::Refused), "{len_bytes} {have}");
        assert_eq!(pair.b.host.memory.bytes(&at), [0; 64]);
    }
}

#[test]
fn a_peer_without_it_never_gets_one() {
    let tuning = Tuning { extensions: false, ..setup().tuning };
    let mut pair = Pair::of_two(&allowing(), &Setup { tuning, ..allowing() });
    let (at, reply) = (pair.b.host.memory.region(64), pair.a.host.memory.region(16));
    pair.a.send(call(1, at.remote(0), b"", &reply));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::LocalQpOperation)]);
    assert_eq!(pair.a.qp.failure(), Some(Reason::PeerLacksExtension));
    assert!(pair.sent.iter().all(|(_, opcode)| *opcode != Opcode::CALL));
}
