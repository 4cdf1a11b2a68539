//! Requests that carry an ACK: with which peers, when, and the attacks of a hostile peer.

use super::loss::Workload;
use super::*;
use crate::attr::{QpState, Tuning};
use crate::completion::CompletionOp;
use crate::drop::DropReason;
use crate::testing::{Node, PacketFate, Side};
use wire::{Aeth, Bth, Cookie, Extensions, HeaderSet, Mark, NakCode, Opcode, PKey, Packet, Piggyback, Psn, Syndrome};

fn setup_with(piggyback: bool) -> Setup {
    let setup = setup();
    Setup { tuning: Tuning { piggyback, ..setup.tuning }, ..setup }
}

/// Receives and buffers for a game of ping-pong.
struct Balls {
    a: Buffer,
    b: Buffer,
}

impl Balls {
    fn new(pair: &mut Pair) -> Balls {
        let balls = Balls { a: pair.a.host.memory.region(64), b: pair.b.host.memory.region(64) };
        for _ in 0..32 {
            pair.a.recv(recv_wr(0, balls.a.sgl()));
            pair.b.recv(recv_wr(0, balls.b.sgl()));
        }
        balls
    }

    /// `side` sends one message. Nobody is in a hurry to acknowledge it.
    fn play(&self, pair: &mut Pair, side: Side, op: SendOp) {
        let ball = if side == Side::A { &self.a } else { &self.b };
        let wr = send_wr(9, op, payload(ball));
        pair.node(side).send(wr);
        step(pair, side, PacketFate::Pass);
    }
}

/// Passes packets from a side to the other; an ACK alone waits.
fn step(pair: &mut Pair, side: Side, verdict: PacketFate) {
    pair.now = pair.now + core::time::Duration::from_micros(1);
    while pair.node(side).qp.wants_transmit() {
        let now = pair.now;
        let (bytes, transmit) = pair.node(side).poll(now).expect("it wants to send");
        pair.sent.push((side, Packet::parse(&bytes).expect("a packet").opcode()));
        if verdict == PacketFate::Pass {
            pair.deliver(side, &bytes, &transmit);
        }
    }
}

fn opcodes(pair: &Pair) -> Vec<Opcode> {
    pair.sent.iter().map(|(_, opcode)| *opcode).collect()
}

/// Both ends learn that the other takes them: a first message and its ACK each way.
fn acquainted(setup: &Setup) -> (Pair, Balls) {
    let mut pair = Pair::connected(setup);
    let balls = Balls::new(&mut pair);
    for side in [Side::A, Side::B] {
        balls.play(&mut pair, side, SendOp::Send);
        pair.run();
    }
    pair.sent.clear();
    (pair, balls)
}

#[test]
fn a_ping_pong_is_one_packet_each_way() {
    let (mut pair, balls) = acquainted(&setup());
    for round in 0..8 {
        let side = if round % 2 == 0 { Side::A } else { Side::B };
        balls.play(&mut pair, side, SendOp::Send);
    }
    let mut expected = vec![Opcode::SEND_ONLY_ACK; 8];
    expected[0] = Opcode::RC_SEND_ONLY;
    assert_eq!(opcodes(&pair), expected);
    // All but the last are complete.
    assert_eq!(pair.a.host.take_sent().len(), 5);
    assert_eq!(pair.b.host.take_sent().len(), 4);
    assert_eq!((pair.a.host.take_received().len(), pair.b.host.take_received().len()), (5, 5));
    assert_eq!((pair.a.qp.counters().tx_piggybacks, pair.b.qp.counters().tx_piggybacks), (3, 4));
}

#[test]
fn each_kind_of_message_has_its_form() {
    let (mut pair, balls) = acquainted(&setup());
    let to = pair.a.host.memory.region(64);
    for (op, opcode) in [
        (SendOp::Send, Opcode::SEND_ONLY_ACK),
        (SendOp::SendImm(7), Opcode::SEND_ONLY_IMM_ACK),
        (SendOp::Write(to.remote(0)), Opcode::WRITE_ONLY_ACK),
        (SendOp::WriteImm(to.remote(0), 8), Opcode::WRITE_ONLY_IMM_ACK),
        (SendOp::Read(to.remote(0)), Opcode::RC_READ_REQUEST),
    ] {
        balls.play(&mut pair, Side::A, SendOp::Send);
        pair.sent.clear();
        balls.play(&mut pair, Side::B, op);
        assert_eq!(opcodes(&pair)[0], opcode);
        pair.run();
    }
    let received = pair.a.host.received.iter().filter_map(|completion| completion.imm).collect::<Vec<_>>();
    assert_eq!(received, [7, 8]);
    assert!(pair.dropped.is_empty(), "{:?}", pair.dropped);
}

#[test]
fn a_send_with_invalidate_brings_an_acknowledge_along() {
    let (mut pair, balls) = acquainted(&setup());
    let window = pair.a.host.memory.window();
    balls.play(&mut pair, Side::A, SendOp::Send);
    pair.a.host.take_sent();
    pair.sent.clear();
    pair.a.host.received.clear();
    balls.play(&mut pair, Side::B, SendOp::SendInvalidate(window));
    assert_eq!(opcodes(&pair), [Opcode::SEND_ONLY_INVALIDATE_ACK]);
    assert_eq!(pair.a.host.take_sent(), successes([9]), "it was taken as the acknowledge");
    let received: Vec<_> =
        pair.a.host.received.iter().map(|completion| (completion.op, completion.invalidated)).collect();
    assert_eq!(received, [(CompletionOp::Recv, Some(window))], "and as the request");
    pair.run();
    assert!(pair.b.host.take_sent().contains(&(9, Status::Success)) && pair.dropped.is_empty(), "{:?}", pair.dropped);
}

/// The ACK counts before the request is refused.
#[test]
fn an_invalidate_that_is_refused_has_acknowledged() {
    let (mut pair, balls) = acquainted(&setup());
    balls.play(&mut pair, Side::A, SendOp::Send);
    pair.a.host.take_sent();
    pair.a.host.take_received();
    pair.b.host.take_sent();
    balls.play(&mut pair, Side::B, SendOp::SendInvalidate(wire::RKey(0x1234_5678)));
    assert_eq!(opcodes(&pair)[1], Opcode::SEND_ONLY_INVALIDATE_ACK);
    assert_eq!(pair.a.host.take_sent(), successes([9]));
    pair.run();
    assert_eq!(pair.b.host.take_sent(), [(9, Status::RemoteAccess)]);
    assert_eq!(pair.a.host.take_received()[0], (0, Status::LocalAccess));
    assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Error, QpState::Error));
}

#[test]
fn what_leaves_in_company_stays_as_it_is() {
    let (mut pair, balls) = acquainted(&setup());
    balls.play(&mut pair, Side::A, SendOp::Send);
    pair.sent.clear();
    for _ in 0..3 {
        pair.b.send(send_wr(1, SendOp::Send, payload(&balls.b)));
    }
    pair.pump();
    let expected = [Opcode::RC_SEND_ONLY, Opcode::RC_SEND_ONLY, Opcode::RC_SEND_ONLY, Opcode::RC_ACKNOWLEDGE];
    assert_eq!(opcodes(&pair)[..4], expected);
    // Nor does a message as long as the path MTU grow.
    let (mut pair, balls) = acquainted(&setup());
    let long = pair.b.host.memory.region(256);
    pair.a.recv(recv_wr(0, pair.a.host.memory.region(256).sgl()));
    for (len_bytes, opcode) in [(244, Opcode::WRITE_ONLY_ACK), (245, Opcode::RC_WRITE_ONLY)] {
        balls.play(&mut pair, Side::A, SendOp::Send);
        pair.sent.clear();
        let at = pair.a.host.memory.region(256);
        let part = long.sge(0, len_bytes);
        pair.b.send(send_wr(1, SendOp::Write(at.remote(0)), Payload::Sgl([part].into_iter().collect())));
        pair.pump();
        assert_eq!(opcodes(&pair)[0], opcode);
    }
}

#[test]
fn what_was_lost_comes_again_in_the_form_that_everybody_knows() {
    let (mut pair, balls) = acquainted(&setup());
    balls.play(&mut pair, Side::A, SendOp::Send);
    pair.b.send(send_wr(5, SendOp::Send, payload(&balls.b)));
    step(&mut pair, Side::B, PacketFate::Drop);
    assert_eq!(opcodes(&pair), [Opcode::RC_SEND_ONLY, Opcode::SEND_ONLY_ACK]);
    pair.sent.clear();
    pair.run();
    let again = opcodes(&pair);
    assert!(again.contains(&Opcode::RC_SEND_ONLY) && again.contains(&Opcode::RC_ACKNOWLEDGE), "{again:?}");
    assert!(!again.contains(&Opcode::SEND_ONLY_ACK), "{again:?}");
    assert_eq!((pair.a.host.take_sent().len(), pair.b.host.take_sent().len()), (2, 2));
    assert_eq!((pair.a.host.take_received().len(), pair.b.host.take_received().len()), (2, 2));
}

/// An end sends one only after it has seen that the other end takes them.
fn watch(shown: &mut [bool; 2], side: Side, packet: &Packet<'_>) {
    let (own, bth) = (packet.info().headers.contains(HeaderSet::PIGGYBACK), packet.bth());
    let (me, peer) = (side as usize, side.other() as usize);
    assert!(!own || shown[peer], "{side:?} sends {} to a peer that has shown nothing", packet.info().name);
    shown[me] |= own || packet.info().is_response() && bth.mark != Mark::NONE && bth.ack_req;
}

#[test]
fn nobody_is_sent_what_he_has_not_shown_to_understand() {
    let setups = [setup_with(true), setup_with(false)];
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for verdict in [PacketFate::Drop, PacketFate::Duplicate, PacketFate::Late] {
            for target in 0..40 {
                let mut pair = Pair::of_two(&setups[first], &setups[second]);
                let balls = Balls::new(&mut pair);
                let (mut shown, mut number) = ([false; 2], 0);
                let mut judge = |side: Side, packet: &Packet<'_>| {
                    watch(&mut shown, side, packet);
                    number += 1;
                    if number % 40 == target { verdict } else { PacketFate::Pass }
                };
                for round in 0..12 {
                    let (side, ball) = if round % 2 == 0 { (Side::A, &balls.a) } else { (Side::B, &balls.b) };
                    pair.node(side).send(send_wr(round, SendOp::Send, payload(ball)));
                    // Sometimes the other end answers before its ACK has left.
                    let answered = round % 3 == 0;
                    while pair.round(&mut judge) && answered {}
                }
                pair.run_with(&mut judge);
                let what = format!("{verdict:?} of packet {target}, setups {first} and {second}");
                assert_eq!((pair.a.host.take_sent().len(), pair.b.host.take_sent().len()), (6, 6), "{what}");
                assert_eq!((pair.a.host.take_received().len(), pair.b.host.take_received().len()), (6, 6), "{what}");
                let own = pair.sent.iter().filter(|(_, opcode)| *opcode == Opcode::SEND_ONLY_ACK).count();
                assert!(own == 0 || (first, second) == (0, 0), "{what}");
            }
        }
    }
}

#[test]
fn everything_happens_once_beside_a_stream_of_messages() {
    for verdict in [PacketFate::Drop, PacketFate::Duplicate, PacketFate::Late] {
        for target in 0..30 {
            let mut pair = pair();
            let work = Workload::post(&mut pair);
            let (from, to) = (pair.b.host.memory.region(64), pair.a.host.memory.region(64));
            let mut number = 0;
            let mut judge = |_: Side, _: &Packet<'_>| {
                number += 1;
                if number % 30 == target { verdict } else { PacketFate::Pass }
            };
            for id in 0..10 {
                pair.a.recv(recv_wr(id, to.sgl()));
                pair.b.send(send_wr(id, SendOp::Send, payload(&from)));
                pair.round(&mut judge);
            }
            pair.run_with(&mut judge);
            let what = format!("{verdict:?} of packet {target}");
            assert_eq!(pair.b.host.take_sent(), successes(0..10), "{what}");
            assert_eq!(pair.a.host.take_received(), successes(0..10), "{what}");
            work.verify(&mut pair, &what);
        }
    }
}

/// A's request arrives at B and brings along what A would acknowledge; as A would send it, which knows both cookies.
fn bring(pair: &mut Pair, psn: Psn, along: (Psn, Syndrome), payload: &[u8]) -> Result<(), DropReason> {
    let (mark, proof) = (pair.cookie_of(Side::B).mark(), pair.cookie_of(Side::A));
    bring_with(pair, psn, along, payload, mark, proof)
}

fn bring_with(
    pair: &mut Pair,
    psn: Psn,
    (acknowledged, syndrome): (Psn, Syndrome),
    payload: &[u8],
    mark: Mark,
    proof: Cookie,
) -> Result<(), DropReason> {
    let opcode = Opcode::SEND_ONLY_ACK;
    let bth = Bth { opcode, pkey: PKey::DEFAULT, mark, ack_req: true, psn, ..Bth::default() };
    let piggyback = Some(Piggyback { aeth: Aeth { syndrome, msn: 1 }, psn: acknowledged });
    let headers = Extensions { piggyback, cookie: Some(proof), ..Extensions::default() };
    pair.inject(Side::B, bth, headers, payload)
}

#[test]
fn nobody_may_who_was_not_told() {
    for piggyback in [true, false] {
        let setup = setup_with(piggyback);
        let mut pair = Pair::connected(&setup);
        let balls = Balls::new(&mut pair);
        if !piggyback {
            balls.play(&mut pair, Side::A, SendOp::Send);
            pair.run();
        }
        let psn = pair.b.qp.query().rq_psn;
        let received = pair.b.host.take_received().len();
        let outcome = bring(&mut pair, psn, (setup.first_psn, Syndrome::ACK_UNLIMITED), b"four");
        assert_eq!(outcome, Err(DropReason::NotAgreed));
        assert_eq!((pair.b.qp.query().rq_psn, pair.b.host.take_received().len()), (psn, 0), "{received}");
    }
}

#[test]
fn nobody_may_who_cannot_prove_it() {
    let (mut pair, balls) = acquainted(&setup());
    pair.b.send(send_wr(3, SendOp::Send, payload(&balls.b)));
    step(&mut pair, Side::B, PacketFate::Drop);
    pair.b.host.take_received();
    pair.b.host.take_sent();
    let (psn, along) = (pair.b.qp.query().rq_psn, (setup().first_psn.add(1), Syndrome::ACK_UNLIMITED));
    let (mark, proof) = (pair.cookie_of(Side::B).mark(), pair.cookie_of(Side::A));
    for wrong in [Cookie(0), Cookie(proof.0 ^ 1 << 31), pair.cookie_of(Side::B)] {
        let outcome = bring_with(&mut pair, psn, along, b"four", mark, wrong);
        assert_eq!(outcome, Err(DropReason::NotAgreed));
    }
    assert_eq!(pair.b.host.take_sent(), [], "the acknowledge does not count");
    assert_eq!(pair.b.host.take_received(), [], "nor does the request");
    assert_eq!(bring_with(&mut pair, psn, along, b"four", mark, proof), Ok(()));
    assert_eq!((pair.b.host.take_sent(), pair.b.host.take_received()), (successes([3]), successes([0])));
}

#[test]
fn each_half_is_checked_as_if_it_came_alone() {
    let first = setup().first_psn;
    // The ACK is for a PSN that was never sent, is reserved, or comes twice; the request is good.
    for (acked, syndrome, refused, done) in [
        (first.add(70), Syndrome::ACK_UNLIMITED, 1, 0),
        (first.sub(9), Syndrome::ACK_UNLIMITED, 1, 0),
        (first.add(1), Syndrome(0x80), 1, 0),
        (first, Syndrome::ACK_UNLIMITED, 0, 0),
        (first.add(1), Syndrome::ACK_UNLIMITED, 0, 1),
    ] {
        let (mut pair, balls) = acquainted(&setup());
        pair.b.send(send_wr(3, SendOp::Send, payload(&balls.b)));
        step(&mut pair, Side::B, PacketFate::Drop);
        pair.b.host.take_sent();
        pair.b.host.take_received();
        let psn = pair.b.qp.query().rq_psn;
        assert_eq!(bring(&mut pair, psn, (acked, syndrome), b"four"), Ok(()));
        assert_eq!(pair.b.host.take_received().len(), 1, "the request is carried out");
        assert_eq!(pair.b.host.take_sent().len(), done);
        assert_eq!(pair.b.qp.counters().refused_piggybacks, refused);
    }
    // The request is too long for its buffer, or its key does not exist; the ACK is good.
    let (mut pair, balls) = acquainted(&setup());
    pair.b.send(send_wr(3, SendOp::Send, payload(&balls.b)));
    step(&mut pair, Side::B, PacketFate::Drop);
    pair.b.host.take_sent();
    let psn = pair.b.qp.query().rq_psn;
    let outcome = bring(&mut pair, psn, (first.add(1), Syndrome::ACK_UNLIMITED), &[0; 200]);
    assert_eq!(outcome, Err(DropReason::Refused));
    assert_eq!(pair.b.host.take_sent(), successes([3]));
    assert_eq!(pair.b.qp.state(), QpState::Error);
}

#[test]
fn a_refusal_that_is_brought_along_ends_the_connection_and_the_request_with_it() {
    let (mut pair, balls) = acquainted(&setup());
    pair.b.send(send_wr(3, SendOp::Send, payload(&balls.b)));
    step(&mut pair, Side::B, PacketFate::Drop);
    pair.b.host.take_sent();
    pair.b.host.take_received();
    let (psn, refused) = (pair.b.qp.query().rq_psn, Syndrome::nak(NakCode::RemoteAccessError));
    let outcome = bring(&mut pair, psn, (setup().first_psn.add(1), refused), b"four");
    assert_eq!(outcome, Ok(()));
    assert_eq!(pair.b.host.take_sent(), [(3, Status::RemoteAccess)]);
    let received = pair.b.host.take_received();
    assert!(received.iter().all(|(_, status)| *status == Status::WorkRequestFlushed), "{received:?}");
}

#[test]
fn one_that_comes_early_is_kept_and_its_acknowledge_counts_once() {
    let (mut pair, balls) = acquainted(&setup());
    pair.b.send(send_wr(3, SendOp::Send, payload(&balls.b)));
    step(&mut pair, Side::B, PacketFate::Drop);
    pair.b.host.take_sent();
    pair.b.host.take_received();
    let (psn, first) = (pair.b.qp.query().rq_psn, setup().first_psn);
    let good = (first.add(1), Syndrome::ACK_UNLIMITED);
    assert_eq!(bring(&mut pair, psn.next(), good, b"late"), Ok(()));
    assert_eq!(pair.b.host.take_sent(), successes([3]), "what it acknowledges need not wait");
    assert_eq!(pair.b.host.take_received(), []);
    assert_eq!(bring(&mut pair, psn, good, b"soon"), Ok(()));
    assert_eq!(pair.b.host.take_sent(), []);
    assert_eq!(pair.b.host.received.iter().map(|c| c.op).collect::<Vec<_>>(), [CompletionOp::Recv; 2]);
}

#[test]
fn extended_connections_have_none_of_it() {
    let mut setup = setup();
    setup.qp_type = QpType::XrcSend;
    let mut pair = Pair::connected(&setup);
    let at = pair.b.host.memory.region(64);
    let from = pair.a.host.memory.region(64);
    pair.b.host.xrc.insert(
        9,
        crate::testing::XrcQueue { pd: crate::testing::PD, wqes: Default::default(), completions: Vec::new() },
    );
    for id in 0..3 {
        let wr = send_wr(id, SendOp::Write(at.remote(0)), payload(&from));
        pair.a.send(SendWr { xrc_srq: Some(9), ..wr });
        pair.run_with(|_, packet| {
            assert!(packet.info().is_request() || !packet.bth().ack_req, "it is not offered");
            PacketFate::Pass
        });
    }
    let psn = pair.b.qp.query().rq_psn;
    let outcome = bring(&mut pair, psn, (psn, Syndrome::ACK_UNLIMITED), b"four");
    assert_eq!(outcome, Err(DropReason::NotAgreed));
}

#[test]
fn nodes_that_have_been_reset_have_to_be_told_again() {
    let (mut pair, _) = acquainted(&setup());
    let setup = setup();
    let (path, peer) = (pair.b.path_to(&pair.a), pair.a.qp.qpn());
    let again = |node: &mut Node| {
        node.go(QpState::Reset);
        node.enter_init(&setup);
        node.enter_rtr(&setup, path, peer);
        node.enter_rts(&setup);
    };
    again(&mut pair.b);
    let outcome = bring(&mut pair, setup.first_psn, (setup.first_psn, Syndrome::ACK_UNLIMITED), b"four");
    assert_eq!(outcome, Err(DropReason::NotAgreed));
}
