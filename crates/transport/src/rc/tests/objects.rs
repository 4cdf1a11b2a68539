//! READs of objects at one moment, and the replies that answer them.

use wire::{Aeth, Bth, Extensions, ObjectEth, Opcode, PKey, RKey, ReplyEth, Reth, Syndrome};

use super::*;
use crate::attr::Tuning;
use crate::completion::{Completion, CompletionOp};
use crate::drop::DropReason;
use crate::error::PostError;
use crate::memory::Access;
use crate::reason::Reason;
use crate::testing::{PD, PacketFate};
use crate::wr::{RemoteAddr, SendFlags};

const LOCK: u64 = 1 << 63;

fn object_read(wr_id: u64, from: RemoteAddr, to: &Buffer) -> SendWr {
    send_wr(wr_id, SendOp::ObjectRead(from, LOCK), payload(to))
}

/// An object of `len_bytes` with this first word.
fn object(pair: &Pair, first: u64, len_bytes: usize) -> Buffer {
    let mut bytes = pattern(len_bytes, 3);
    bytes[..8].copy_from_slice(&first.to_ne_bytes());
    pair.b.host.memory.filled(&bytes)
}

fn done(pair: &mut Pair) -> Vec<(u64, Status, u32)> {
    let completions: Vec<Completion> = pair.a.host.sent.drain(..).collect();
    completions.iter().map(|c| (c.wr_id, c.status, if c.status == Status::Success { c.byte_len } else { 0 })).collect()
}

fn sent_by_a(pair: &Pair) -> Vec<Opcode> {
    pair.sent.iter().filter(|(side, _)| *side == Side::A).map(|(_, opcode)| *opcode).collect()
}

#[test]
fn an_object_comes_whole_in_a_reply_of_packets() {
    let mut pair = pair();
    let (at, to) = (object(&pair, 5, 1000), pair.a.host.memory.region(1000));
    let mut seen = Vec::new();
    pair.a.send(object_read(1, at.remote(0), &to));
    pair.pump_with(|_, packet| {
        seen.push((packet.opcode(), packet.reth().map(|reth| reth.len_bytes), packet.object(), packet.reply()));
        PacketFate::Pass
    });
    assert_eq!(pair.a.host.sent[0].op, CompletionOp::ObjectRead);
    assert_eq!(done(&mut pair), [(1, Status::Success, 1000)]);
    assert_eq!(pair.a.host.memory.bytes(&to), pair.b.host.memory.bytes(&at));
    let part = (Opcode::REPLY, None, None, Some(ReplyEth { len_bytes: 1000 }));
    let expected = [
        // Nothing has told yet whether the peer knows it.
        (Opcode::RC_READ_REQUEST, Some(0), None, None),
        (Opcode::RC_READ_RESPONSE_ONLY, None, None, None),
        (Opcode::OBJECT_READ, Some(1000), Some(ObjectEth { lock_mask: LOCK }), None),
        part,
        part,
        part,
        part,
    ];
    assert_eq!(seen, expected);
    pair.sent.clear();
    pair.a.send(object_read(2, at.remote(0), &pair.a.host.memory.region(16)));
    pair.pump();
    assert_eq!(done(&mut pair), [(2, Status::Success, 16)]);
    assert_eq!(sent_by_a(&pair), [Opcode::OBJECT_READ], "it is asked once");
    let next = (pair.a.qp.query().sq_psn, pair.b.qp.query().rq_psn);
    assert_eq!(next.0, next.1, "both have counted the same PSNs");
}

#[test]
fn a_locked_object_is_its_first_word() {
    let mut pair = pair();
    let (at, to) = (object(&pair, LOCK | 9, 1000), pair.a.host.memory.region(1000));
    pair.a.send(object_read(1, at.remote(0), &to));
    pair.a.send(send_wr(2, SendOp::Read(at.remote(0)), payload(&pair.a.host.memory.region(300))));
    pair.pump();
    assert_eq!(done(&mut pair), [(1, Status::Success, 8), (2, Status::Success, 300)]);
    let bytes = pair.a.host.memory.bytes(&to);
    assert_eq!((word(&bytes), &bytes[8..]), (LOCK | 9, &[0; 992][..]));
}

#[test]
fn whoever_signals_all_does_not_see_the_inquiry() {
    let mut pair = Pair::connected(&Setup { signal_all: true, ..setup() });
    let at = object(&pair, 5, 64);
    let wr = object_read(1, at.remote(0), &pair.a.host.memory.region(64));
    pair.a.send(SendWr { flags: SendFlags::empty(), ..wr });
    pair.run();
    assert_eq!(done(&mut pair), [(1, Status::Success, 64)]);
    let mut flushed = Pair::connected(&setup());
    flushed.a.send(object_read(1, at.remote(0), &flushed.a.host.memory.region(64)));
    flushed.a.qp.fail(Reason::Requested, &mut flushed.a.host);
    assert_eq!(done(&mut flushed), [(1, Status::WorkRequestFlushed, 0)]);
}

#[test]
fn an_answer_that_is_under_way_is_inquiry_enough() {
    let mut pair = pair();
    let (at, to) = (object(&pair, 5, 64), pair.a.host.memory.region(64));
    pair.a.send(send_wr(1, SendOp::Write(at.remote(8)), Payload::Inline([7; 8].into_iter().collect())));
    pair.a.send(object_read(2, at.remote(0), &to));
    pair.run();
    assert_eq!(sent_by_a(&pair), [Opcode::RC_WRITE_ONLY, Opcode::OBJECT_READ]);
    assert_eq!(pair.a.host.take_sent(), successes([1, 2]));
    assert_eq!(pair.a.host.memory.bytes(&to)[8..16], [7; 8]);
}

/// Peers that do not know it: one that has it switched off, and one that knows nothing of Longarm.
fn strangers() -> [Setup; 2] {
    let tuning = setup().tuning;
    [Tuning { extensions: false, ..tuning }, Tuning { selective: false, ..tuning }]
        .map(|tuning| Setup { tuning, ..setup() })
}

#[test]
fn a_peer_without_it_never_gets_one() {
    for stranger in strangers() {
        let mut pair = Pair::of_two(&setup(), &stranger);
        let (at, to) = (object(&pair, 5, 64), pair.a.host.memory.region(64));
        pair.a.send(object_read(1, at.remote(0), &to));
        pair.run();
        assert_eq!(done(&mut pair), [(1, Status::LocalQpOperation, 0)]);
        assert_eq!(pair.a.qp.failure(), Some(Reason::PeerLacksExtension));
        assert_eq!(sent_by_a(&pair), [Opcode::RC_READ_REQUEST]);

        let mut pair = Pair::of_two(&setup(), &stranger);
        let (at, to) = (object(&pair, 5, 64), pair.a.host.memory.region(64));
        pair.a.send(send_wr(1, SendOp::Read(at.remote(0)), payload(&to)));
        pair.run();
        let posted = pair.a.qp.post_send(object_read(2, at.remote(0), &to), &mut pair.a.host);
        assert_eq!((posted, pair.a.qp.peer_extends()), (Err(PostError::PeerLacksExtension), Some(false)));
        pair.a.send(send_wr(3, SendOp::Read(at.remote(0)), payload(&to)));
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes([1, 3]), "the queue pair goes on");
    }
}

#[test]
fn where_it_is_off_it_is_refused() {
    let [off, _] = strangers();
    let mut pair = Pair::connected(&off);
    let at = object(&pair, 5, 64);
    assert_eq!(inject_request(&mut pair, &at, 64), Err(DropReason::Refused));
    assert_eq!(pair.b.host.memory.object_reads.get(), 0);
}

/// A request as a peer makes it that does not ask first.
fn inject_request(pair: &mut Pair, at: &Buffer, len_bytes: u32) -> Result<(), DropReason> {
    let psn = pair.b.qp.query().rq_psn;
    let reth = Some(Reth { addr: at.addr, rkey: at.rkey, len_bytes });
    let extensions = Extensions { reth, object: Some(ObjectEth { lock_mask: LOCK }), ..Extensions::default() };
    let bth = Bth { opcode: Opcode::OBJECT_READ, pkey: PKey::DEFAULT, psn, ..Bth::default() };
    pair.inject(Side::B, bth, extensions, &[])
}

#[test]
fn rights_ranges_and_lengths_are_checked() {
    let read = Access::LOCAL_WRITE | Access::REMOTE_READ;
    let cases = [
        (read, 0, Ok(64)),
        (Access::LOCAL_WRITE | Access::REMOTE_WRITE, 0, Err(Status::RemoteAccess)),
        (read, 4, Err(Status::RemoteInvalidRequest)),
        (read, 8, Err(Status::RemoteAccess)),
        (read, 1 << 40, Err(Status::RemoteAccess)),
    ];
    for (access, offset, expected) in cases {
        let mut pair = pair();
        let (at, to) = (pair.b.host.memory.region_in(PD, 64, access), pair.a.host.memory.region(64));
        let from = RemoteAddr { addr: at.addr + offset, rkey: at.rkey };
        pair.a.send(object_read(1, from, &to));
        pair.pump();
        let status = expected.err().unwrap_or(Status::Success);
        assert_eq!(done(&mut pair), [(1, status, expected.unwrap_or(0))], "{access:?} {offset}");
    }
    let mut pair = pair();
    let (at, to) = (object(&pair, 5, 64), pair.a.host.memory.region(64));
    pair.a.send(object_read(1, RemoteAddr { rkey: RKey(77), ..at.remote(0) }, &to));
    pair.pump();
    assert_eq!(done(&mut pair), [(1, Status::RemoteAccess, 0)]);
    for len_bytes in [0, 8, (16 << 10) + 1, u32::MAX] {
        let mut pair = Pair::connected(&setup());
        let at = object(&pair, 5, 64);
        assert_eq!(inject_request(&mut pair, &at, len_bytes), Err(DropReason::Refused), "{len_bytes}");
    }
    let mut pair = Pair::connected(&Setup { access: Access::REMOTE_WRITE, ..setup() });
    let at = object(&pair, 5, 64);
    assert_eq!(inject_request(&mut pair, &at, 64), Err(DropReason::Refused), "the queue pair does not allow it");
}

#[test]
fn wrong_requests_are_refused_when_they_are_posted() {
    let mut pair = pair();
    for len in [0, 8, (16 << 10) + 1] {
        let to = pair.a.host.memory.region(len);
        let posted = pair.a.qp.post_send(object_read(1, to.remote(0), &to), &mut pair.a.host);
        assert_eq!(posted, Err(PostError::ObjectLength), "{len}");
    }
    let mut uc = Pair::connected(&Setup::new(QpType::Uc));
    let to = uc.a.host.memory.region(64);
    uc.a.send(object_read(1, to.remote(0), &to));
    uc.run();
    assert_eq!(uc.a.host.take_sent(), [(1, Status::LocalQpOperation)]);
}

#[test]
fn more_at_once_than_agreed_are_refused() {
    let mut pair = Pair::connected(&Setup { max_dest_rd_atomic: 2, ..setup() });
    let at = object(&pair, 5, 512);
    assert_eq!(inject_request(&mut pair, &at, 512), Ok(()));
    assert_eq!(inject_request(&mut pair, &at, 512), Ok(()));
    assert_eq!(inject_request(&mut pair, &at, 512), Err(DropReason::Refused));
}

/// Of 24 packets about one is lost, one comes twice and one comes late.
fn rough(seed: u32) -> impl FnMut(Side, &wire::Packet<'_>) -> PacketFate {
    let mut state = u64::from(seed) + 1;
    move |_, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        match (state >> 40) % 24 {
            0 => PacketFate::Drop,
            1 => PacketFate::Duplicate,
            2 => PacketFate::Late,
            _ => PacketFate::Pass,
        }
    }
}

#[test]
fn over_a_rough_wire_each_is_carried_out_once() {
    for seed in 0..200u32 {
        let mut pair = Pair::connected(&Setup { retry_count: 7, ..setup() });
        let counter = pair.b.host.memory.filled(&pattern(2048, 1));
        pair.b.host.memory.put(&counter, 0, &0u64.to_ne_bytes());
        let (result, mut places) = (pair.a.host.memory.region(8), Vec::new());
        for n in 0..10u64 {
            let to = pair.a.host.memory.region(8 * (2 + (n as usize * 37 + seed as usize) % 200));
            pair.a.send(fetch_add(2 * n, &result, &counter, 1));
            pair.a.send(object_read(2 * n + 1, counter.remote(0), &to));
            places.push(to);
        }
        pair.run_with(rough(seed));
        let status: Vec<_> = done(&mut pair).iter().map(|(id, status, _)| (*id, *status)).collect();
        assert_eq!(status, successes(0..20), "seed {seed}");
        assert_eq!(pair.b.host.memory.object_reads.get(), 10, "seed {seed}");
        for (n, to) in places.iter().enumerate() {
            let bytes = pair.a.host.memory.bytes(to);
            // In its turn: behind its own addition and before the next.
            assert_eq!(word(&bytes), n as u64 + 1, "seed {seed}");
            assert_eq!(bytes[8..], pattern(2048, 1)[8..bytes.len()], "seed {seed}");
        }
    }
}

#[test]
fn a_reply_that_was_lost_is_of_the_moment_of_its_first() {
    let mut pair = pair();
    acquaint(&mut pair);
    let (at, to) = (object(&pair, 5, 1000), pair.a.host.memory.region(1000));
    let before = pair.b.host.memory.bytes(&at);
    pair.a.send(object_read(9, at.remote(0), &to));
    let mut replies = 0;
    let memory = pair.b.host.memory.clone();
    let mut asked = Vec::new();
    pair.run_with(|_, packet| {
        if packet.opcode() == Opcode::OBJECT_READ {
            asked.push((packet.psn(), packet.reth().map(|reth| (reth.addr, reth.len_bytes))));
        }
        if packet.opcode() != Opcode::REPLY {
            return PacketFate::Pass;
        }
        replies += 1;
        if replies == 3 {
            // The object changes and is gone before the rest is asked for again.
            memory.put(&at, 0, &[0xee; 1000]);
            memory.kill(&at);
        }
        if replies == 3 { PacketFate::Drop } else { PacketFate::Pass }
    });
    assert_eq!(done(&mut pair), [(9, Status::Success, 1000)]);
    assert_eq!(pair.a.host.memory.bytes(&to), before);
    assert_eq!(pair.b.host.memory.object_reads.get(), 1);
    let (first, place) = asked[0];
    assert_eq!(asked[1..], [(first.add(2), place)], "it goes on at the missing packet");
}

#[test]
fn a_fence_waits_for_it() {
    let mut pair = pair();
    acquaint(&mut pair);
    let (at, to) = (object(&pair, 5, 600), pair.a.host.memory.region(600));
    pair.a.send(object_read(1, at.remote(0), &to));
    let write = send_wr(2, SendOp::Write(at.remote(0)), Payload::Inline([1; 8].into_iter().collect()));
    pair.a.send(SendWr { flags: SendFlags::FENCE | SendFlags::SIGNALED, ..write });
    let mut order = Vec::new();
    pair.pump_with(|_, packet| {
        order.push(packet.opcode());
        PacketFate::Pass
    });
    let write_at = order.iter().position(|opcode| *opcode == Opcode::RC_WRITE_ONLY);
    let last_reply = order.iter().rposition(|opcode| *opcode == Opcode::REPLY);
    assert!(last_reply < write_at, "{order:?}");
    assert_eq!(pair.a.host.take_sent(), successes([1, 2]));
}

#[test]
fn replies_that_fit_no_request_end_the_connection() {
    // Length of the reply, bytes in its packet; the request has room for 300 bytes.
    for (len_bytes, have) in [(301, 256), (256, 255), (300, 300), (8, 256), (u32::MAX, 256), (0, 4), (300, 0)] {
        let mut pair = pair();
        acquaint(&mut pair);
        let to = pair.a.host.memory.region(300);
        pair.a.send(object_read(1, RemoteAddr { addr: 0, rkey: RKey(1) }, &to));
        let (bytes, _) = pair.a.poll(pair.now).expect("a request");
        let psn = wire::Packet::parse(&bytes).expect("well-formed").psn();
        let extensions = Extensions {
            aeth: Some(Aeth { syndrome: Syndrome::ACK_UNLIMITED, msn: 1 }),
            reply: Some(ReplyEth { len_bytes }),
            ..Extensions::default()
        };
        let mark = pair.cookie_of(Side::B).mark();
        let bth = Bth { opcode: Opcode::REPLY, pkey: PKey::DEFAULT, psn, mark, ..Bth::default() };
        let outcome = pair.inject(Side::A, bth, extensions, &vec![1; have]);
        assert_eq!(outcome, Err(DropReason::BadResponse), "{len_bytes} {have}");
        assert_eq!(pair.a.host.take_sent(), [(1, Status::BadResponse)]);
        assert_eq!(pair.a.host.memory.bytes(&to), [0; 300]);
    }
}

#[test]
fn a_reply_to_another_request_ends_the_connection() {
    let mut pair = pair();
    acquaint(&mut pair);
    let (at, to) = (object(&pair, 5, 64), pair.a.host.memory.region(64));
    pair.a.send(send_wr(1, SendOp::Read(at.remote(0)), payload(&to)));
    let (bytes, _) = pair.a.poll(pair.now).expect("a request");
    let psn = wire::Packet::parse(&bytes).expect("well-formed").psn();
    let extensions = Extensions {
        aeth: Some(Aeth { syndrome: Syndrome::ACK_UNLIMITED, msn: 1 }),
        reply: Some(ReplyEth { len_bytes: 64 }),
        ..Extensions::default()
    };
    let mark = pair.cookie_of(Side::B).mark();
    let bth = Bth { opcode: Opcode::REPLY, pkey: PKey::DEFAULT, psn, mark, ..Bth::default() };
    assert_eq!(pair.inject(Side::A, bth, extensions, &[1; 64]), Err(DropReason::BadResponse));
    assert_eq!(pair.a.host.take_sent(), [(1, Status::BadResponse)]);
}

#[test]
fn the_inquiry_takes_no_place_in_the_queue() {
    let mut pair = Pair::connected(&Setup { caps: crate::attr::QpCaps { max_send_wr: 2, ..setup().caps }, ..setup() });
    let at = object(&pair, 5, 64);
    for wr_id in 0..2 {
        assert_eq!(pair.a.qp.send_room(), 2 - wr_id as u32);
        let to = pair.a.host.memory.region(64);
        pair.a.send(object_read(wr_id, at.remote(0), &to));
    }
    let posted = pair.a.qp.post_send(object_read(2, at.remote(0), &at), &mut pair.a.host);
    assert_eq!(posted, Err(PostError::QueueFull { capacity: 2 }));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes(0..2));
    assert_eq!(pair.a.qp.send_room(), 2);
}
