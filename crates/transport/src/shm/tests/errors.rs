//! Refusals: what each end learns, and that nothing was touched.

use super::*;
use crate::attr::QpState;
use crate::host::QpEvent;
use crate::memory::{Access, MemoryError};
use crate::reason::Reason;
use crate::wr::RemoteAddr;

/// A request that the peer refuses, one before and one behind it. Returns its status.
fn refused(pair: &mut ShmPair, wr: SendWr) -> Status {
    pair.a.send(send_wr(98, SendOp::Write(RemoteAddr { addr: 0, rkey: wire::RKey(0) }), Payload::empty()));
    pair.a.send(wr);
    pair.a.send(send_wr(99, SendOp::Send, Payload::empty()));
    pair.run();
    let sent = pair.a.host.take_sent();
    assert_eq!((sent[0].0, sent[2]), (98, (99, Status::WorkRequestFlushed)));
    assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Error, QpState::Error));
    sent[1].1
}

#[test]
fn a_wrong_key_range_or_right_is_refused_and_nothing_is_written() {
    type MakeOp = fn(&Buffer) -> SendOp;
    let cases: [(&str, MakeOp); 6] = [
        ("key", |b| SendOp::Write(RemoteAddr { rkey: wire::RKey(1), ..b.remote(0) })),
        ("beyond the end", |b| SendOp::Write(b.remote(1))),
        ("before the start", |b| SendOp::WriteImm(b.remote(u64::MAX), 1)),
        ("READ beyond the end", |b| SendOp::Read(b.remote(1))),
        ("wrap around", |b| SendOp::Read(b.remote(u64::MAX - b.addr))),
        ("READ by a wrong key", |b| SendOp::Read(RemoteAddr { rkey: wire::RKey(1), ..b.remote(0) })),
    ];
    for mode in ShmMode::ALL {
        for (what, op) in cases {
            let mut pair = pair(mode);
            let (from, target) = (pair.a.host.memory.filled(&[1; 600]), pair.b.host.memory.region(600));
            let status = refused(&mut pair, send_wr(1, op(&target), payload(&from)));
            assert_eq!(status, Status::RemoteAccess, "{what} {mode:?}");
            assert_eq!(pair.b.host.memory.bytes(&target), [0; 600], "{what}");
            assert_eq!(pair.b.host.events, [QpEvent::AccessError], "{what}");
            assert!(matches!(pair.b.qp.failure(), Some(Reason::PeerAccessRefused(_))));
        }
    }
}

#[test]
fn the_queue_pair_itself_must_allow_the_operation() {
    for mode in ShmMode::ALL {
        for (op, missing) in [(1, Access::REMOTE_READ), (2, Access::REMOTE_ATOMIC)] {
            let mut setup = setup();
            setup.access.remove(missing);
            let mut pair = ShmPair::connected(&setup).in_mode(mode);
            let (from, target) = (pair.a.host.memory.filled(&[1; 8]), pair.b.host.memory.region(8));
            let wr = match op {
                1 => send_wr(1, SendOp::Read(target.remote(0)), payload(&from)),
                _ => fetch_add(1, &from, &target, 1),
            };
            assert_eq!(refused(&mut pair, wr), Status::RemoteAccess, "{missing:?}");
            assert_eq!(pair.b.host.memory.bytes(&target), [0; 8]);
            assert_eq!(pair.b.host.events, [QpEvent::AccessError], "{mode:?}");
        }
    }
}

#[test]
fn a_misaligned_atomic_is_invalid() {
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        let (old, target) = (pair.a.host.memory.region(8), pair.b.host.memory.region(16));
        let wr = send_wr(1, SendOp::Atomic(target.remote(4), AtomicOp::FetchAdd { add: 1 }), payload(&old));
        assert_eq!(refused(&mut pair, wr), Status::RemoteInvalidRequest);
        assert_eq!(pair.b.host.events, [QpEvent::RequestError], "{mode:?}");
    }
}

#[test]
fn a_message_longer_than_its_receive_buffer_fails_both_ends() {
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        let (from, to) = (pair.a.host.memory.filled(&[1; 1000]), pair.b.host.memory.region(300));
        post_recv(&mut pair, 5, &to);
        post_recv(&mut pair, 6, &to);
        let status = refused(&mut pair, send_wr(1, SendOp::Send, payload(&from)));
        assert_eq!(status, Status::RemoteInvalidRequest);
        assert_eq!(pair.b.host.take_received(), [(5, Status::LocalLength), (6, Status::WorkRequestFlushed)]);
        assert!(pair.b.host.events.is_empty(), "{mode:?}");
    }
}

#[test]
fn a_receive_buffer_that_is_gone_fails_both_ends() {
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        let (from, to) = (pair.a.host.memory.filled(&[1; 100]), pair.b.host.memory.region(300));
        post_recv(&mut pair, 5, &to);
        pair.b.host.memory.kill(&to);
        assert_eq!(refused(&mut pair, send_wr(1, SendOp::Send, payload(&from))), Status::RemoteOperation);
        assert_eq!(pair.b.host.take_received(), [(5, Status::LocalProtection)]);
    }
}

#[test]
fn memory_that_goes_away_during_a_read_is_a_remote_access_error() {
    let mut pair = pair(ShmMode::ByRequest);
    let (back, source) = (pair.a.host.memory.region(2000), pair.b.host.memory.region(2000));
    pair.shared.room[1].set(3);
    pair.a.send(send_wr(1, SendOp::Read(source.remote(0)), payload(&back)));
    pair.go(crate::testing::Side::A, false);
    pair.deliver(crate::testing::Side::B);
    pair.go(crate::testing::Side::B, false);
    pair.b.host.memory.kill(&source);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteAccess)]);
    assert_eq!(pair.b.host.events, [QpEvent::AccessError]);
}

#[test]
fn memory_that_goes_away_during_a_write_takes_no_receive_wqe_with_it() {
    let mut pair = pair(ShmMode::ByRequest);
    let (from, target) = (pair.a.host.memory.region(600), pair.b.host.memory.region(600));
    let other = pair.b.host.memory.region(8);
    post_recv(&mut pair, 5, &other);
    pair.a.send(send_wr(1, SendOp::WriteImm(target.remote(0), 1), payload(&from)));
    pair.go(crate::testing::Side::A, false);
    pair.deliver(crate::testing::Side::B);
    pair.b.host.memory.kill(&target);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteAccess)]);
    assert_eq!(pair.b.host.take_received(), [(5, Status::WorkRequestFlushed)]);
}

/// A list of ours that is refused, in every kind of request, behind two SENDs that succeed.
#[test]
fn our_own_bad_list_is_a_local_protection_error_in_its_turn() {
    for mode in ShmMode::ALL {
        for kind in 0..5 {
            let mut pair = pair(mode);
            let (good, bad) = (pair.a.host.memory.filled(&[1; 8]), pair.a.host.memory.region(8));
            let target = pair.b.host.memory.region(8);
            pair.a.host.memory.kill(&bad);
            let op = match kind {
                0 => SendOp::Send,
                1 => SendOp::Write(target.remote(0)),
                2 => SendOp::Read(target.remote(0)),
                3 => SendOp::Atomic(target.remote(0), AtomicOp::FetchAdd { add: 1 }),
                _ => SendOp::AtomicWrite(target.remote(0)),
            };
            for id in 1..3 {
                pair.a.send(send_wr(id, SendOp::Send, payload(&good)));
            }
            pair.a.send(send_wr(3, op, payload(&bad)));
            pair.a.send(send_wr(4, SendOp::Write(target.remote(0)), payload(&good)));
            // The first is refused for a while: what is wrong with the third must wait.
            pair.pump();
            assert_eq!(pair.a.host.take_sent(), [], "{kind} {mode:?}");
            for id in 0..3 {
                post_recv(&mut pair, id, &target);
            }
            pair.run();
            let (bad, flushed) = ((3, Status::LocalProtection), (4, Status::WorkRequestFlushed));
            assert_eq!(pair.a.host.take_sent(), [successes([1, 2]), vec![bad, flushed]].concat(), "{kind} {mode:?}");
            assert_eq!(pair.a.qp.failure(), Some(Reason::LocalMemory(MemoryError::BadKey)));
        }
    }
}

#[test]
fn a_second_part_that_cannot_be_read_fails_its_request() {
    let mut pair = pair(ShmMode::ByRequest);
    let (good, bad) = (pair.a.host.memory.filled(&[1; 256]), pair.a.host.memory.region(8));
    let to = pair.b.host.memory.region(300);
    pair.a.host.memory.kill(&bad);
    post_recv(&mut pair, 5, &to);
    let list = [good.sge(0, 256), bad.sge(0, 8)].into_iter().collect();
    pair.a.send(send_wr(1, SendOp::Send, Payload::Sgl(list)));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::LocalProtection)]);
    pair.b.go(QpState::Error);
    assert_eq!(pair.b.host.take_received(), [(5, Status::WorkRequestFlushed)], "the one that was begun");
}

#[test]
fn the_error_state_flushes_everything_in_order_and_later_ones_too() {
    let mut pair = pair(ShmMode::Direct);
    let buffer = pair.a.host.memory.region(64);
    for id in 0..4 {
        pair.a.recv(recv_wr(id, buffer.sgl()));
        pair.a.send(send_wr(id, SendOp::Send, Payload::empty()));
    }
    pair.go(crate::testing::Side::A, true);
    pair.a.go(QpState::Error);
    let flushed: Vec<_> = (0..4).map(|id| (id, Status::WorkRequestFlushed)).collect();
    assert_eq!((pair.a.host.take_sent(), pair.a.host.take_received()), (flushed.clone(), flushed));
    pair.a.send(send_wr(9, SendOp::Send, Payload::empty()));
    assert_eq!(pair.a.host.take_sent(), [(9, Status::WorkRequestFlushed)]);
    pair.run();
    assert!(pair.a.host.sent.is_empty());
}

#[test]
fn a_refusal_finds_its_way_through_a_full_lane() {
    for mode in [ShmMode::Direct, ShmMode::ByRequest] {
        let mut pair = pair(mode);
        let (from, target) = (pair.a.host.memory.filled(&[1; 8]), pair.b.host.memory.region(8));
        pair.a.send(send_wr(1, SendOp::Write(target.remote(1)), payload(&from)));
        pair.shared.room[0].set(if mode == ShmMode::Direct { 0 } else { 1 });
        pair.shared.room[1].set(0);
        pair.pump_some();
        assert_eq!(pair.b.host.events.len(), usize::from(mode == ShmMode::ByRequest));
        pair.shared.room[0].set(1);
        pair.shared.room[1].set(1);
        pair.run();
        assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteAccess)]);
        assert_eq!(pair.b.host.events, [QpEvent::AccessError]);
    }
}

#[test]
fn a_refused_write_with_immediate_fails_a_receive_as_on_the_wire() {
    for mode in ShmMode::ALL {
        for (len, status) in [(8, Status::LocalAccess), (600, Status::WorkRequestFlushed)] {
            let mut pair = pair(mode);
            let (from, target) = (pair.a.host.memory.filled(&pattern(len, 1)), pair.b.host.memory.region(len));
            for id in [5, 6] {
                post_recv(&mut pair, id, &target);
            }
            let wr = send_wr(1, SendOp::WriteImm(target.remote(1), 9), payload(&from));
            assert_eq!(refused(&mut pair, wr), Status::RemoteAccess);
            let expected = [(5, status), (6, Status::WorkRequestFlushed)];
            assert_eq!(pair.b.host.take_received(), expected, "{len} bytes {mode:?}");
        }
    }
}

#[test]
fn a_key_that_is_not_there_can_be_invalidated_by_nobody() {
    let bad = wire::RKey(0x1234_5678);
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        let to = pair.b.host.memory.region(8);
        post_recv(&mut pair, 5, &to);
        let wr = send_wr(1, SendOp::SendInvalidate(bad), Payload::empty());
        assert_eq!(refused(&mut pair, wr), Status::RemoteAccess);
        assert_eq!(pair.b.host.take_received(), [(5, Status::LocalAccess)], "{mode:?}");
        assert_eq!(pair.b.host.events, [QpEvent::AccessError]);
        let mut pair = ShmPair::connected(&setup()).in_mode(mode);
        pair.a.send(send_wr(1, SendOp::LocalInvalidate(bad), Payload::empty()));
        pair.run();
        assert_eq!(pair.a.host.take_sent(), [(1, Status::MwBind)]);
    }
}
