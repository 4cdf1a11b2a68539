//! UC: messages that cannot be received are lost in silence, and the connection continues.

use super::*;
use crate::attr::QpState;
use crate::testing::Side;
use crate::wr::RemoteAddr;

fn uc(mode: ShmMode) -> ShmPair {
    ShmPair::connected(&Setup::new(QpType::Uc)).in_mode(mode)
}

/// After anything, a whole message still arrives.
fn assert_alive(pair: &mut ShmPair) {
    let to = pair.b.host.memory.region(600);
    let from = pair.a.host.memory.filled(&pattern(600, 9));
    post_recv(pair, 77, &to);
    pair.a.send(send_wr(77, SendOp::SendImm(7), payload(&from)));
    pair.run();
    assert_eq!(pair.a.host.take_sent().last(), Some(&(77, Status::Success)));
    let last = pair.b.host.received.pop().expect("a completion");
    assert_eq!((last.wr_id, last.status, last.imm, last.byte_len), (77, Status::Success, Some(7), 600));
    assert_eq!(pair.b.host.memory.bytes(&to), pattern(600, 9));
}

#[test]
fn without_a_receive_wqe_messages_are_lost() {
    for mode in ShmMode::ALL {
        let mut pair = uc(mode);
        let (from, to) = (pair.a.host.memory.filled(&[1; 600]), pair.b.host.memory.region(600));
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.a.send(send_wr(2, SendOp::WriteImm(to.remote(0), 1), payload(&from)));
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes([1, 2]), "{mode:?}");
        assert!(pair.b.host.received.is_empty());
        assert_alive(&mut pair);
    }
}

#[test]
fn a_wqe_of_a_message_that_is_too_long_serves_the_next_even_behind_a_write() {
    for mode in ShmMode::ALL {
        let mut pair = uc(mode);
        let (from, to) = (pair.a.host.memory.filled(&[1; 600]), pair.b.host.memory.region(600));
        pair.b.recv(recv_wr(5, [to.sge(0, 300)].into_iter().collect()));
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.a.send(send_wr(2, SendOp::Write(to.remote(0)), payload(&from)));
        pair.a.send(send_wr(3, SendOp::Send, Payload::empty()));
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes([1, 2, 3]), "{mode:?}");
        assert_eq!(pair.b.host.take_received(), successes([5]));
        assert_alive(&mut pair);
    }
}

#[test]
fn writes_without_a_right_change_nothing() {
    for mode in ShmMode::ALL {
        let mut pair = uc(mode);
        let (from, to) = (pair.a.host.memory.filled(&[1; 600]), pair.b.host.memory.region(600));
        pair.a.send(send_wr(1, SendOp::Write(to.remote(1)), payload(&from)));
        let stranger = RemoteAddr { rkey: wire::RKey(4), ..to.remote(0) };
        pair.a.send(send_wr(2, SendOp::Write(stranger), payload(&from)));
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes([1, 2]), "{mode:?}");
        assert_eq!(pair.b.host.memory.bytes(&to), [0; 600]);
        assert!(pair.b.host.events.is_empty() && pair.b.qp.state() == QpState::Rts);
        assert_alive(&mut pair);
    }
}

#[test]
fn what_comes_before_the_peer_is_ready_is_lost_and_no_more() {
    for mode in ShmMode::ALL {
        let setup = Setup::new(QpType::Uc);
        let mut pair = ShmPair::new(&setup);
        pair.enter_rtr(Side::A, &setup);
        pair.a.enter_rts(&setup);
        let mut pair = pair.in_mode(mode);
        pair.shared.room[0].set(4);
        let (from, to) = (pair.a.host.memory.filled(&[1; 600]), pair.b.host.memory.region(600));
        for id in 0..4 {
            pair.a.send(send_wr(id, SendOp::Send, payload(&from)));
        }
        pair.a.send(send_wr(4, SendOp::Write(to.remote(0)), payload(&from)));
        // One and a half messages have left; the peer gets ready in the middle of them.
        pair.go(Side::A, true);
        for _ in 0..2 {
            pair.deliver(Side::B);
        }
        pair.enter_rtr(Side::B, &setup);
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes(0..5), "{mode:?}");
        assert_alive(&mut pair);
    }
}

#[test]
fn a_peer_that_is_gone_is_not_noticed() {
    for mode in ShmMode::ALL {
        let mut pair = uc(mode);
        let from = pair.a.host.memory.filled(&[1; 600]);
        pair.shared.room[0].set(2);
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.a.send(send_wr(2, SendOp::Send, payload(&from)));
        pair.go(Side::A, true);
        pair.kill(Side::B);
        pair.a.send(send_wr(3, SendOp::Write(from.remote(0)), payload(&from)));
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes([1, 2, 3]), "{mode:?}");
        assert_eq!(pair.a.qp.state(), QpState::Rts);
    }
}

#[test]
fn a_failed_send_stops_the_send_queue_only_and_it_can_go_on() {
    for mode in ShmMode::ALL {
        let mut pair = uc(mode);
        let (good, bad) = (pair.a.host.memory.filled(&[1; 256]), pair.a.host.memory.region(8));
        let to = pair.b.host.memory.region(600);
        pair.a.host.memory.kill(&bad);
        post_recv(&mut pair, 1, &to);
        post_recv(&mut pair, 2, &to);
        let list = [good.sge(0, 256), bad.sge(0, 8)].into_iter().collect();
        pair.a.send(send_wr(1, SendOp::Send, payload(&good)));
        // The first part of it leaves.
        pair.a.send(send_wr(2, SendOp::Send, Payload::Sgl(list)));
        pair.a.send(send_wr(3, SendOp::Send, payload(&good)));
        pair.run();
        let expected = [(1, Status::Success), (2, Status::LocalProtection), (3, Status::WorkRequestFlushed)];
        assert_eq!(pair.a.host.take_sent(), expected, "{mode:?}");
        assert_eq!(pair.a.qp.state(), QpState::Sqe);
        assert_eq!(pair.b.host.take_received(), successes([1]));
        pair.a.go(QpState::Rts);
        pair.a.send(send_wr(4, SendOp::Send, Payload::empty()));
        pair.run();
        assert_eq!((pair.a.host.take_sent(), pair.b.host.take_received()), (successes([4]), successes([2])));
        assert_alive(&mut pair);
    }
}

#[test]
fn what_uc_lacks_fails_in_its_turn_and_touches_nothing() {
    for mode in ShmMode::ALL {
        for op in [0, 1, 2] {
            let mut pair = uc(mode);
            let (own, target) = (pair.a.host.memory.filled(&[1; 8]), pair.b.host.memory.filled(&[2; 8]));
            let wr = match op {
                0 => send_wr(2, SendOp::Read(target.remote(0)), payload(&own)),
                1 => fetch_add(2, &own, &target, 1),
                _ => send_wr(2, SendOp::SendInvalidate(wire::RKey(1)), Payload::empty()),
            };
            pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&own)));
            pair.a.send(wr);
            pair.a.send(send_wr(3, SendOp::Send, Payload::empty()));
            pair.run();
            let failed = [(2, Status::LocalQpOperation), (3, Status::WorkRequestFlushed)];
            assert_eq!(pair.a.host.take_sent(), [successes([1]), failed.to_vec()].concat(), "{op} {mode:?}");
            assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Sqe, QpState::Rts));
            assert_eq!((pair.a.host.memory.bytes(&own), pair.b.host.memory.bytes(&target)), (vec![1; 8], vec![1; 8]));
            pair.a.go(QpState::Rts);
            assert_alive(&mut pair);
        }
    }
}
