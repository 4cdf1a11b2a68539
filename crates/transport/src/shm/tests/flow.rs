//! Receivers and peers that are not ready, full lanes, fences, draining, beginning again.

use core::time::Duration;

use super::*;
use crate::attr::{AttrMask, QpAttr, QpState};
use crate::host::QpEvent;
use crate::testing::Side;
use crate::wr::SendFlags;

#[test]
fn a_late_receive_is_waited_for() {
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        let data = pattern(1000, 2);
        let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(1000));
        for id in 0..3 {
            pair.a.send(send_wr(id, SendOp::Send, payload(&from)));
        }
        pair.pump();
        assert_eq!((pair.b.qp.counters().tx_rnr_naks, pair.a.qp.counters().rx_rnr_naks), (1, 1));
        for id in 0..3 {
            post_recv(&mut pair, id, &to);
        }
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes(0..3), "{mode:?}");
        assert_eq!(pair.b.host.take_received(), successes(0..3));
        assert_eq!(pair.b.host.memory.bytes(&to), data);
    }
}

#[test]
fn retries_for_a_receiver_end_as_agreed_or_never() {
    for mode in ShmMode::ALL {
        for rnr_retry in [0, 3, 7] {
            let setup = Setup { rnr_retry, ..setup() };
            let mut pair = ShmPair::connected(&setup).in_mode(mode);
            let (from, to) = (pair.a.host.memory.filled(&[1; 8]), pair.b.host.memory.region(8));
            pair.a.send(send_wr(1, SendOp::WriteImm(to.remote(0), 1), payload(&from)));
            pair.a.send(send_wr(2, SendOp::Send, Payload::empty()));
            pair.run_for(Duration::from_secs(1));
            let naks = pair.a.qp.counters().rx_rnr_naks;
            if rnr_retry == 7 {
                assert!(pair.a.host.sent.is_empty() && naks > 100, "{naks}");
                post_recv(&mut pair, 1, &to);
                post_recv(&mut pair, 2, &to);
                pair.run();
                assert_eq!(pair.a.host.take_sent(), successes([1, 2]), "{mode:?}");
            } else {
                assert_eq!(naks, u64::from(rnr_retry) + 1);
                let expected = [(1, Status::RnrRetryExceeded), (2, Status::WorkRequestFlushed)];
                assert_eq!(pair.a.host.take_sent(), expected);
            }
        }
    }
}

#[test]
fn a_write_that_waits_for_its_notice_is_done_once() {
    const LEN: usize = 10_000; // More than a packet.
    let mut pair = pair(ShmMode::Direct);
    let (from, to) = (pair.a.host.memory.filled(&[1; LEN]), pair.b.host.memory.region(LEN));
    pair.a.send(send_wr(1, SendOp::WriteImm(to.remote(0), 1), payload(&from)));
    pair.pump();
    pair.elapse();
    pair.pump();
    pair.b.host.memory.put(&to, 0, &[2; LEN]);
    post_recv(&mut pair, 1, &to);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!((pair.shared.direct_writes.get(), pair.b.host.memory.bytes(&to)), (1, vec![2; LEN]));
}

/// IB specification 9.7.5.2.8: an RNR NAK answers the whole packet, and nothing of it is executed. Programs use
/// receives as permissions to write.
#[test]
fn a_write_of_one_packet_changes_nothing_before_there_is_a_receive_for_its_notice() {
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        let (from, to) = (pair.a.host.memory.filled(&[1; 8]), pair.b.host.memory.region(8));
        pair.a.send(send_wr(1, SendOp::WriteImm(to.remote(0), 1), payload(&from)));
        pair.pump();
        assert_eq!((pair.b.host.memory.bytes(&to), pair.a.qp.counters().rx_rnr_naks), (vec![0; 8], 1), "{mode:?}");
        post_recv(&mut pair, 1, &to);
        pair.run();
        assert_eq!(pair.b.host.memory.bytes(&to), vec![1; 8]);
        assert_eq!(pair.a.host.take_sent(), successes([1]));
    }
}

#[test]
fn writes_of_one_packet_with_immediate_data_do_not_wait_for_each_other() {
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        let (from, to) = (pair.a.host.memory.filled(&pattern(64, 1)), pair.b.host.memory.region(64));
        for id in 0..8 {
            post_recv(&mut pair, id, &to);
            pair.a.send(send_wr(id, SendOp::WriteImm(to.remote(0), id as u32), payload(&from)));
        }
        pair.go(Side::A, true);
        while pair.deliver(Side::B) {}
        assert_eq!(pair.b.host.received.len(), 8, "{mode:?}: before any of them is acknowledged");
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes(0..8));
    }
}

#[test]
fn a_peer_that_gets_ready_late_loses_nothing() {
    for mode in ShmMode::ALL {
        let mut pair = ShmPair::new(&setup());
        pair.enter_rtr(Side::A, &setup());
        pair.a.enter_rts(&setup());
        let mut pair = pair.in_mode(mode);
        let (from, to) = (pair.a.host.memory.filled(&pattern(600, 1)), pair.b.host.memory.region(600));
        for id in 0..4 {
            pair.a.send(send_wr(id, SendOp::Send, payload(&from)));
        }
        pair.a.send(send_wr(4, SendOp::Write(to.remote(0)), payload(&from)));
        pair.run_for(Duration::from_millis(1));
        assert!(pair.a.host.sent.is_empty());
        // Some frames are refused, those behind them are not any more.
        pair.elapse();
        pair.go(Side::A, true);
        pair.deliver(Side::B);
        pair.enter_rtr(Side::B, &setup());
        for id in 0..4 {
            post_recv(&mut pair, id, &to);
        }
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes(0..5), "{mode:?}");
        assert_eq!(pair.b.host.take_received(), successes(0..4));
    }
}

/// `NotReady` comes so late that the request has been taken at the second try.
#[test]
fn a_late_refusal_is_not_taken_for_a_new_one() {
    let mut pair = ShmPair::new(&setup());
    pair.enter_rtr(Side::A, &setup());
    pair.a.enter_rts(&setup());
    let to = pair.b.host.memory.region(8);
    for id in 0..3 {
        pair.a.send(send_wr(id, SendOp::Send, Payload::empty()));
    }
    pair.go(Side::A, true);
    while pair.deliver(Side::B) {}
    pair.enter_rtr(Side::B, &setup());
    for id in 0..3 {
        post_recv(&mut pair, id, &to);
    }
    assert!(pair.deliver(Side::A), "the first of three answers");
    pair.elapse();
    pair.go(Side::A, true);
    while pair.deliver(Side::B) {}
    assert!(pair.deliver(Side::A) && pair.deliver(Side::A));
    assert!(pair.a.host.sent.is_empty(), "nothing was acknowledged");
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes(0..3));
    assert_eq!(pair.b.host.take_received(), successes(0..3));
    assert_eq!(pair.b.qp.counters().out_of_sequence_requests, 0, "nothing was sent twice");
}

#[test]
fn a_peer_that_is_never_ready_is_given_up() {
    for mode in ShmMode::ALL {
        for timeout in [14, 0] {
            let setup = Setup { timeout, ..setup() };
            let mut pair = ShmPair::new(&setup);
            pair.enter_rtr(Side::A, &setup);
            pair.a.enter_rts(&setup);
            let mut pair = pair.in_mode(mode);
            let (from, to) = (pair.a.host.memory.filled(&[1; 8]), pair.b.host.memory.region(8));
            pair.a.send(send_wr(1, SendOp::Write(to.remote(0)), payload(&from)));
            pair.a.send(send_wr(2, SendOp::Send, payload(&from)));
            pair.run_for(Duration::from_secs(10));
            if timeout == 0 {
                assert_eq!((pair.a.host.take_sent(), pair.a.qp.state()), (vec![], QpState::Rts));
                continue;
            }
            let expected = [(1, Status::RetryExceeded), (2, Status::WorkRequestFlushed)];
            assert_eq!(pair.a.host.take_sent(), expected, "{mode:?}");
            let (waited, agreed) = (pair.now().since(crate::Time(0)), wire::ack_timeout(14).unwrap() * 4);
            assert!(waited >= agreed && waited < agreed * 2, "{waited:?}");
        }
    }
}

#[test]
fn a_peer_that_dies_ends_what_waits_for_it() {
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        let (from, to) = (pair.a.host.memory.filled(&[1; 600]), pair.b.host.memory.region(600));
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.a.send(send_wr(2, SendOp::Read(to.remote(0)), payload(&from)));
        pair.go(Side::A, true);
        pair.kill(Side::B);
        assert_eq!(pair.a.host.take_sent(), [(1, Status::RetryExceeded), (2, Status::WorkRequestFlushed)]);
        assert_eq!(pair.a.qp.state(), QpState::Error);
        let mut idle = ShmPair::connected(&setup()).in_mode(mode);
        idle.kill(Side::B);
        assert_eq!(idle.a.qp.state(), QpState::Rts, "nothing waited");
        let from = idle.a.host.memory.region(8);
        idle.a.send(send_wr(3, SendOp::Write(from.remote(0)), payload(&from)));
        idle.pump();
        assert_eq!(idle.a.host.take_sent(), [(3, Status::RetryExceeded)]);
    }
}

#[test]
fn numbers_start_anew_after_reset() {
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        let to = pair.b.host.memory.region(600);
        for round in 0..3 {
            for id in 0..5 {
                post_recv(&mut pair, id, &to);
                pair.a.send(send_wr(id, SendOp::Send, Payload::empty()));
            }
            pair.run();
            assert_eq!(pair.a.host.take_sent(), successes(0..5), "{mode:?} {round}");
            for side in [Side::A, Side::B] {
                pair.node(side).go(QpState::Reset);
                assert!(!pair.node(side).qp.is_shm());
            }
            pair.pump();
            for side in [Side::A, Side::B] {
                pair.enter_rtr(side, &setup());
                pair.node(side).enter_rts(&setup());
            }
        }
    }
}

#[test]
fn who_was_reset_alone_is_no_longer_there() {
    let mut pair = pair(ShmMode::ByRequest);
    let to = pair.b.host.memory.region(600);
    post_recv(&mut pair, 1, &to);
    pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.go(Side::A, true);
    assert!(pair.deliver(Side::B));
    pair.b.go(QpState::Reset);
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([1]), "what was taken was acknowledged before");
    pair.enter_rtr(Side::B, &setup());
    pair.a.send(send_wr(2, SendOp::Send, Payload::empty()));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(2, Status::RetryExceeded)]);
}

#[test]
fn a_full_lane_delays_and_nothing_else() {
    for mode in ShmMode::ALL {
        for room in 1..4 {
            let mut pair = pair(mode);
            pair.shared.room[0].set(room);
            pair.shared.room[1].set(room);
            let data = pattern(3000, 1);
            let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(3000));
            let back = pair.a.host.memory.region(3000);
            pair.a.send(send_wr(0, SendOp::Send, payload(&from)));
            pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
            pair.a.send(send_wr(2, SendOp::WriteImm(to.remote(0), 1), payload(&from)));
            pair.a.send(send_wr(3, SendOp::Read(to.remote(0)), payload(&back)));
            pair.pump();
            for id in 0..3 {
                post_recv(&mut pair, id, &to);
            }
            pair.run();
            assert_eq!(pair.a.host.take_sent(), successes(0..4), "{mode:?} {room}");
            assert_eq!((pair.b.host.take_received(), pair.a.host.memory.bytes(&back)), (successes(0..3), data));
        }
    }
}

#[test]
fn a_full_lane_does_not_shorten_the_wait_for_a_receiver() {
    let mut pair = pair(ShmMode::ByRequest);
    let to = pair.a.host.memory.region(8);
    pair.a.recv(recv_wr(1, to.sgl()));
    pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.pump();
    let until = pair.a.qp.next_timeout().expect("the wait that the RNR NAK asked for");
    pair.shared.room[0].set(0);
    pair.b.send(send_wr(2, SendOp::Send, Payload::empty()));
    pair.go(Side::B, true);
    pair.deliver(Side::A);
    pair.go(Side::A, true);
    assert!(pair.a.qp.waits_for_lane());
    pair.shared.room[0].set(9);
    pair.a.qp.resume_sending();
    pair.go(Side::A, true);
    assert_eq!((pair.a.qp.next_timeout(), pair.a.qp.counters().rx_rnr_naks), (Some(until), 1));
}

#[test]
fn what_cannot_be_reached_is_sent_and_its_receive_wqe_is_kept() {
    let mut pair = pair(ShmMode::Lending);
    pair.shared.lent_reachable.set(false);
    let data = pattern(600, 1);
    let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(600));
    for id in 0..3 {
        post_recv(&mut pair, id, &to);
        pair.a.send(send_wr(id, SendOp::Send, payload(&from)));
    }
    pair.pump();
    assert_eq!((pair.a.host.take_sent(), pair.b.host.take_received()), (successes(0..3), successes(0..3)));
    assert_eq!(pair.b.host.memory.bytes(&to), data);
}

#[test]
fn lending_is_tried_again_after_a_while() {
    let mut pair = pair(ShmMode::Lending);
    let data = pattern(600, 1);
    let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(600));
    let is_lent = |pair: &mut ShmPair, id| {
        post_recv(pair, id, &to);
        pair.a.send(send_wr(id, SendOp::Send, payload(&from)));
        pair.go(Side::A, true);
        let lent = pair.shared.lanes[0].borrow().iter().any(|frame| frame.lent.is_some());
        pair.pump();
        assert_eq!(pair.b.host.take_received(), successes([id]));
        lent
    };
    assert!(is_lent(&mut pair, 0));
    pair.shared.lent_reachable.set(false);
    assert!(is_lent(&mut pair, 1) && !is_lent(&mut pair, 2));
    pair.shared.lent_reachable.set(true);
    let first = (3..200).find(|id| is_lent(&mut pair, *id)).expect("lent again");
    assert!(first > 20 && is_lent(&mut pair, 200));
}

#[test]
fn a_fence_waits() {
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        let (back, to) = (pair.a.host.memory.region(600), pair.b.host.memory.filled(&pattern(600, 1)));
        let target = pair.b.host.memory.region(600);
        post_recv(&mut pair, 1, &target);
        pair.a.send(send_wr(1, SendOp::Read(to.remote(0)), payload(&back)));
        let mut fenced = send_wr(2, SendOp::Send, payload(&back));
        fenced.flags |= SendFlags::FENCE;
        pair.a.send(fenced);
        pair.pump();
        assert_eq!(pair.b.host.memory.bytes(&target), pattern(600, 1), "{mode:?}");
    }
}

fn drain(pair: &mut ShmPair) {
    let attr = QpAttr { state: QpState::Sqd, notify_drained: true, ..QpAttr::default() };
    pair.a.modify(&attr, AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY);
}

#[test]
fn draining_finishes_what_was_begun_and_says_so_once() {
    for mode in ShmMode::ALL {
        let mut pair = pair(mode);
        pair.shared.room[0].set(1);
        let (from, to) = (pair.a.host.memory.filled(&[1; 600]), pair.b.host.memory.region(600));
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.go(Side::A, true);
        drain(&mut pair);
        pair.a.send(send_wr(2, SendOp::Send, payload(&from)));
        pair.pump();
        // The receiver was not ready: the request begins nevertheless, and is sent again.
        assert!(pair.a.host.events.is_empty() && pair.a.qp.query().draining, "{mode:?}");
        post_recv(&mut pair, 1, &to);
        post_recv(&mut pair, 2, &to);
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes([1]));
        assert_eq!(pair.a.host.events, [QpEvent::SendQueueDrained]);
        pair.a.go(QpState::Rts);
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes([2]));
        assert_eq!(pair.a.host.events.len(), 1);
    }
}

#[test]
fn shared_receive_queues_serve_and_get_back_what_was_taken() {
    for mode in ShmMode::ALL {
        let setup = Setup { shared_recv: true, ..setup() };
        let mut pair = ShmPair::connected(&setup).in_mode(mode);
        let (from, to) = (pair.a.host.memory.filled(&[1; 600]), pair.b.host.memory.region(600));
        pair.b.host.shared.extend((0..3).map(|id| recv_wr(id, to.sgl())));
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.pump();
        assert_eq!((pair.a.host.take_sent(), pair.b.host.take_received()), (successes([1]), successes([0])));
        pair.a.send(send_wr(2, SendOp::Send, payload(&from)));
        pair.go(Side::A, true);
        pair.deliver(Side::B);
        pair.b.go(QpState::Error);
        let taken = if mode == ShmMode::Lending { successes([1]) } else { vec![(1, Status::WorkRequestFlushed)] };
        assert_eq!((pair.b.host.take_received(), pair.b.host.shared.len()), (taken, 1));
        assert_eq!(pair.b.host.events, [QpEvent::LastWqeReached], "{mode:?}");
    }
}

#[test]
fn a_write_after_a_send_waits_for_its_acknowledge() {
    let mut pair = pair(ShmMode::Direct);
    let (from, to) = (pair.a.host.memory.filled(&[1; 8]), pair.b.host.memory.region(8));
    pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.a.send(send_wr(2, SendOp::Write(to.remote(0)), payload(&from)));
    pair.pump();
    assert_eq!(pair.b.host.memory.bytes(&to), [0; 8], "the SEND has no receive WQE yet");
    post_recv(&mut pair, 1, &to);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1, 2]));
    assert_eq!(pair.b.host.memory.bytes(&to), [1; 8]);
}
