//! Random requests and interleavings, from seeds.

use faults::Rng;

use super::*;
use crate::attr::QpState;
use crate::completion::Completion;
use crate::shm::frame::{FrameFlags, FrameHead, FrameKind, HEAD_BYTES};
use crate::testing::{LaneFrame, Node, Pair, Side};
use crate::wr::{RemoteAddr, SendFlags};

fn random_side(rng: &mut Rng) -> Side {
    if rng.below(2) == 0 { Side::A } else { Side::B }
}

const LEN_BYTES: usize = 1200;

fn random_op(rng: &mut Rng, target: &Buffer, len: u64) -> SendOp {
    let spot = rng.below(LEN_BYTES as u64 - len + 1) / 8 * 8;
    let mut at = target.remote(spot);
    if rng.below(40) == 0 {
        at = RemoteAddr { addr: at.addr + LEN_BYTES as u64, ..at };
    }
    match rng.below(7) {
        0 | 1 => SendOp::Send,
        2 => SendOp::SendImm(rng.below(1000) as u32),
        3 => SendOp::Write(at),
        4 => SendOp::WriteImm(at, rng.below(1000) as u32),
        5 => SendOp::Read(at),
        _ if len == 8 => SendOp::Atomic(at, AtomicOp::FetchAdd { add: rng.below(100) }),
        _ => SendOp::Send,
    }
}

/// Results go elsewhere than what is sent comes from: a request behind a READ need not wait for it.
fn random_wr(rng: &mut Rng, wr_id: u64, [source, result, target]: [&Buffer; 3]) -> SendWr {
    let len = [0, 8, 8, 64, 257, 1000][rng.below(6) as usize];
    let op = random_op(rng, target, len);
    let own = if matches!(op, SendOp::Read(_) | SendOp::Atomic(..)) { result } else { source };
    let mut wr = send_wr(wr_id, op, Payload::Sgl([own.sge(0, len as u32)].into_iter().collect()));
    // A READ does not see what is written behind it only if there is a fence between them (table 79).
    let writes = matches!(op, SendOp::Write(_) | SendOp::WriteImm(..) | SendOp::Atomic(..));
    wr.flags.set(SendFlags::FENCE, rng.below(8) == 0 || writes);
    wr.flags.set(SendFlags::SOLICITED, rng.below(3) == 0);
    wr
}

/// The observations of each end: completions, events, state; and its memory.
pub(super) type Outcome = [(Vec<Completion>, Vec<Completion>, Vec<crate::QpEvent>, QpState, Vec<u8>); 2];

/// Phases of one initiator each, until an error ends the connection.
pub(super) fn play<P>(
    seed: u64,
    mut pair: P,
    node: impl Fn(&mut P, Side) -> &mut Node,
    run: impl Fn(&mut P),
) -> Outcome {
    let mut rng = Rng::new(seed);
    let sides = [Side::A, Side::B];
    let sources = sides.map(|side| node(&mut pair, side).host.memory.filled(&pattern(LEN_BYTES, 1)));
    let targets = sides.map(|side| node(&mut pair, side).host.memory.region(LEN_BYTES));
    let sinks = sides.map(|side| node(&mut pair, side).host.memory.region(LEN_BYTES));
    for phase in 0..4 {
        let from = rng.below(2) as usize;
        let posted = 1 + rng.below(8);
        // Seldom too few.
        let receives = if rng.below(8) == 0 { rng.below(posted) } else { posted };
        for id in 0..receives {
            let room = if rng.below(60) == 0 { 30 } else { LEN_BYTES as u32 };
            let sink = [sinks[1 - from].sge(0, room)].into_iter().collect();
            node(&mut pair, sides[1 - from]).recv(recv_wr(phase * 100 + id, sink));
        }
        for id in 0..posted {
            let wr = random_wr(&mut rng, phase * 100 + id, [&sources[from], &sinks[from], &targets[1 - from]]);
            node(&mut pair, sides[from]).send(wr);
        }
        run(&mut pair);
    }
    [0, 1].map(|side| {
        let node = node(&mut pair, sides[side]);
        let memory = [&sources[side], &targets[side], &sinks[side]].map(|buffer| node.host.memory.bytes(buffer));
        let host = &node.host;
        (host.sent.clone(), host.received.clone(), host.events.clone(), node.qp.state(), memory.concat())
    })
}

#[test]
fn the_outcome_is_that_of_the_wire() {
    let (mut failed, mut whole) = (0, 0);
    for seed in 0..600 {
        let setup = Setup { rnr_retry: 1, ..setup() };
        let [a, b] = play(seed, Pair::connected(&setup), Pair::node, Pair::run);
        let has_failed = [a.3, b.3].contains(&QpState::Error);
        for mode in ShmMode::ALL {
            let shm = ShmPair::connected(&setup).in_mode(mode);
            shm.shared.room[0].set(1 + seed as usize % 7);
            shm.shared.room[1].set(1 + seed as usize % 5);
            let [shm_a, shm_b] = play(seed, shm, ShmPair::node, ShmPair::run);
            for (wire, shm) in [(&a, &shm_a), (&b, &shm_b)] {
                assert_eq!((&wire.0, &wire.1), (&shm.0, &shm.1), "completions, seed {seed} {mode:?}");
                assert_eq!((&wire.2, wire.3), (&shm.2, shm.3), "seed {seed} {mode:?}");
                // The bytes of a refused message are not defined.
                assert!(has_failed || wire.4 == shm.4, "memory, seed {seed}");
            }
        }
        failed += u32::from(has_failed);
        whole += u32::from(!has_failed);
    }
    assert!(failed > 50 && whole > 50, "{failed} {whole}");
}

/// Everything posted completes once and in order, whatever happens.
#[test]
fn every_interleaving_completes_everything_once_and_in_order() {
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let mut pair = pair(ShmMode::ALL[seed as usize % 3]);
        pair.shared.lent_reachable.set(rng.below(2) == 0);
        let buffers = [Side::A, Side::B].map(|side| pair.node(side).host.memory.region(LEN_BYTES));
        let mut posted = [(0, 0); 2];
        let kills = rng.below(4) == 0;
        for _ in 0..400 {
            let side = random_side(&mut rng);
            let index = side as usize;
            match rng.below(12) {
                0 | 1 if pair.node(side).qp.send_room() > 0 => {
                    let wr =
                        random_wr(&mut rng, posted[index].0, [&buffers[index], &buffers[index], &buffers[1 - index]]);
                    pair.node(side).send(wr);
                    posted[index].0 += 1;
                }
                2 | 3 => {
                    let wr = recv_wr(posted[index].1, buffers[index].sgl());
                    let node = pair.node(side);
                    posted[index].1 += u64::from(node.qp.post_recv(wr, &mut node.host).is_ok());
                }
                4 => pair.shared.room[index].set(1 + rng.below(5) as usize),
                5 => drop(pair.elapse()),
                6 => pair.node(side).qp.resume_sending(),
                7 if kills && rng.below(100) == 0 => pair.kill(side),
                7..9 => pair.go(side, rng.below(2) == 0),
                _ => drop(pair.deliver(side)),
            }
        }
        pair.run();
        for side in [Side::A, Side::B] {
            pair.node(side).go(QpState::Error);
            let ids = |all: &[Completion]| all.iter().map(|c| c.wr_id).collect::<Vec<_>>();
            let (sends, receives) = posted[side as usize];
            let host = &pair.node(side).host;
            assert_eq!(ids(&host.sent), (0..sends).collect::<Vec<_>>(), "seed {seed}");
            assert_eq!(ids(&host.received), (0..receives).collect::<Vec<_>>(), "seed {seed}");
            let first_failed = host.sent.iter().position(|c| c.status != Status::Success).unwrap_or(host.sent.len());
            assert!(host.sent[first_failed..].iter().skip(1).all(|c| c.status == Status::WorkRequestFlushed));
        }
    }
}

fn random_frame(rng: &mut Rng, pair: &ShmPair, target: &Buffer) -> LaneFrame {
    let mut bytes = [0u8; HEAD_BYTES];
    bytes[0] = [1, 2, 3, 4, 5, 6, 16, 17, 18, 19, 20, 21, 22][rng.below(13) as usize];
    bytes[1] = rng.below(32) as u8;
    let mut head = FrameHead::decode(&bytes).expect("a head");
    (head.src, head.dst) = (pair.a.qp.qpn(), pair.b.qp.qpn());
    // Numbers near those that are in use, which begin where the PSNs do.
    let number = |rng: &mut Rng| 0xff_fffdu32.wrapping_add(rng.below(8) as u32).wrapping_sub(2);
    (head.request, head.ack) = (number(rng), number(rng));
    head.code = rng.below(200) as u16;
    head.len_bytes = [0, 8, 64, 300, u32::MAX][rng.below(5) as usize];
    head.value = if rng.below(2) == 0 { target.rkey.0 } else { rng.below(99) as u32 };
    let len = [0, 8, 12, 20, 32, 64, 300][rng.below(7) as usize];
    let mut body: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
    if len >= 12 && rng.below(2) == 0 {
        let addr = target.addr + rng.below(80);
        body[..8].copy_from_slice(&addr.to_le_bytes());
        body[8..12].copy_from_slice(&target.rkey.0.to_le_bytes());
    }
    LaneFrame { head, bytes: body, lent: None }
}

/// Any frames of a hostile peer: no panic, one completion for each request, and memory without a right stays
/// unchanged.
#[test]
fn a_hostile_peer_does_no_harm() {
    let states = [QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Error];
    for seed in 0..4000 {
        let mut rng = Rng::new(seed);
        let qp_type = if seed % 4 == 3 { QpType::Uc } else { QpType::Rc };
        let setup = Setup::new(qp_type);
        let mut pair = ShmPair::ready_to_receive(&setup).in_mode(ShmMode::ALL[seed as usize % 3]);
        let memory = pair.b.host.memory.clone();
        let (open, sink) = (memory.region(64), memory.region(64));
        let closed = memory.region_in(crate::testing::PD, 64, crate::Access::LOCAL_WRITE);
        let state = states[rng.below(4) as usize];
        for id in 0..3 {
            post_recv(&mut pair, id, &sink);
        }
        let mut sends = 0;
        if state != QpState::Rtr {
            pair.b.enter_rts(&setup);
            sends = rng.below(3);
            for id in 0..sends {
                pair.b.send(send_wr(id, SendOp::Send, payload(&sink)));
            }
            pair.go(Side::B, true);
            pair.b.go(state);
        }
        for _ in 0..20 {
            let target = if rng.below(3) == 0 { &closed } else { &open };
            let frame = random_frame(&mut rng, &pair, target);
            pair.inject(Side::B, &frame);
            pair.go(Side::B, rng.below(2) == 0);
        }
        pair.b.go(QpState::Error);
        assert_eq!(memory.bytes(&closed), [0; 64], "seed {seed}");
        let ids = |all: &[Completion]| all.iter().map(|c| c.wr_id).collect::<Vec<_>>();
        assert_eq!(ids(&pair.b.host.sent), (0..sends).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(ids(&pair.b.host.received), [0, 1, 2], "seed {seed}");
    }
}

#[test]
fn acknowledges_beyond_what_was_sent_are_refused_and_old_ones_are_not_counted() {
    let mut pair = pair(ShmMode::Direct);
    pair.b.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.b.send(send_wr(2, SendOp::Send, Payload::empty()));
    pair.go(Side::B, true);
    let first = setup().first_psn.get();
    for (ack, done, drops) in [(3, 0, 1), (1, 1, 1), (0, 1, 1), (1, 1, 1), (3, 1, 2), (2, 2, 2)] {
        let mut head = FrameHead::new(FrameKind::Ack, pair.a.qp.qpn(), pair.b.qp.qpn());
        (head.ack, head.flags) = (first + ack, FrameFlags::empty());
        pair.inject(Side::B, &LaneFrame { head, bytes: Vec::new(), lent: None });
        assert_eq!((pair.b.host.sent.len(), pair.dropped.len()), (done, drops), "{ack}");
    }
}
