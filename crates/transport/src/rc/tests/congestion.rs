//! Marks of congestion are told and obeyed.

use core::time::Duration;

use super::*;
use crate::congestion::dcqcn::Dcqcn;
use crate::testing::{Side, Verdict};
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
        if side == Side::A && number <= marked && packet.info().is_request() { Verdict::Mark } else { Verdict::Pass }
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
    pair.round(&mut |_, _| Verdict::Mark);
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
    assert_eq!(seen, [vec![0; 16]]);
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
        if side == Side::B && number < 10 { Verdict::Mark } else { Verdict::Pass }
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
    pair.round(&mut |_, _| Verdict::Mark);
    pair.round(&mut |_, _| Verdict::Pass);
    assert!(pair.a.qp.rate_limit().is_some());
    pair.a.qp.fail(crate::Reason::Requested, &mut pair.a.host);
    assert_eq!((pair.a.qp.rate_limit(), pair.a.qp.next_timeout()), (None, None));
    assert!(!pair.a.qp.wants_transmit());
}

#[test]
fn a_flood_of_notifications_leaves_the_least_rate() {
    let mut pair = Pair::connected(&slow());
    let (data, to) = write(&mut pair);
    let bth = wire::Bth { opcode: Opcode::CNP, becn: true, pkey: wire::PKey::DEFAULT, ..wire::Bth::default() };
    let cnp = wire::Extensions { cnp: Some(wire::Cnp), ..wire::Extensions::default() };
    for _ in 0..1000 {
        assert_eq!(pair.inject(Side::A, bth, cnp, &[]), Ok(()));
    }
    assert_eq!(pair.a.qp.rate_limit(), Some(1_000_000));
    assert!(pair.a.qp.next_timeout().is_none_or(|at| at > Time(0)));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.b.host.memory.bytes(&to), data);
}
