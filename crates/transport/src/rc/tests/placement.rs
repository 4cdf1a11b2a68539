//! ATOMIC WRITE and FLUSH.

use wire::{Bth, Extensions, Feth, FlushLevel, FlushPlacement, Opcode, PKey, RKey, Reth};

use super::*;
use crate::completion::CompletionOp;
use crate::drop::DropReason;
use crate::error::PostError;
use crate::memory::Access;
use crate::testing::{PD, PacketFate, Side};
use crate::wr::RemoteAddr;

fn setup() -> Setup {
    let setup = Setup::new(QpType::Rc);
    Setup { access: setup.access | Access::FLUSH_GLOBAL, ..setup }
}

fn pair() -> Pair {
    Pair::connected(&setup())
}

fn word_payload(value: u64) -> Payload {
    Payload::Inline(value.to_ne_bytes().into_iter().collect())
}

fn flush_of(wr_id: u64, remote: RemoteAddr, len_bytes: u32, level: FlushLevel) -> SendWr {
    let op = SendOp::Flush { remote, len_bytes, placement: FlushPlacement::GLOBAL, level };
    send_wr(wr_id, op, Payload::empty())
}

fn flush(wr_id: u64, at: &Buffer) -> SendWr {
    flush_of(wr_id, at.remote(0), at.len_bytes, FlushLevel::RANGE)
}

#[test]
fn an_atomic_write_stores_its_eight_bytes() {
    let mut pair = pair();
    let at = pair.b.host.memory.region(16);
    let listed = pair.a.host.memory.filled(&7u64.to_ne_bytes());
    pair.a.send(send_wr(1, SendOp::AtomicWrite(at.remote(8)), word_payload(5)));
    pair.a.send(send_wr(2, SendOp::AtomicWrite(at.remote(0)), payload(&listed)));
    pair.pump();
    let completions: Vec<_> = pair.a.host.sent.iter().map(|c| (c.wr_id, c.status, c.op)).collect();
    let done = |wr_id| (wr_id, Status::Success, CompletionOp::AtomicWrite);
    assert_eq!(completions, [done(1), done(2)]);
    let bytes = pair.b.host.memory.bytes(&at);
    assert_eq!((word(&bytes), word(&bytes[8..])), (7, 5));
}

#[test]
fn they_look_on_the_wire_as_linux_makes_them() {
    let mut pair = pair();
    let at = pair.b.host.memory.region(64);
    pair.a.send(send_wr(1, SendOp::AtomicWrite(at.remote(8)), word_payload(5)));
    pair.a.send(flush_of(2, at.remote(16), 32, FlushLevel::RANGE));
    pair.a.send(flush_of(3, at.remote(0), 0, FlushLevel::MR));
    let mut seen = Vec::new();
    pair.pump_with(|_, packet| {
        seen.push((packet.opcode(), packet.reth(), packet.feth(), packet.payload().to_vec()));
        assert!(packet.info().is_response() || packet.bth().ack_req);
        PacketFate::Pass
    });
    let reth = |offset, len_bytes| Some(Reth { addr: at.addr + offset, rkey: at.rkey, len_bytes });
    let feth = |level| Some(Feth { placement: FlushPlacement::GLOBAL, level });
    let answer = (Opcode::RC_READ_RESPONSE_ONLY, None, None, vec![]);
    let expected = [
        (Opcode::RC_ATOMIC_WRITE, reth(8, 8), None, 5u64.to_ne_bytes().to_vec()),
        (Opcode::RC_FLUSH, reth(16, 32), feth(FlushLevel::RANGE), vec![]),
        (Opcode::RC_FLUSH, reth(0, 0), feth(FlushLevel::MR), vec![]),
        answer.clone(),
        answer.clone(),
        answer,
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_flush_completes_after_what_it_is_for() {
    let mut pair = pair();
    let bytes = pattern(2000, 1);
    let from = pair.a.host.memory.filled(&bytes);
    let at = pair.b.host.memory.region(2000);
    pair.a.send(send_wr(1, SendOp::Write(at.remote(0)), payload(&from)));
    pair.a.send(flush(2, &at));
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([1, 2]));
    assert_eq!(pair.b.host.memory.bytes(&at), bytes);
}

#[test]
fn they_count_as_reads_and_a_fence_waits_for_them() {
    let mut pair = Pair::connected(&Setup { max_rd_atomic: 1, ..setup() });
    let at = pair.b.host.memory.region(64);
    for wr_id in 0..3 {
        pair.a.send(flush(2 * wr_id, &at));
        pair.a.send(send_wr(2 * wr_id + 1, SendOp::AtomicWrite(at.remote(0)), word_payload(wr_id)));
    }
    let mut outstanding = 0;
    pair.pump_with(|side, _| {
        outstanding += if side == Side::A { 1 } else { -1 };
        assert!(outstanding <= 1);
        PacketFate::Pass
    });
    assert_eq!(pair.a.host.take_sent(), successes(0..6));
}

#[test]
fn what_is_lost_is_done_once_and_answered_again() {
    let mut pair = Pair::connected(&Setup { retry_count: 7, ..setup() });
    let at = pair.b.host.memory.region(8);
    for wr_id in 0..20 {
        let wr = match wr_id % 2 {
            0 => send_wr(wr_id, SendOp::AtomicWrite(at.remote(0)), word_payload(wr_id + 1)),
            _ => flush(wr_id, &at),
        };
        pair.a.send(wr);
    }
    let mut count = 0;
    pair.run_with(|_, _| {
        count += 1;
        match count % 7 {
            3 => PacketFate::Drop,
            5 => PacketFate::Duplicate,
            6 => PacketFate::Late,
            _ => PacketFate::Pass,
        }
    });
    assert_eq!(pair.a.host.take_sent(), successes(0..20));
    assert_eq!(word(&pair.b.host.memory.bytes(&at)), 19);
    assert!(pair.b.qp.counters().duplicate_requests > 0);
}

#[test]
fn a_repeated_atomic_write_is_not_carried_out_again() {
    let mut pair = pair();
    let at = pair.b.host.memory.region(8);
    let reth = Reth { addr: at.addr, rkey: at.rkey, len_bytes: 8 };
    let extensions = Extensions { reth: Some(reth), ..Extensions::default() };
    let psn = pair.b.qp.query().rq_psn;
    let bth = Bth { opcode: Opcode::RC_ATOMIC_WRITE, pkey: PKey::DEFAULT, psn, ..Bth::default() };
    pair.inject(Side::B, bth, extensions, &[1; 8]).expect("taken");
    assert_eq!(pair.b.host.memory.bytes(&at), [1; 8]);
    pair.inject(Side::B, bth, extensions, &[2; 8]).expect("answered");
    assert_eq!(pair.b.host.memory.bytes(&at), [1; 8]);
    let mut answers = 0;
    while let Some((bytes, _)) = pair.b.poll(pair.now) {
        let packet = wire::Packet::parse(&bytes).expect("well-formed");
        assert_eq!((packet.opcode(), packet.psn()), (Opcode::RC_READ_RESPONSE_ONLY, psn));
        answers += 1;
    }
    assert_eq!(answers, 1, "one that had not left is still the answer");
}

#[test]
fn rights_and_ranges_are_checked() {
    let write = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    type Make = fn(&Buffer) -> SendWr;
    let atomic_write: Make = |at| send_wr(1, SendOp::AtomicWrite(at.remote(0)), word_payload(1));
    let cases: [(Access, Make, Status); 10] = [
        (write, atomic_write, Status::Success),
        (Access::LOCAL_WRITE | Access::REMOTE_ATOMIC, atomic_write, Status::RemoteAccess),
        (write, |at| send_wr(1, SendOp::AtomicWrite(at.remote(4)), word_payload(1)), Status::RemoteInvalidRequest),
        (write, |at| send_wr(1, SendOp::AtomicWrite(at.remote(64)), word_payload(1)), Status::RemoteAccess),
        (Access::FLUSH_GLOBAL, |at| flush(1, at), Status::Success),
        (write, |at| flush(1, at), Status::RemoteAccess),
        (Access::FLUSH_GLOBAL, |at| flush_of(1, at.remote(1), at.len_bytes, FlushLevel::RANGE), Status::RemoteAccess),
        (Access::FLUSH_GLOBAL, |at| flush_of(1, at.remote(900), 900, FlushLevel::MR), Status::Success),
        (
            Access::FLUSH_GLOBAL,
            |_| flush_of(1, RemoteAddr { addr: 0, rkey: RKey(1) }, 0, FlushLevel::MR),
            Status::RemoteAccess,
        ),
        (Access::all(), |at| SendWr { op: persistent(at), ..flush(1, at) }, Status::RemoteAccess),
    ];
    for (number, (access, make, status)) in cases.into_iter().enumerate() {
        let mut pair = pair();
        let at = pair.b.host.memory.region_in(PD, 64, access);
        pair.a.send(make(&at));
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), [(1, status)], "case {number}");
    }
}

/// The queue pairs of these tests do not allow it.
fn persistent(at: &Buffer) -> SendOp {
    let placement = FlushPlacement::GLOBAL | FlushPlacement::PERSISTENT;
    SendOp::Flush { remote: at.remote(0), len_bytes: 8, placement, level: FlushLevel::RANGE }
}

#[test]
fn malformed_ones_are_refused() {
    let global = Feth { placement: FlushPlacement::GLOBAL, level: FlushLevel::RANGE };
    let feths = [
        Feth { placement: FlushPlacement::empty(), ..global },
        Feth { placement: FlushPlacement::from_bits_retain(5), ..global },
        Feth { level: FlushLevel(2), ..global },
    ];
    let flushes = feths.map(|feth| (Opcode::RC_FLUSH, Some(feth), 8, vec![]));
    let writes =
        [(8, 4), (4, 4), (16, 16), (0, 0)].map(|(len, have)| (Opcode::RC_ATOMIC_WRITE, None, len, vec![1; have]));
    for (opcode, feth, len_bytes, payload) in flushes.into_iter().chain(writes) {
        let mut pair = pair();
        let at = pair.b.host.memory.region(64);
        let reth = Some(Reth { addr: at.addr, rkey: at.rkey, len_bytes });
        let psn = pair.b.qp.query().rq_psn;
        let bth = Bth { opcode, pkey: PKey::DEFAULT, psn, ..Bth::default() };
        let outcome = pair.inject(Side::B, bth, Extensions { reth, feth, ..Extensions::default() }, &payload);
        assert_eq!(outcome, Err(DropReason::Refused), "{opcode} {feth:?} {len_bytes} {payload:?}");
        assert_eq!(pair.b.host.memory.bytes(&at), [0; 64]);
    }
}

#[test]
fn wrong_requests_are_refused_when_they_are_posted() {
    let mut pair = pair();
    let at = pair.b.host.memory.region(64);
    let write = |bytes: &[u8]| send_wr(1, SendOp::AtomicWrite(at.remote(0)), Payload::Inline(bytes.into()));
    let with = |placement, level| {
        let op = SendOp::Flush { remote: at.remote(0), len_bytes: 8, placement, level };
        send_wr(1, op, Payload::empty())
    };
    let global = FlushPlacement::GLOBAL;
    for (wr, refused) in [
        (write(&[0; 4]), PostError::AtomicLength),
        (write(&[0; 16]), PostError::AtomicLength),
        (with(FlushPlacement::empty(), FlushLevel::RANGE), PostError::Flush),
        (with(FlushPlacement::from_bits_retain(4), FlushLevel::RANGE), PostError::Flush),
        (with(global, FlushLevel(2)), PostError::Flush),
        (SendWr { payload: word_payload(1), ..with(global, FlushLevel::MR) }, PostError::Flush),
    ] {
        assert_eq!(pair.a.qp.post_send(wr, &mut pair.a.host), Err(refused));
    }
    let mut none = Pair::connected(&Setup { max_rd_atomic: 0, ..setup() }).a;
    for wr in [write(&[0; 8]), flush(1, &at)] {
        assert_eq!(none.qp.post_send(wr, &mut none.host), Err(PostError::NoReadDepth));
    }
}
