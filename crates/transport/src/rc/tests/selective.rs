//! Selective retransmission: what is sent again, with whom, and what a hostile peer can do with it.

use std::sync::Arc;

use super::loss::Workload;
use super::*;
use crate::attr::{Mtu, Tuning};
use crate::budget::ReorderBudget;
use crate::drop::DropReason;
use crate::testing::{PacketFate, Side};
use wire::{Aeth, Bth, Cookie, Extensions, Mark, NakCode, Opcode, Operation, PKey, Packet, Psn, Sack, Syndrome};

const PACKETS: usize = 100;
const LEN: usize = 256 * PACKETS;

/// A pair that has agreed on it in both directions.
fn agreed() -> Pair {
    agreed_of(&setup())
}

fn agreed_of(setup: &Setup) -> Pair {
    let mut pair = Pair::connected(setup);
    acquaint(&mut pair);
    pair
}

fn setup_with(selective: bool) -> Setup {
    let setup = setup();
    Setup { tuning: Tuning { selective, ..setup.tuning }, ..setup }
}

/// Posts one long WRITE at A; gives its data and where it goes at B.
fn post_write(pair: &mut Pair, len: usize) -> (Vec<u8>, Buffer) {
    let data = pattern(len, 5);
    let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(len));
    pair.a.send(send_wr(1, SendOp::Write(to.remote(0)), payload(&from)));
    (data, to)
}

/// Runs it to its end, with the loss of the request packets of A that `lose` names by their number.
fn write_with_loss(pair: &mut Pair, len: usize, mut lose: impl FnMut(usize) -> bool) {
    let (data, to) = post_write(pair, len);
    let mut number = 0;
    pair.run_with(|side, _| {
        number += usize::from(side == Side::A);
        if side == Side::A && lose(number - 1) { PacketFate::Drop } else { PacketFate::Pass }
    });
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.b.host.memory.bytes(&to), data);
}

fn requests_sent(pair: &Pair) -> usize {
    pair.sent.iter().filter(|(side, _)| *side == Side::A).count()
}

#[test]
fn only_what_was_lost_is_sent_again() {
    for lost in [&[0][..], &[5], &[5, 6, 7], &[1, 30, 31, 60], &[98]] {
        let mut pair = agreed();
        write_with_loss(&mut pair, LEN, |number| lost.contains(&number));
        assert_eq!(requests_sent(&pair), PACKETS + lost.len(), "lost {lost:?}");
        let (a, b) = (pair.a.qp.counters(), pair.b.qp.counters());
        assert_eq!(a.retransmitted_packets, lost.len() as u64);
        assert_eq!(a.repaired_packets, lost.len() as u64);
        assert_eq!((a.probes, a.ack_timeouts, a.rx_sequence_naks), (0, 0, 0), "lost {lost:?}");
        assert_eq!((b.duplicate_requests, b.unkept_packets), (0, 0));
        assert!(b.kept_packets >= 1 && b.tx_selective_acks >= 1 && a.rx_selective_acks >= 1);
    }
}

/// Before the first answer nothing is agreed: what is lost then is repaired by going back, and it is agreed all the same.
#[test]
fn what_is_lost_at_the_very_beginning_does_not_prevent_it() {
    for lost in [0, 1, 5] {
        let mut pair = pair();
        write_with_loss(&mut pair, LEN, |number| number == lost || number == 250);
        let (data, to) = post_write(&mut pair, 4 * LEN);
        let mut number = 0;
        pair.run_with(|side, _| {
            number += usize::from(side == Side::A);
            if side == Side::A && number == 200 { PacketFate::Drop } else { PacketFate::Pass }
        });
        assert_eq!(pair.b.host.memory.bytes(&to), data);
        let counters = pair.a.qp.counters();
        assert_eq!((counters.ack_timeouts, counters.probes), (0, 0), "lost {lost}");
        assert_eq!((counters.rx_sequence_naks, counters.repaired_packets), (1, 1), "lost {lost}");
    }
}

#[test]
fn a_repair_may_be_lost_too() {
    // Packet 10 is lost, and then its repair several times: new packets that arrive tell of it.
    let mut setup = setup();
    setup.tuning.window_initial_bytes = 8 << 10;
    setup.tuning.window_max_bytes = 8 << 10;
    let mut pair = agreed_of(&setup);
    let (data, to) = post_write(&mut pair, LEN);
    let (mut of_ten, ten) = (0, pair.a.qp.query().sq_psn.add(10));
    pair.run_with(|side, packet| {
        let hit = side == Side::A && packet.psn() == ten;
        of_ten += usize::from(hit);
        if hit && of_ten <= 4 { PacketFate::Drop } else { PacketFate::Pass }
    });
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.b.host.memory.bytes(&to), data);
    let counters = pair.a.qp.counters();
    assert_eq!((of_ten, counters.ack_timeouts), (5, 0));
    assert_eq!(counters.retransmitted_packets, 4);
}

#[test]
fn everything_happens_once_whoever_knows_it() {
    let setups = [setup_with(true), setup_with(false)];
    for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for verdict in [PacketFate::Drop, PacketFate::Duplicate, PacketFate::Late] {
            for target in 0..50 {
                let mut pair = Pair::of_two(&setups[a], &setups[b]);
                let work = Workload::post(&mut pair);
                let mut number = 0;
                pair.run_with(|_, _| {
                    number += 1;
                    if number % 50 == target { verdict } else { PacketFate::Pass }
                });
                work.verify(&mut pair, &format!("{verdict:?} of packet {target}, setups {a} and {b}"));
            }
        }
    }
}

#[test]
fn a_peer_that_does_not_know_it_is_not_disturbed() {
    let mut pair = Pair::of_two(&setup_with(true), &setup_with(false));
    let (data, to) = post_write(&mut pair, 4 * LEN);
    let (mut acknowledged, mut marked_afterwards, mut number) = (false, 0, 0);
    pair.run_with(|side, packet| {
        number += 1;
        assert_ne!(packet.info().operation, Operation::SelectiveAcknowledge);
        assert!(side == Side::A || packet.bth().mark == Mark::NONE, "B does not know the bits");
        if side == Side::A && acknowledged {
            marked_afterwards += usize::from(packet.bth().mark != Mark::NONE);
        }
        let positive = |aeth: Aeth| matches!(aeth.syndrome.kind(), wire::SyndromeKind::Ack { .. });
        acknowledged |= side == Side::B && packet.aeth().is_some_and(positive);
        if number == 60 { PacketFate::Drop } else { PacketFate::Pass }
    });
    assert_eq!(pair.b.host.memory.bytes(&to), data);
    // Packets of the same round as the first ACK do not have the mark.
    assert!(marked_afterwards <= 1, "{marked_afterwards}");
    assert_eq!(pair.b.qp.counters().kept_packets, 0);
    assert!(pair.a.qp.counters().rx_sequence_naks >= 1);
}

#[test]
fn a_peer_that_offers_nothing_gets_standard_answers() {
    let mut pair = Pair::of_two(&setup_with(false), &setup_with(true));
    write_with_loss(&mut pair, LEN, |number| number == 7);
    assert!(
        pair.sent
            .iter()
            .all(|(_, opcode)| opcode.info().is_some_and(|info| info.service == wire::TransportService::Rc))
    );
    assert_eq!(pair.b.qp.counters().kept_packets, 0);
    assert_eq!(pair.b.qp.counters().tx_sequence_naks, 1);
}

#[test]
fn sends_that_came_early_wait_for_their_turn_and_their_buffers() {
    let mut pair = agreed();
    let data = pattern(1000, 8);
    let from = pair.a.host.memory.filled(&data);
    let to: Vec<Buffer> = (0..3).map(|_| pair.b.host.memory.region(1000)).collect();
    post_recv(&mut pair, 0, &to[0]);
    for id in 0..3 {
        pair.a.send(send_wr(id, SendOp::Send, payload(&from)));
    }
    let mut number = 0;
    pair.pump_with(|side, _| {
        number += usize::from(side == Side::A);
        if side == Side::A && number == 2 { PacketFate::Drop } else { PacketFate::Pass }
    });
    assert_eq!(pair.b.host.take_received(), successes([0]));
    assert!(pair.b.qp.counters().tx_rnr_naks >= 1);
    for id in 1..3 {
        post_recv(&mut pair, id, &to[id as usize]);
    }
    pair.run();
    assert_eq!(pair.b.host.take_received(), successes(1..3));
    assert_eq!(pair.a.host.take_sent(), successes(0..3));
    to.iter().for_each(|to| assert_eq!(pair.b.host.memory.bytes(to), data));
}

#[test]
fn what_came_early_is_refused_only_in_its_turn() {
    let mut pair = agreed();
    let data = pattern(256 * 4, 3);
    let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(data.len()));
    let wrong = crate::wr::RemoteAddr { rkey: wire::RKey(0x77), ..to.remote(0) };
    pair.a.send(send_wr(1, SendOp::Write(to.remote(0)), payload(&from)));
    pair.a.send(send_wr(2, SendOp::Write(wrong), payload(&from)));
    let mut number = 0;
    pair.run_with(|side, _| {
        number += usize::from(side == Side::A);
        if side == Side::A && number == 2 { PacketFate::Drop } else { PacketFate::Pass }
    });
    assert_eq!(pair.a.host.take_sent(), [(1, Status::Success), (2, Status::RemoteAccess)]);
    assert_eq!(pair.b.host.memory.bytes(&to), data);
}

#[test]
fn a_window_longer_than_the_bitmap_does_not_stall() {
    let mut setup = setup();
    setup.tuning.window_initial_bytes = 1 << 20;
    setup.tuning.window_max_bytes = 1 << 20;
    let mut pair = agreed_of(&setup);
    let packets = 3 * Sack::BITS as usize;
    write_with_loss(&mut pair, 256 * packets, |number| number == 0);
    let counters = pair.a.qp.counters();
    assert_eq!((counters.probes, counters.ack_timeouts), (0, 0));
    assert!(pair.b.qp.counters().unkept_packets > 0);
}

#[test]
fn what_is_kept_stays_within_the_budget() {
    for (budget_bytes, keeps) in [(0, false), (1000, true), (1 << 20, true)] {
        let mut pair = agreed();
        let budget = Arc::new(ReorderBudget::new(budget_bytes));
        pair.b.host.budget = Some(budget.clone());
        write_with_loss(&mut pair, LEN, |number| [3, 40, 90].contains(&number));
        assert_eq!(pair.b.qp.counters().kept_packets > 0, keeps, "{budget_bytes}");
        assert_eq!(budget.left_bytes(), budget_bytes);
    }
}

#[test]
fn a_queue_pair_that_fails_gives_its_budget_back() {
    let mut pair = agreed();
    let budget = Arc::new(ReorderBudget::new(1 << 20));
    pair.b.host.budget = Some(budget.clone());
    post_write(&mut pair, LEN);
    let mut number = 0;
    pair.round(&mut |_, _| {
        number += 1;
        if number == 2 { PacketFate::Drop } else { PacketFate::Pass }
    });
    assert!(budget.left_bytes() < 1 << 20);
    pair.b.qp.fail(crate::Reason::Requested, &mut pair.b.host);
    assert_eq!(budget.left_bytes(), 1 << 20);
}

fn bth(cookie: Cookie, psn: Psn) -> Bth {
    Bth { opcode: Opcode::SELECTIVE_ACKNOWLEDGE, pkey: PKey::DEFAULT, mark: cookie.mark(), psn, ..Bth::default() }
}

fn sack(cookie: Cookie, arrived: [u64; Sack::WORDS]) -> Extensions {
    let syndrome = Syndrome::nak(NakCode::PsnSequenceError);
    let (aeth, sack) = (Some(Aeth { syndrome, msn: 0 }), Some(Sack { arrived }));
    Extensions { aeth, sack, cookie: Some(cookie), ..Extensions::default() }
}

/// A hostile peer (not a blind attacker) sends a selective ACK to A.
fn notify(pair: &mut Pair, psn: Psn, arrived: [u64; Sack::WORDS]) -> Result<(), DropReason> {
    let cookie = pair.cookie_of(Side::B);
    pair.inject(Side::A, bth(cookie, psn), sack(cookie, arrived), &[])
}

/// A WRITE of ten packets is outstanding, and no answer has come.
fn under_way(setup: &Setup) -> Pair {
    let mut pair = Pair::connected(setup);
    acquaint(&mut pair);
    post_write(&mut pair, 256 * 10);
    pair.round(&mut |_, _| PacketFate::Drop);
    pair
}

#[test]
fn bitmaps_that_make_no_sense_are_dropped() {
    let first = under_way(&setup()).a.qp.query().sq_psn.sub(10);
    for (psn, arrived, reason) in [
        (first, [1 << 10, 0, 0, 0], DropReason::BadResponse),
        (first.add(9), [1 << 1, 0, 0, 0], DropReason::BadResponse),
        (first, [0, 0, 0, 1 << 63], DropReason::BadResponse),
        (first.add(11), [0; 4], DropReason::GhostResponse),
        (first.sub(1), [0; 4], DropReason::GhostResponse),
    ] {
        let mut pair = under_way(&setup());
        assert_eq!(notify(&mut pair, psn, arrived), Err(reason));
        let counters = pair.a.qp.counters();
        assert_eq!(counters.rx_selective_acks, 0);
        assert_eq!(counters.impossible_notices, u64::from(reason == DropReason::BadResponse));
    }
}

/// A peer whose every notice is impossible still gets what it misses: by going back.
#[test]
fn impossible_notices_starve_nobody() {
    let mut pair = under_way(&setup());
    let first = pair.a.qp.query().sq_psn.sub(10);
    for _ in 0..3 {
        pair.now = pair.now + core::time::Duration::from_millis(3);
        assert_eq!(notify(&mut pair, first, [1 << 20, 0, 0, 0]), Err(DropReason::BadResponse));
        pair.round(&mut |side, _| if side == Side::B { PacketFate::Drop } else { PacketFate::Pass });
    }
    assert_eq!(pair.b.qp.query().rq_psn, first.add(10), "no timeout was needed");
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.a.qp.counters().ack_timeouts, 0);
}

#[test]
fn what_nobody_agreed_to_is_dropped() {
    // A knows the cookie: nothing without it.
    let mut pair = under_way(&setup());
    let first = pair.a.qp.query().sq_psn.sub(10);
    let (good, wrong) = (pair.cookie_of(Side::B), Cookie(pair.cookie_of(Side::B).0 ^ 1 << 20));
    for (mark, told) in [(good.mark(), wrong), (Mark::NONE, good), (Mark::OFFER, good), (wrong.mark(), wrong)] {
        let bth = Bth { mark, ..bth(good, first) };
        let outcome = pair.inject(Side::A, bth, sack(told, [2, 0, 0, 0]), &[]);
        assert_eq!(outcome, Err(DropReason::NotAgreed), "{mark:?}");
    }
    let plain = Bth { opcode: Opcode::RC_ACKNOWLEDGE, pkey: PKey::DEFAULT, psn: first, ..Bth::default() };
    let aeth = Extensions { aeth: Some(Aeth { syndrome: Syndrome::ACK_UNLIMITED, msn: 1 }), ..Extensions::default() };
    assert_eq!(pair.inject(Side::A, plain, aeth, &[]), Err(DropReason::NotAgreed));
    // A has not been told a cookie: it takes no notice.
    let mut pair = Pair::connected(&setup());
    post_write(&mut pair, 256 * 10);
    pair.round(&mut |_, _| PacketFate::Drop);
    let first = setup().first_psn;
    assert_eq!(pair.inject(Side::A, bth(good, first), sack(good, [2, 0, 0, 0]), &[]), Err(DropReason::NotAgreed));
    assert_eq!(pair.a.qp.counters().rx_selective_acks, 0);
}

/// A request ahead of sequence: an offer alone is not an agreement, from any sender and however often.
#[test]
fn a_packet_ahead_of_its_turn_is_kept_only_with_the_mark() {
    let send = |mark, psn| Bth { opcode: Opcode::RC_SEND_ONLY, pkey: PKey::DEFAULT, mark, psn, ..Bth::default() };
    for is_agreed in [false, true] {
        let mut pair = if is_agreed { agreed() } else { pair() };
        let (expected, mark) = (pair.b.qp.query().rq_psn, pair.cookie_of(Side::B).mark());
        let foreign = if is_agreed { DropReason::NotAgreed } else { DropReason::OutOfSequence };
        for other in [Mark::NONE, Mark::OFFER, Mark::from_bits(0x2d), Cookie(77).mark()] {
            for ahead in 1..300 {
                let outcome = pair.inject(Side::B, send(other, expected.add(ahead)), Extensions::default(), b"evil");
                assert_eq!(outcome, Err(foreign));
            }
        }
        assert_eq!(pair.b.qp.counters().kept_packets, 0);
        assert_eq!(pair.inject(Side::B, send(mark, expected.add(3)), Extensions::default(), b"good"), Ok(()));
    }
}

/// Even an attacker who has guessed the mark cannot replace the peer's packet.
#[test]
fn of_two_packets_with_one_psn_the_peers_wins() {
    for forged_first in [true, false] {
        let mut pair = agreed();
        let (data, to) = post_write(&mut pair, 256 * 10);
        let forged = (pair.b.qp.query().rq_psn.add(4), pair.cookie_of(Side::B).mark());
        let bth =
            Bth { opcode: Opcode::RC_WRITE_ONLY, pkey: PKey::DEFAULT, psn: forged.0, mark: forged.1, ..Bth::default() };
        let at = to.remote(4 * 256);
        let reth = wire::Reth { addr: at.addr, rkey: at.rkey, len_bytes: 256 };
        let forge = |pair: &mut Pair| {
            let headers = Extensions { reth: Some(reth), ..Extensions::default() };
            assert_eq!(pair.inject(Side::B, bth, headers, &[0xee; 256]).is_ok(), forged_first);
        };
        if forged_first {
            forge(&mut pair);
        }
        let mut number = 0;
        pair.round(&mut |_, _| {
            number += 1;
            if number == 1 { PacketFate::Drop } else { PacketFate::Pass }
        });
        if !forged_first {
            forge(&mut pair);
        }
        assert_eq!(pair.b.qp.counters().conflicting_packets, 1);
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes([1]));
        assert_eq!(pair.b.host.memory.bytes(&to), data, "forged first: {forged_first}");
        assert_eq!(pair.a.qp.counters().ack_timeouts, 0);
    }
}

/// The queue pair of one end is reset and continues at its former PSNs; the other has noticed nothing.
#[test]
fn an_end_that_was_reset_is_heard_again() {
    for side in [Side::A, Side::B] {
        for setup in [setup(), setup_with(false)] {
            let mut pair = agreed();
            let attr = pair.node(side).qp.query();
            let path = attr.address;
            let node = pair.node(side);
            node.go(crate::attr::QpState::Reset);
            node.enter_init(&setup);
            node.enter_rtr(&Setup { first_psn: attr.rq_psn, ..setup }, path, attr.dest_qpn);
            node.enter_rts(&Setup { first_psn: attr.sq_psn, ..setup });
            for _ in 0..3 {
                let (data, to) = post_write(&mut pair, LEN);
                pair.run();
                assert_eq!(pair.a.host.take_sent(), successes([1]), "{side:?}");
                assert_eq!(pair.b.host.memory.bytes(&to), data);
            }
        }
    }
}

/// A lie costs the liar its own data, and us a bounded number of packets.
#[test]
fn lies_about_what_arrived_do_not_make_us_send_for_ever() {
    let mut pair = under_way(&setup());
    let first = pair.a.qp.query().sq_psn.sub(10);
    let mut sent = 0;
    for round in 0..10_000u64 {
        let arrived = [!1 & 0x3ff & (1 << 9 | round << 1), 0, 0, 0];
        let _ = notify(&mut pair, first, arrived);
        while pair.a.poll(pair.now).is_some() {
            sent += 1;
        }
    }
    assert!(sent <= 10 * 16, "{sent} packets for 10 that were under way");
    assert_eq!(pair.a.host.take_sent(), []);
}

#[test]
fn a_selective_acknowledge_of_everything_completes() {
    let mut pair = under_way(&setup());
    let end = pair.a.qp.query().sq_psn;
    assert_eq!(notify(&mut pair, end, [0; 4]), Ok(()));
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.a.qp.next_timeout(), None);
}

#[test]
fn it_works_for_extended_connections() {
    let mut setup = setup();
    setup.qp_type = crate::attr::QpType::XrcSend;
    setup.mtu = Mtu::B256;
    let mut pair = Pair::connected(&setup);
    let srq = 9;
    let queue = crate::testing::XrcQueue { pd: crate::testing::PD, wqes: Default::default(), completions: Vec::new() };
    pair.b.host.xrc.insert(srq, queue);
    let data = pattern(LEN, 4);
    let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(LEN));
    for id in 0..2 {
        let hello = send_wr(id, SendOp::Write(to.remote(0)), Payload::Inline(Default::default()));
        pair.a.send(SendWr { xrc_srq: Some(srq), ..hello });
        pair.run();
    }
    assert_eq!(pair.a.host.take_sent(), successes(0..2));
    pair.sent.clear();
    let wr = send_wr(1, SendOp::Write(to.remote(0)), payload(&from));
    pair.a.send(SendWr { xrc_srq: Some(srq), ..wr });
    let mut number = 0;
    pair.run_with(|side, _: &Packet<'_>| {
        number += usize::from(side == Side::A);
        if side == Side::A && number == 12 { PacketFate::Drop } else { PacketFate::Pass }
    });
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.b.host.memory.bytes(&to), data);
    assert_eq!(requests_sent(&pair), PACKETS + 1);
}

#[test]
fn a_probe_asks_for_the_oldest_read_only() {
    let mut pair = pair();
    let data = pattern(256 * 4, 9);
    let source = pair.b.host.memory.filled(&data);
    let back: Vec<Buffer> = (0..3).map(|_| pair.a.host.memory.region(data.len())).collect();
    for (id, back) in back.iter().enumerate() {
        pair.a.send(send_wr(id as u64, SendOp::Read(source.remote(0)), payload(back)));
    }
    pair.round(&mut |_, _| PacketFate::Pass); // the requests arrive, and B is slow to answer
    assert_eq!(requests_sent(&pair), 3);
    assert!(pair.a.qp.next_timeout().is_some_and(|at| at > pair.now));
    let at = pair.a.qp.next_timeout().unwrap();
    pair.a.qp.handle_timeout(at, &mut pair.a.host);
    pair.now = at;
    pair.run();
    assert_eq!(requests_sent(&pair), 4, "one of three is asked for again");
    assert_eq!(pair.a.host.take_sent(), successes(0..3));
    back.iter().for_each(|back| assert_eq!(pair.a.host.memory.bytes(back), data));
}

#[test]
fn reads_that_were_all_lost_are_all_asked_for_again() {
    let mut pair = pair();
    let data = pattern(256 * 4, 9);
    let source = pair.b.host.memory.filled(&data);
    let back: Vec<Buffer> = (0..3).map(|_| pair.a.host.memory.region(data.len())).collect();
    for (id, back) in back.iter().enumerate() {
        pair.a.send(send_wr(id as u64, SendOp::Read(source.remote(0)), payload(back)));
    }
    pair.round(&mut |_, _| PacketFate::Drop);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes(0..3));
    assert_eq!(pair.a.qp.counters().ack_timeouts, 0);
    back.iter().for_each(|back| assert_eq!(pair.a.host.memory.bytes(back), data));
}
