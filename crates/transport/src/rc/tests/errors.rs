//! Refusals: what the peer learns, what the owner learns, and that nothing was touched.

use super::*;
use crate::attr::{AttrMask, QpAttr, QpState};
use crate::drop::DropReason;
use crate::host::QpEvent;
use crate::memory::{Access, MemoryError};
use crate::reason::Reason;
use crate::testing::{PacketFate, Side};
use wire::{Aeth, Bth, NakCode, Opcode, Psn, Reth, Syndrome};

/// Posts one request that the peer must refuse, and returns both statuses.
fn refused(pair: &mut Pair, wr: SendWr) -> Status {
    pair.a.send(wr);
    pair.a.send(send_wr(99, SendOp::Send, Payload::empty()));
    pair.run();
    let sent = pair.a.host.take_sent();
    assert_eq!(sent[1], (99, Status::WorkRequestFlushed));
    assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Error, QpState::Error));
    sent[0].1
}

#[test]
fn a_wrong_key_range_or_right_is_refused_and_nothing_is_written() {
    type MakeOp = fn(&Buffer) -> SendOp;
    let cases: [(&str, MakeOp); 5] = [
        ("key", |b| {
            let mut at = b.remote(0);
            at.rkey.0 ^= 0x5555;
            SendOp::Write(at)
        }),
        ("beyond the end", |b| SendOp::Write(b.remote(1))),
        ("before the start", |b| SendOp::Write(b.remote(u64::MAX))),
        ("READ beyond the end", |b| SendOp::Read(b.remote(1))),
        ("wrap around", |b| SendOp::Read(b.remote(u64::MAX - b.addr))),
    ];
    for (what, op) in cases {
        let mut pair = pair();
        let (from, target) = (pair.a.host.memory.filled(&[1; 600]), pair.b.host.memory.region(600));
        let status = refused(&mut pair, send_wr(1, op(&target), payload(&from)));
        assert_eq!(status, Status::RemoteAccess, "{what}");
        assert_eq!(pair.b.host.memory.bytes(&target), [0; 600], "{what}");
        assert_eq!(pair.b.host.events, [QpEvent::AccessError], "{what}");
        assert_eq!(pair.a.qp.failure(), Some(Reason::PeerRefused(NakCode::RemoteAccessError)));
        assert!(matches!(pair.b.qp.failure(), Some(Reason::PeerAccessRefused(_))));
    }
}

#[test]
fn the_queue_pair_itself_must_allow_the_operation() {
    for (op, missing) in [(0, Access::REMOTE_WRITE), (1, Access::REMOTE_READ), (2, Access::REMOTE_ATOMIC)] {
        let mut setup = setup();
        setup.access.remove(missing);
        let mut pair = Pair::connected(&setup);
        let (from, target) = (pair.a.host.memory.filled(&[1; 8]), pair.b.host.memory.region(8));
        let wr = match op {
            0 => send_wr(1, SendOp::Write(target.remote(0)), payload(&from)),
            1 => send_wr(1, SendOp::Read(target.remote(0)), payload(&from)),
            _ => fetch_add(1, &from, &target, 1),
        };
        assert_eq!(refused(&mut pair, wr), Status::RemoteAccess, "{missing:?}");
        assert_eq!(pair.b.host.memory.bytes(&target), [0; 8]);
    }
}

#[test]
fn a_misaligned_atomic_is_invalid() {
    let mut pair = pair();
    let (old, target) = (pair.a.host.memory.region(8), pair.b.host.memory.region(16));
    let wr = send_wr(1, SendOp::Atomic(target.remote(4), AtomicOp::FetchAdd { add: 1 }), payload(&old));
    assert_eq!(refused(&mut pair, wr), Status::RemoteInvalidRequest);
    assert_eq!(pair.b.host.memory.bytes(&target), [0; 16]);
}

#[test]
fn a_message_longer_than_its_receive_buffer_fails_both_ends() {
    let mut pair = pair();
    let (from, to) = (pair.a.host.memory.filled(&[1; 1000]), pair.b.host.memory.region(300));
    post_recv(&mut pair, 5, &to);
    post_recv(&mut pair, 6, &to);
    let status = refused(&mut pair, send_wr(1, SendOp::Send, payload(&from)));
    assert_eq!(status, Status::RemoteInvalidRequest);
    let expected = [(5, Status::LocalLength), (6, Status::WorkRequestFlushed)];
    assert_eq!(pair.b.host.take_received(), expected);
}

#[test]
fn a_receive_buffer_that_is_gone_fails_both_ends() {
    let mut pair = pair();
    let (from, to) = (pair.a.host.memory.filled(&[1; 100]), pair.b.host.memory.region(300));
    post_recv(&mut pair, 5, &to);
    pair.b.host.memory.kill(&to);
    assert_eq!(refused(&mut pair, send_wr(1, SendOp::Send, payload(&from))), Status::RemoteOperation);
    assert_eq!(pair.b.host.take_received(), [(5, Status::LocalProtection)]);
}

#[test]
fn memory_that_goes_away_during_a_read_is_a_remote_access_error() {
    let mut setup = setup();
    setup.tuning.window_initial_bytes = 2000;
    setup.tuning.window_max_bytes = 2000;
    let mut pair = Pair::connected(&setup);
    let (back, source) = (pair.a.host.memory.region(20_000), pair.b.host.memory.region(20_000));
    pair.a.send(send_wr(1, SendOp::Read(source.remote(0)), payload(&back)));
    for _ in 0..4 {
        pair.round(&mut |_, _| PacketFate::Pass);
    }
    pair.b.host.memory.kill(&source);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteAccess)]);
}

#[test]
fn memory_that_goes_away_during_a_write_with_immediate_loses_no_receive() {
    let mut setup = setup();
    // One packet at a time.
    (setup.tuning.window_initial_bytes, setup.tuning.window_max_bytes) = (1, 1);
    let mut pair = Pair::connected(&setup);
    let (from, target) = (pair.a.host.memory.filled(&pattern(2000, 1)), pair.b.host.memory.region(2000));
    let notice = pair.b.host.memory.region(8);
    for id in [5, 6] {
        post_recv(&mut pair, id, &notice);
    }
    pair.a.send(send_wr(1, SendOp::WriteImm(target.remote(0), 9), payload(&from)));
    let memory = pair.b.host.memory.clone();
    pair.run_with(|_, packet| {
        if packet.imm().is_some() {
            memory.kill(&target);
        }
        PacketFate::Pass
    });
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteAccess)]);
    assert_eq!(pair.b.host.take_received(), [(5, Status::LocalAccess), (6, Status::WorkRequestFlushed)]);
}

#[test]
fn our_own_bad_list_is_a_local_protection_error_in_its_turn() {
    let mut pair = pair();
    let (good, bad) = (pair.a.host.memory.filled(&[1; 700]), pair.a.host.memory.region(700));
    let target = pair.b.host.memory.region(700);
    pair.a.host.memory.kill(&bad);
    pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&good)));
    pair.a.send(send_wr(2, SendOp::Write(target.remote(0)), payload(&bad)));
    pair.a.send(send_wr(3, SendOp::Write(target.remote(0)), payload(&good)));
    pair.run();
    let expected = [(1, Status::Success), (2, Status::LocalProtection), (3, Status::WorkRequestFlushed)];
    assert_eq!(pair.a.host.take_sent(), expected);
    assert_eq!(pair.a.qp.failure(), Some(Reason::LocalMemory(MemoryError::BadKey)));
}

#[test]
fn silence_ends_after_the_agreed_retries() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&[1; 8]);
    pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
    pair.a.recv(recv_wr(7, from.sgl()));
    pair.run_with(|_, _| PacketFate::Drop);
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RetryExceeded)]);
    assert_eq!(pair.a.host.take_received(), [(7, Status::WorkRequestFlushed)]);
    assert_eq!(pair.a.qp.counters().ack_timeouts, 4);
    let timeout = wire::ack_timeout(setup().timeout).unwrap();
    let waited = pair.now.since(crate::Time(0));
    assert!(waited >= timeout * 4 && waited < timeout * 5, "{waited:?}");
}

#[test]
fn the_error_state_flushes_everything_in_order() {
    let mut pair = pair();
    let buffer = pair.a.host.memory.region(64);
    for id in 0..4 {
        pair.a.recv(recv_wr(id, buffer.sgl()));
        pair.a.send(send_wr(id, SendOp::Send, Payload::empty()));
    }
    pair.a.go(QpState::Error);
    let flushed: Vec<_> = (0..4).map(|id| (id, Status::WorkRequestFlushed)).collect();
    assert_eq!(pair.a.host.take_sent(), flushed);
    assert_eq!(pair.a.host.take_received(), flushed);
    pair.a.send(send_wr(9, SendOp::Send, Payload::empty()));
    assert_eq!(pair.a.host.take_sent(), [(9, Status::WorkRequestFlushed)], "later ones too");
    pair.a.go(QpState::Reset);
    assert_eq!(pair.a.qp.failure(), None);
}

/// A packet for B as an attacker or a broken peer would build it.
fn inject(pair: &mut Pair, bth: Bth, rest: &[u8]) -> Result<(), DropReason> {
    let mut bytes = Bth { dest_qpn: pair.b.qp.qpn(), pkey: wire::PKey::DEFAULT, ..bth }.encode().to_vec();
    bytes.extend_from_slice(rest);
    let transmit = crate::Transmit { len_bytes: bytes.len(), address: pair.a.path_to(&pair.b), source_port: 0 };
    let now = pair.now;
    pair.b.take_in(&bytes, &transmit, now)
}

fn expected_psn(pair: &Pair) -> Psn {
    pair.b.qp.query().rq_psn
}

#[test]
fn opcodes_out_of_order_and_false_lengths_are_refused() {
    let reth = |len_bytes, buffer: &Buffer| {
        let at = buffer.remote(0);
        Reth { addr: at.addr, rkey: at.rkey, len_bytes }.encode().to_vec()
    };
    type MakeRest = Box<dyn Fn(&Buffer) -> Vec<u8>>;
    let cases: Vec<(&str, Opcode, MakeRest)> = vec![
        ("MIDDLE first", Opcode::RC_SEND_MIDDLE, Box::new(|_| vec![0; 256])),
        ("short FIRST", Opcode::RC_SEND_FIRST, Box::new(|_| vec![0; 128])),
        ("long ONLY", Opcode::RC_SEND_ONLY, Box::new(|_| vec![0; 512])),
        ("WRITE shorter than it says", Opcode::RC_WRITE_ONLY, Box::new(move |b| [reth(64, b), vec![0; 32]].concat())),
        ("WRITE longer than it says", Opcode::RC_WRITE_ONLY, Box::new(move |b| [reth(32, b), vec![0; 64]].concat())),
        ("huge READ", Opcode::RC_READ_REQUEST, Box::new(move |b| reth(u32::MAX, b))),
    ];
    for (what, opcode, rest) in cases {
        let mut pair = pair();
        let target = pair.b.host.memory.region(64);
        post_recv(&mut pair, 1, &target);
        let bth = Bth { opcode, psn: expected_psn(&pair), ..Bth::default() };
        assert_eq!(inject(&mut pair, bth, &rest(&target)), Err(DropReason::Refused), "{what}");
        assert_eq!(pair.b.host.memory.bytes(&target), [0; 64], "{what}");
        assert!(matches!(pair.b.qp.failure(), Some(Reason::PeerBrokeProtocol(_))), "{what}");
    }
}

#[test]
fn strangers_and_ghosts_change_nothing() {
    let mut pair = pair();
    let target = pair.b.host.memory.region(64);
    post_recv(&mut pair, 1, &target);
    // A NAK and an ACK for something never sent.
    for syndrome in [Syndrome::nak(NakCode::RemoteAccessError), Syndrome::ack(31), Syndrome::rnr(1)] {
        let bth = Bth { opcode: Opcode::RC_ACKNOWLEDGE, psn: Psn::new(77), ..Bth::default() };
        let aeth = Aeth { syndrome, msn: 3 }.encode();
        assert_eq!(inject(&mut pair, bth, &aeth), Err(DropReason::GhostResponse));
    }
    // Another service, another partition, another address.
    let psn = expected_psn(&pair);
    let uc = Bth { opcode: Opcode::UC_SEND_ONLY, psn, ..Bth::default() };
    assert_eq!(inject(&mut pair, uc, &[]), Err(DropReason::WrongService));
    pair.a.gid = wire::Gid([9; 16]);
    let bth = Bth { opcode: Opcode::RC_SEND_ONLY, psn, ..Bth::default() };
    assert_eq!(inject(&mut pair, bth, &[]), Err(DropReason::WrongSource));
    assert_eq!(pair.b.qp.state(), QpState::Rts);
    assert!(pair.b.host.received.is_empty());
}

#[test]
fn a_response_of_the_wrong_length_ends_the_connection() {
    let mut pair = pair();
    let (source, back) = (pair.a.host.memory.region(600), pair.b.host.memory.region(600));
    pair.b.send(send_wr(1, SendOp::Read(source.remote(0)), payload(&back)));
    let first = pair.b.qp.query().sq_psn;
    pair.b.poll(pair.now).expect("the READ request");
    let bth = Bth { opcode: Opcode::RC_READ_RESPONSE_ONLY, psn: first, ..Bth::default() };
    let mut rest = Aeth { syndrome: Syndrome::ack(31), msn: 1 }.encode().to_vec();
    rest.extend([0xee; 12]);
    assert_eq!(inject(&mut pair, bth, &rest), Err(DropReason::BadResponse));
    assert_eq!(pair.b.host.take_sent(), [(1, Status::BadResponse)]);
    assert_eq!(pair.b.host.memory.bytes(&back), [0; 600]);
}

#[test]
fn a_late_packet_of_a_dead_connection_is_ignored() {
    let mut pair = pair();
    let target = pair.b.host.memory.region(8);
    let from = pair.a.host.memory.filled(&[1; 8]);
    pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
    let (bytes, transmit) = pair.a.poll(pair.now).expect("a packet");
    let attr = QpAttr { state: QpState::Error, ..QpAttr::default() };
    pair.b.modify(&attr, AttrMask::STATE);
    pair.deliver(Side::A, &bytes, &transmit);
    assert_eq!(pair.dropped, [(Side::B, DropReason::QpState)]);
    assert_eq!(pair.b.host.memory.bytes(&target), [0; 8]);
}

/// A WRITE with immediate data that the peer may not do takes the receive WQE along if it is one packet. Of a longer one
/// its first packet does not tell that it would take one.
#[test]
fn a_refused_write_with_immediate_fails_a_receive() {
    for (len, status) in [(8, Status::LocalAccess), (600, Status::WorkRequestFlushed)] {
        let mut pair = pair();
        let (from, target) = (pair.a.host.memory.filled(&pattern(len, 1)), pair.b.host.memory.region(len));
        for id in [5, 6] {
            post_recv(&mut pair, id, &target);
        }
        assert_eq!(
            refused(&mut pair, send_wr(1, SendOp::WriteImm(target.remote(1), 9), payload(&from))),
            Status::RemoteAccess
        );
        assert_eq!(pair.b.host.take_received(), [(5, status), (6, Status::WorkRequestFlushed)], "{len} bytes");
    }
}

#[test]
fn a_key_that_is_not_there_can_be_invalidated_by_nobody() {
    let mut pair = pair();
    let to = pair.b.host.memory.region(8);
    post_recv(&mut pair, 5, &to);
    let bad = wire::RKey(0x1234_5678);
    assert_eq!(refused(&mut pair, send_wr(1, SendOp::SendInvalidate(bad), Payload::empty())), Status::RemoteAccess);
    assert_eq!(pair.b.host.take_received(), [(5, Status::LocalAccess)]);
    assert_eq!(pair.b.host.events, [QpEvent::AccessError]);
    let mut pair = Pair::connected(&setup());
    pair.a.send(send_wr(1, SendOp::LocalInvalidate(bad), Payload::empty()));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::MwBind)]);
    assert_eq!(pair.a.qp.state(), QpState::Error);
}
