//! A blind attacker: knows addresses, QPNs, keys and the state of everything but PSNs and cookies, and forges packets of
//! every class while the two ends talk. The tests count the cost of an attack; docs/security.md has the same
//! figures.

use super::*;
use crate::attr::QpState;
use crate::drop::DropReason;
use crate::testing::PacketFate;
use faults::Rng;
use wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Cookie, Extensions, Mark, NakCode, Opcode, PKey, Piggyback, Psn, RKey,
    Reth, Sack, Syndrome,
};

fn random_psn(rng: &mut Rng) -> Psn {
    Psn::new(rng.next_u64() as u32 & 0xff_ffff)
}

fn random_mark(rng: &mut Rng) -> Mark {
    match rng.below(4) {
        0 => Mark::NONE,
        1 => Mark::OFFER,
        2 => Mark::from_bits(0x2d),
        _ => Mark::from_bits(rng.next_u64() as u16),
    }
}

fn random_cookie(rng: &mut Rng) -> Cookie {
    Cookie(rng.next_u64() as u32)
}

/// Memory that a forged request would reach if it were taken: its key and address are known here.
#[derive(Clone, Copy)]
struct Target {
    rkey: RKey,
    addr: u64,
}

/// The headers of a forged packet, as its opcode wants them.
fn forged_headers(rng: &mut Rng, opcode: Opcode, target: &Target) -> Extensions {
    let syndromes = [
        Syndrome::ACK_UNLIMITED,
        Syndrome::nak(NakCode::PsnSequenceError),
        Syndrome::nak(NakCode::RemoteAccessError),
        Syndrome::rnr(31),
    ];
    let aeth = Aeth { syndrome: syndromes[rng.below(4) as usize], msn: rng.next_u64() as u32 & 0xff_ffff };
    let (Target { rkey, addr }, psn) = (*target, random_psn(rng));
    let all = Extensions {
        reth: Some(Reth { addr, rkey, len_bytes: 8 }),
        atomic_eth: Some(AtomicEth { addr, rkey, swap_or_add: rng.next_u64(), compare: 0 }),
        aeth: Some(aeth),
        atomic_ack: Some(AtomicAckEth { original: rng.next_u64() }),
        cnp: Some(Cnp { cookie: random_cookie(rng) }),
        sack: Some(Sack { arrived: [rng.next_u64(), rng.next_u64(), 0, 0] }),
        piggyback: Some(Piggyback { aeth, psn }),
        cookie: Some(random_cookie(rng)),
        ..Extensions::default()
    };
    let info = opcode.info().expect("a known opcode");
    let has = |header| info.headers.contains(header);
    use wire::HeaderSet as H;
    Extensions {
        reth: all.reth.filter(|_| has(H::RETH)),
        atomic_eth: all.atomic_eth.filter(|_| has(H::ATOMIC_ETH)),
        aeth: all.aeth.filter(|_| has(H::AETH)),
        atomic_ack: all.atomic_ack.filter(|_| has(H::ATOMIC_ACK)),
        cnp: all.cnp.filter(|_| has(H::CNP)),
        sack: all.sack.filter(|_| has(H::SACK)),
        piggyback: all.piggyback.filter(|_| has(H::PIGGYBACK)),
        cookie: all.cookie.filter(|_| has(H::COOKIE)),
        ..Extensions::default()
    }
}

/// Every class of packet that an end accepts.
const CLASSES: [Opcode; 13] = [
    Opcode::RC_SEND_ONLY,
    Opcode::RC_SEND_FIRST,
    Opcode::RC_WRITE_ONLY,
    Opcode::RC_READ_REQUEST,
    Opcode::RC_FETCH_ADD,
    Opcode::SEND_ONLY_ACK,
    Opcode::WRITE_ONLY_ACK,
    Opcode::RC_ACKNOWLEDGE,
    Opcode::ACKNOWLEDGE_COOKIE,
    Opcode::SELECTIVE_ACKNOWLEDGE,
    Opcode::RC_READ_RESPONSE_ONLY,
    Opcode::RC_ATOMIC_ACKNOWLEDGE,
    Opcode::CNP,
];

/// One forged packet at `to`; whether it was taken.
fn forge(pair: &mut Pair, rng: &mut Rng, to: Side, target: &Target) -> Result<(), DropReason> {
    let opcode = CLASSES[rng.below(CLASSES.len() as u64) as usize];
    let becn = opcode == Opcode::CNP;
    let bth = Bth {
        opcode,
        becn,
        pkey: PKey::DEFAULT,
        mark: random_mark(rng),
        ack_req: rng.below(2) == 0,
        psn: random_psn(rng),
        ..Bth::default()
    };
    let headers = forged_headers(rng, opcode, target);
    let payload = if opcode.info().is_some_and(|info| info.payload) { &[0xee; 8][..] } else { &[] };
    if rng.below(4) == 0 {
        return pair.inject_marked(to, bth, headers, payload);
    }
    pair.inject(to, bth, headers, payload)
}

/// Messages of 64 bytes both ways, each with its own contents, and forged packets between all steps.
#[test]
fn a_blind_attacker_changes_nothing() {
    const ROUNDS: u64 = 300;
    const FORGED_PER_ROUND: usize = 400;
    for (seed, lossy) in [(1, false), (2, true)] {
        let mut pair = Pair::connected(&setup());
        acquaint(&mut pair);
        let mut rng = Rng::new(seed);
        let targets = [pair.a.host.memory.filled(&[0x11; 8]), pair.b.host.memory.filled(&[0x11; 8])];
        let [at_a, at_b] = targets.each_ref().map(|target| Target { rkey: target.rkey, addr: target.remote(0).addr });
        let (mut taken, mut refused) = (0, 0);
        for round in 0..ROUNDS {
            let message = |side: usize| vec![(round * 2 + side as u64) as u8; 64];
            let from = [pair.a.host.memory.filled(&message(0)), pair.b.host.memory.filled(&message(1))];
            let to = [pair.a.host.memory.region(64), pair.b.host.memory.region(64)];
            pair.a.recv(recv_wr(round, to[0].sgl()));
            pair.b.recv(recv_wr(round, to[1].sgl()));
            pair.a.send(send_wr(round, SendOp::Send, payload(&from[0])));
            pair.b.send(send_wr(round, SendOp::Send, payload(&from[1])));
            for forged in 0..FORGED_PER_ROUND {
                let (side, target) = if forged % 2 == 0 { (Side::A, &at_a) } else { (Side::B, &at_b) };
                match forge(&mut pair, &mut rng, side, target) {
                    Ok(()) => taken += 1,
                    Err(_) => refused += 1,
                }
                if forged % 100 == 0 {
                    let lose = |rng: &mut Rng| lossy && rng.below(10) == 0;
                    pair.round(&mut |_, _| if lose(&mut rng) { PacketFate::Drop } else { PacketFate::Pass });
                }
            }
            pair.run();
            for (node, to, sender) in [(&mut pair.a, &to[0], 1), (&mut pair.b, &to[1], 0)] {
                assert_eq!(node.host.take_received(), successes([round]), "seed {seed}");
                assert_eq!(node.host.take_sent(), successes([round]), "seed {seed}");
                assert_eq!(node.host.memory.bytes(to), message(sender), "seed {seed}, round {round}");
            }
        }
        // One in some 100,000 hits the mark, and with it a PSN of the past: a duplicate, which changes nothing.
        assert!(taken <= 5, "{taken} were taken");
        assert_eq!(taken + refused, ROUNDS as usize * FORGED_PER_ROUND, "all others are counted as dropped");
        for node in [&pair.a, &pair.b] {
            assert_eq!((node.qp.state(), node.qp.rate_limit()), (QpState::Rts, None));
            let counters = node.qp.counters();
            assert_eq!((counters.tx_cnps, counters.rx_sequence_naks), (0, 0));
            assert!(lossy || counters.retransmitted_packets == 0, "{counters:?}");
        }
        assert_eq!(pair.a.host.memory.bytes(&targets[0]), [0x11; 8]);
        assert_eq!(pair.b.host.memory.bytes(&targets[1]), [0x11; 8]);
    }
}

/// The number of PSNs out of 2^24 that a forged request with this mark hits: it is carried out or kept.
fn hits(pair: &mut Pair, mark: Mark) -> u64 {
    let expected = pair.b.qp.query().rq_psn;
    let to = pair.b.host.memory.region(64);
    pair.b.recv(recv_wr(7, to.sgl()));
    let mut hits = 0;
    // All PSNs near, some far; the highest first, so that a hit does not move what follows into its turn.
    let shm = (-1000..1000).rev();
    let far = (1..1 << 14).map(|step| 1000 + step * 1021);
    for delta in far.chain(shm) {
        let psn = expected.add(delta as u32 & 0xff_ffff);
        let bth = Bth { opcode: Opcode::RC_SEND_ONLY, pkey: PKey::DEFAULT, mark, psn, ..Bth::default() };
        let before = (pair.b.qp.counters().kept_packets, pair.b.host.received.len());
        let _ = pair.inject(Side::B, bth, Extensions::default(), b"forged");
        hits += u64::from(before != (pair.b.qp.counters().kept_packets, pair.b.host.received.len()));
    }
    hits
}

/// The cost of a blind request: never less than one PSN of 2^24, and much more once it is agreed.
#[test]
fn a_forged_request_costs_what_the_specification_says_or_more() {
    const MARKS: u64 = 8064;
    for mark in [Mark::NONE, Mark::OFFER, Mark::from_bits(0x2d), Cookie(99).mark()] {
        assert_eq!(hits(&mut pair(), mark), 1, "before it is agreed: the one that is expected");
        let mut agreed = pair();
        acquaint(&mut agreed);
        assert_eq!(hits(&mut agreed, mark), 0, "afterwards: none, unless the mark is right");
    }
    let mut agreed = pair();
    acquaint(&mut agreed);
    let mark = agreed.cookie_of(Side::B).mark();
    let with_the_mark = hits(&mut agreed, mark);
    assert_eq!(with_the_mark, u64::from(Sack::BITS), "those that are kept, and the one that is expected");
    // Marks and PSNs to try, by those that hit.
    let cost = (MARKS << 24) / with_the_mark;
    assert!(cost > 31 << 24, "{cost} packets");
}

/// Answers: what is outstanding can be acknowledged by anybody who hits one of its PSNs, until it is agreed.
#[test]
fn a_forged_answer_costs_what_the_specification_says_or_more() {
    for is_agreed in [false, true] {
        let mut done = 0;
        for delta in -20..20 {
            let mut pair = pair();
            if is_agreed {
                acquaint(&mut pair);
            }
            let from = pair.a.host.memory.filled(&[1; 256]);
            let to = pair.b.host.memory.region(256);
            for id in 0..4 {
                pair.a.send(send_wr(id, SendOp::Write(to.remote(0)), payload(&from)));
            }
            pair.round(&mut |_, _| PacketFate::Drop);
            let psn = pair.a.qp.query().sq_psn.add(delta as u32 & 0xff_ffff);
            let aeth = Some(Aeth { syndrome: Syndrome::ACK_UNLIMITED, msn: 1 });
            let bth = Bth { opcode: Opcode::RC_ACKNOWLEDGE, pkey: PKey::DEFAULT, psn, ..Bth::default() };
            let _ = pair.inject(Side::A, bth, Extensions { aeth, ..Extensions::default() }, &[]);
            done += usize::from(!pair.a.host.take_sent().is_empty());
        }
        assert_eq!(done, if is_agreed { 0 } else { 4 }, "of four outstanding packets");
    }
}
