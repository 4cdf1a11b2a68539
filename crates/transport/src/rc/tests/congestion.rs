//! Marks of congestion are told and obeyed.

use core::time::Duration;

use super::*;
use crate::congestion::dcqcn::Dcqcn;
use crate::drop::DropReason;
use crate::testing::{PacketFate, Side};
use crate::time::Time;
use wire::{Opcode, Packet};

const LEN: usize = 256 * 3000;

/// Rates that make a packet of 256 bytes take microseconds.
fn slow() -> Setup {
    let setup = setup();
    let dcqcn = Dcqcn { line_rate: 200_000_000, min_rate: 1_000_000, ..setup.tuning.dcqcn };
    Setup { tuning: crate::attr::Tuning { dcqcn, ..setup.tuning }, ..setup }
}

fn write(pair: &mut Pair) -> (Vec<u8>, Buffer) {
    let data = pattern(LEN, 5);
    let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(LEN));
    pair.a.send(send_wr(1, SendOp::Write(to.remote(0)), payload(&from)));
    (data, to)
}

/// Time until the WRITE is done, with a mark on the first `marked` request packets.
fn duration_of_write(pair: &mut Pair, marked: usize) -> Duration {
    let (data, to) = write(pair);
    let (begin, mut number) = (pair.now, 0);
    pair.run_with(|side, packet| {
        number += usize::from(side == Side::A);
        if side == Side::A && number <= marked && packet.info().is_request() {
            PacketFate::Mark
        } else {
            PacketFate::Pass
        }
    });
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.b.host.memory.bytes(&to), data);
    pair.now.since(begin)
}

#[test]
fn a_mark_is_told_by_one_notification_which_lowers_the_rate() {
    let mut pair = Pair::connected(&slow());
    let quick = duration_of_write(&mut pair, 0);
    assert_eq!((pair.a.qp.rate_limit(), pair.b.qp.counters().tx_cnps), (None, 0));
    let slow = duration_of_write(&mut pair, 20);
    assert!(slow > quick * 4, "{slow:?} and {quick:?} without a mark");
    let (a, b) = (pair.a.qp.counters(), pair.b.qp.counters());
    assert_eq!((b.tx_cnps, a.rx_cnps), (1, 1), "20 marks in one interval");
    assert_eq!(b.ecn_marked, 20);
    assert!(a.paced_packets > 0);
    assert_eq!((a.retransmitted_packets, a.ack_timeouts), (0, 0));
}

#[test]
fn the_limit_goes_when_the_rate_has_come_back() {
    let mut pair = Pair::connected(&slow());
    duration_of_write(&mut pair, 5);
    pair.now = pair.now + Duration::from_secs(3);
    duration_of_write(&mut pair, 0);
    assert_eq!(pair.a.qp.rate_limit(), None);
    assert_eq!(pair.a.qp.next_timeout(), None);
}

#[test]
fn a_notification_has_the_format_of_the_annex() {
    let mut pair = Pair::connected(&slow());
    write(&mut pair);
    let mut seen = Vec::new();
    pair.round(&mut |_, _| PacketFate::Mark);
    let now = pair.now;
    while let Some((bytes, transmit)) = pair.b.poll(now) {
        let packet = Packet::parse(&bytes).unwrap();
        if packet.opcode() == Opcode::CNP {
            assert_eq!(transmit.address.traffic_class & 3, 0, "nobody marks a notification");
            assert!(packet.bth().becn && !packet.bth().fecn);
            assert_eq!(packet.dest_qpn(), pair.a.qp.qpn());
            seen.push(bytes[wire::Bth::LEN..].to_vec());
        } else {
            assert_eq!(transmit.address.traffic_class & 3, 2, "ECT(0)");
        }
    }
    // The cookie is in the reserved bytes, which others ignore.
    let mut reserved = vec![0; 16];
    reserved[..4].copy_from_slice(&pair.cookie_of(Side::B).encode());
    assert_eq!(seen, [reserved]);
}

#[test]
fn without_it_nothing_is_told_and_nothing_is_capable() {
    let mut setup = slow();
    setup.tuning.dcqcn.enabled = false;
    let mut pair = Pair::connected(&setup);
    duration_of_write(&mut pair, 100);
    assert_eq!(pair.b.qp.counters().ecn_marked, 0);
    assert_eq!(pair.b.qp.counters().tx_cnps, 0);
}

#[test]
fn answers_with_data_wait_and_acknowledges_do_not() {
    let mut pair = Pair::connected(&slow());
    let data = pattern(256 * 3000, 3);
    let (source, back) = (pair.b.host.memory.filled(&data), pair.a.host.memory.region(data.len()));
    pair.a.send(send_wr(1, SendOp::Read(source.remote(0)), payload(&back)));
    let mut number = 0;
    let begin = pair.now;
    pair.run_with(|side, _| {
        number += usize::from(side == Side::B);
        if side == Side::B && number < 10 { PacketFate::Mark } else { PacketFate::Pass }
    });
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.a.host.memory.bytes(&back), data);
    assert_eq!((pair.a.qp.counters().tx_cnps, pair.b.qp.counters().rx_cnps), (1, 1));
    assert!(pair.b.qp.counters().paced_packets > 0);
    assert!(pair.now.since(begin) > Duration::from_micros(100));
}

#[test]
fn a_queue_pair_that_fails_waits_for_nothing() {
    let mut pair = Pair::connected(&slow());
    write(&mut pair);
    pair.round(&mut |_, _| PacketFate::Mark);
    pair.round(&mut |_, _| PacketFate::Pass);
    assert!(pair.a.qp.rate_limit().is_some());
    pair.a.qp.fail(crate::Reason::Requested, &mut pair.a.host);
    assert_eq!((pair.a.qp.rate_limit(), pair.a.qp.next_timeout()), (None, None));
    assert!(!pair.a.qp.wants_transmit());
}

/// Sends notifications with `cookie`, one every `every`, during a WRITE.
fn flood(pair: &mut Pair, cookie: wire::Cookie, count: usize, every: Duration) -> Vec<Result<(), DropReason>> {
    let bth = wire::Bth { opcode: Opcode::CNP, becn: true, pkey: wire::PKey::DEFAULT, ..wire::Bth::default() };
    let cnp = wire::Extensions { cnp: Some(wire::Cnp { cookie }), ..wire::Extensions::default() };
    let mut outcomes = Vec::new();
    for _ in 0..count {
        pair.now = pair.now + every;
        outcomes.push(pair.inject(Side::A, bth, cnp, &[]));
        pair.round(&mut |_, _| PacketFate::Pass);
    }
    outcomes
}

#[test]
fn the_peer_may_notify_down_to_the_least_rate() {
    let mut pair = Pair::connected(&slow());
    acquaint(&mut pair);
    let (data, to) = write(&mut pair);
    pair.round(&mut |_, _| PacketFate::Pass);
    let cookie = pair.cookie_of(Side::B);
    assert!(flood(&mut pair, cookie, 1000, Duration::ZERO).iter().all(Result::is_ok));
    assert_eq!(pair.a.qp.rate_limit(), Some(1_000_000));
    assert!(pair.a.qp.next_timeout().is_none_or(|at| at > Time(0)));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.b.host.memory.bytes(&to), data);
}

#[test]
fn forged_notifications_change_nothing_where_a_cookie_is_shared() {
    let mut pair = Pair::connected(&slow());
    acquaint(&mut pair);
    write(&mut pair);
    pair.round(&mut |_, _| PacketFate::Pass);
    for cookie in [wire::Cookie(0), wire::Cookie(1)] {
        let outcomes = flood(&mut pair, cookie, 1000, Duration::from_micros(50));
        assert!(outcomes.iter().all(|outcome| *outcome == Err(DropReason::UnprovenCnp)));
    }
    assert_eq!((pair.a.qp.rate_limit(), pair.a.qp.counters().rx_cnps), (None, 0));
}

#[test]
fn marks_on_forged_packets_notify_nobody() {
    let mut pair = Pair::connected(&slow());
    acquaint(&mut pair);
    write(&mut pair);
    let number = pair.b.qp.query().rq_psn;
    let mut forged = 0;
    for delta in [-5, -1, 1, 5, 100] {
        let bth = wire::Bth {
            opcode: Opcode::RC_SEND_ONLY,
            pkey: wire::PKey::DEFAULT,
            psn: number.add(delta as u32 & 0xff_ffff),
            ..wire::Bth::default()
        };
        forged += u32::from(pair.inject_marked(Side::B, bth, wire::Extensions::default(), &[]).is_err());
    }
    assert_eq!(forged, 5);
    pair.round(&mut |_, _| PacketFate::Pass);
    assert_eq!(pair.b.qp.counters().tx_cnps, 0);
}

/// A forged notification of a peer of another make cannot be told from a real one. Such notifications take half, and
/// no more.
#[test]
fn what_nobody_can_prove_leaves_half_of_the_rate() {
    let mut other = slow();
    other.tuning.selective = false;
    for (count, every) in [(1000, Duration::from_micros(1)), (60, Duration::from_micros(60))] {
        let mut pair = Pair::of_two(&slow(), &other);
        let (data, to) = write(&mut pair);
        for _ in 0..3 {
            pair.round(&mut |_, _| PacketFate::Pass);
        }
        let outcomes = flood(&mut pair, wire::Cookie(0), count, every);
        assert!(outcomes.iter().any(Result::is_ok));
        let limit = pair.a.qp.rate_limit().expect("they count");
        assert!(limit >= 100_000_000, "{limit} of a line of 200 MB/s, every {every:?}");
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes([1]));
        assert_eq!(pair.b.host.memory.bytes(&to), data);
    }
}

#[test]
fn who_sends_nothing_causes_no_congestion() {
    let mut pair = Pair::connected(&slow());
    let outcomes = flood(&mut pair, wire::Cookie(0), 100, Duration::from_micros(50));
    assert!(outcomes.iter().all(|outcome| *outcome == Err(DropReason::UnprovenCnp)));
    write(&mut pair);
    pair.run();
    pair.now = pair.now + Duration::from_millis(11);
    let mut fresh = Pair::connected(&slow());
    fresh.now = pair.now;
    assert_eq!(flood(&mut fresh, wire::Cookie(0), 100, Duration::ZERO)[0], Err(DropReason::UnprovenCnp));
}
