//! The packets that were not sent are those that the wire would have seen.

use faults::Rng;

use super::*;
use crate::memory::Access;
use crate::shm::frame::{FrameFlags, FrameHead, HEAD_BYTES};
use crate::shm::path::{DirectOutcome, DirectRequest};
use crate::testing::{Node, PacketFate, Pair, Side};
use crate::transcript::PacketDirection::{self, Received, Sent};
use crate::transcript::{CapturedConnection, FRONT_BYTES, PayloadSource, Transcript};
use crate::wr::{RemoteAddr, SendFlags};
use wire::{Bth, Extensions, FlushLevel, FlushPlacement, Opcode, Packet, Syndrome, SyndromeKind};

/// A packet without the fields that its sender is free to choose: requests for ACKs, offers, credits.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Plain {
    bth: Bth,
    extensions: Extensions,
    payload: Vec<u8>,
}

fn plain(bytes: &[u8]) -> Plain {
    let packet = Packet::parse(bytes).expect("a well-formed packet");
    let mut extensions = packet.extensions();
    if let Some(aeth) = &mut extensions.aeth
        && matches!(aeth.syndrome.kind(), SyndromeKind::Ack { .. })
    {
        aeth.syndrome = Syndrome::ACK_UNLIMITED;
    }
    let bth = Bth { ack_req: false, mark: wire::Mark::NONE, ..packet.bth() };
    Plain { bth, extensions, payload: packet.payload().to_vec() }
}

impl Plain {
    fn is_acknowledge(&self) -> bool {
        self.bth.opcode == Opcode::RC_ACKNOWLEDGE
    }

    fn is_request(&self) -> bool {
        self.bth.opcode.info().is_some_and(|info| info.is_request())
    }

    /// An ACK may be missing if another one follows.
    fn is_optional(&self) -> bool {
        self.is_acknowledge()
            && self.extensions.aeth.is_some_and(|aeth| matches!(aeth.syndrome.kind(), SyndromeKind::Ack { .. }))
    }
}

/// The packets that A sends and receives on the wire.
fn on_the_wire(setup: &Setup, play: impl Fn(&mut Node, &mut Node)) -> [Vec<Plain>; 2] {
    let mut pair = Pair::connected(setup);
    play(&mut pair.a, &mut pair.b);
    let mut seen = [Vec::new(), Vec::new()];
    pair.run_with(|side, packet| {
        seen[usize::from(side == Side::B)].push(plain(packet.bytes()));
        PacketFate::Pass
    });
    seen
}

/// The packets that the captures of A and B show as sent and received.
fn written_down(setup: &Setup, mode: ShmMode, play: impl Fn(&mut Node, &mut Node)) -> [[Vec<Plain>; 2]; 2] {
    let mut pair = ShmPair::connected(setup).in_mode(mode);
    pair.write_down();
    let ShmPair { a, b, .. } = &mut pair;
    play(a, b);
    pair.run();
    [Side::A, Side::B].map(|side| {
        let of = |direction: PacketDirection| {
            let packets = pair.packets(side).into_iter();
            packets.filter(|(found, _)| *found == direction).map(|(_, bytes)| plain(&bytes)).collect()
        };
        [of(Sent), of(Received)]
    })
}

fn important(packets: &[Plain]) -> Vec<&Plain> {
    packets.iter().filter(|packet| !packet.is_optional()).collect()
}

/// The same requests on the wire and on one host give the same packets, except that ACKs are coalesced.
fn compare(setup: &Setup, what: &str, play: impl Fn(&mut Node, &mut Node)) {
    let wire = on_the_wire(setup, &play);
    assert!(!wire[0].is_empty(), "{what}");
    for mode in ShmMode::ALL {
        let [ours, theirs] = written_down(setup, mode, &play);
        for direction in [0, 1] {
            assert_eq!(important(&ours[direction]), important(&wire[direction]), "{what} {mode:?} {direction}");
            assert_eq!(ours[direction].last(), wire[direction].last(), "{what} {mode:?}: the last acknowledge");
        }
        // A WRITE of no bytes leaves no trace at the peer.
        if mode != ShmMode::Direct && !what.ends_with(" 0") {
            let [sent, received] = theirs;
            assert_eq!([received, sent], ours, "{what} {mode:?}: both ends have seen the same");
        }
    }
}

/// Every right, and packets as the specification has them: Longarm's peers of each other shorten some.
fn everything() -> Setup {
    let mut setup = setup();
    setup.access |= Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT;
    // The capture has the specification's packets, not the forms that two Longarm ends agree on.
    (setup.tuning.selective, setup.tuning.piggyback) = (false, false);
    setup
}

#[test]
fn sends_and_writes_are_those_of_the_wire() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        for len in [0, 1, 255, 256, 257, 512, 1000, 5000] {
            let setup = Setup { qp_type, ..everything() };
            compare(&setup, &format!("{qp_type:?} {len}"), |a, b| {
                let (from, to) = (a.host.memory.filled(&pattern(len, 1)), b.host.memory.region(len));
                for id in 0..3 {
                    b.recv(recv_wr(id, to.sgl()));
                }
                let mut asks = send_wr(1, SendOp::SendImm(0x1122_3344), payload(&from));
                asks.flags |= SendFlags::SOLICITED;
                a.send(asks);
                a.send(send_wr(2, SendOp::Send, payload(&from)));
                a.send(send_wr(3, SendOp::Write(to.remote(0)), payload(&from)));
            });
        }
    }
}

#[test]
fn one_sided_requests_are_those_of_the_wire() {
    compare(&everything(), "everything", |a, b| {
        let (from, value, to) =
            (a.host.memory.filled(&pattern(700, 1)), a.host.memory.filled(&pattern(8, 2)), b.host.memory.region(700));
        let (back, word) = (a.host.memory.region(700), a.host.memory.region(8));
        let key = b.host.memory.window();
        let at = to.remote(8);
        let swap = AtomicOp::CompareSwap { compare: 5, swap: 6 };
        let flush =
            |level| SendOp::Flush { remote: to.remote(0), len_bytes: 64, placement: FlushPlacement::GLOBAL, level };
        b.recv(recv_wr(1, to.sgl()));
        a.send(send_wr(1, SendOp::SendInvalidate(key), payload(&word)));
        a.send(send_wr(2, SendOp::Write(to.remote(0)), payload(&from)));
        a.send(fetch_add(3, &word, &to, 7));
        a.send(send_wr(4, SendOp::Atomic(at, swap), payload(&word)));
        a.send(send_wr(5, SendOp::AtomicWrite(at), payload(&value)));
        a.send(send_wr(6, flush(FlushLevel::RANGE), Payload::empty()));
        a.send(send_wr(7, SendOp::Read(to.remote(0)), payload(&back)));
    });
}

#[test]
fn refusals_are_those_of_the_wire() {
    type MakeOp = fn(&Buffer) -> SendOp;
    let cases: [(&str, MakeOp); 5] = [
        ("key", |b| SendOp::Write(RemoteAddr { rkey: wire::RKey(1), ..b.remote(0) })),
        ("range", |b| SendOp::WriteImm(b.remote(1), 3)),
        ("READ", |b| SendOp::Read(b.remote(1))),
        ("alignment", |b| SendOp::Atomic(b.remote(4), AtomicOp::FetchAdd { add: 1 })),
        ("a SEND that is too long", |_| SendOp::Send),
    ];
    for (what, op) in cases {
        let alone = everything();
        let op_is_send = what.contains("SEND");
        let play = |a: &mut Node, b: &mut Node| {
            let op = op(&b.host.memory.region(600));
            let len = if matches!(op, SendOp::Atomic(..)) { 8 } else { 600 };
            let (from, short) = (a.host.memory.filled(&pattern(len, 1)), b.host.memory.region(599));
            b.recv(recv_wr(1, short.sgl()));
            a.send(send_wr(1, op, payload(&from)));
        };
        let wire = on_the_wire(&alone, play);
        let nak = wire[1].last().filter(|nak| nak.is_acknowledge() && !nak.is_optional());
        let nak = nak.unwrap_or_else(|| panic!("{what}: no NAK on the wire"));
        for mode in ShmMode::ALL {
            let [ours, theirs] = written_down(&alone, mode, play);
            assert_eq!(ours[0], wire[0], "{what} {mode:?}");
            // A message is refused as a whole; on the wire, its first packet that is too much.
            let psn = if op_is_send { wire[0][0].bth.psn } else { nak.bth.psn };
            let nak = Plain { bth: Bth { psn, ..nak.bth }, ..nak.clone() };
            assert_eq!((theirs[0].last(), &ours[1][..]), (Some(&nak), &[nak.clone()][..]), "{what} {mode:?}");
        }
    }
}

/// PSNs of requests in the order in which they were written down, without repetitions of the last.
fn psns(packets: &[Plain]) -> Vec<u32> {
    let mut psns: Vec<u32> = packets.iter().map(|packet| packet.bth.psn.get()).collect();
    psns.dedup();
    psns
}

#[test]
fn a_receiver_that_is_not_ready_shows_as_rnr_naks_and_the_same_packets_again() {
    for mode in ShmMode::ALL {
        let mut pair = ShmPair::connected(&everything()).in_mode(mode);
        pair.write_down();
        let (from, to) = (pair.a.host.memory.filled(&pattern(600, 1)), pair.b.host.memory.region(600));
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.a.send(send_wr(2, SendOp::WriteImm(to.remote(0), 1), payload(&from)));
        pair.pump();
        post_recv(&mut pair, 1, &to);
        post_recv(&mut pair, 2, &to);
        pair.run();
        assert_eq!(pair.a.host.take_sent(), successes([1, 2]));
        let (sent, received): (Vec<_>, Vec<_>) =
            pair.packets(Side::A).into_iter().partition(|(direction, _)| *direction == Sent);
        let sent: Vec<Plain> = sent.iter().map(|(_, bytes)| plain(bytes)).collect();
        assert_eq!(sent[..3], sent[3..6], "{mode:?}");
        assert_eq!(psns(&sent[3..]), [0xff_fffd, 0xff_fffe, 0xff_ffff, 0, 1, 2], "{mode:?}");
        let kinds: Vec<SyndromeKind> = received
            .iter()
            .filter_map(|(_, bytes)| plain(bytes).extensions.aeth)
            .map(|aeth| aeth.syndrome.kind())
            .collect();
        assert_eq!(kinds[0], SyndromeKind::RnrNak { timer: everything().min_rnr_timer }, "{mode:?}");
        assert!(matches!(kinds.last(), Some(SyndromeKind::Ack { .. })), "{mode:?}");
    }
}

#[test]
fn what_cannot_be_lent_is_written_down_once() {
    let mut pair = ShmPair::connected(&everything()).in_mode(ShmMode::Lending);
    pair.shared.lent_reachable.set(false);
    pair.write_down();
    let (from, to) = (pair.a.host.memory.filled(&pattern(1000, 1)), pair.b.host.memory.region(1000));
    for id in 0..3 {
        post_recv(&mut pair, id, &to);
        pair.a.send(send_wr(id, SendOp::Send, payload(&from)));
    }
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([0, 1, 2]));
    let requests = |side, direction| -> Vec<Plain> {
        let packets = pair.packets(side).into_iter().filter(|(found, _)| *found == direction);
        packets.map(|(_, bytes)| plain(&bytes)).filter(|packet| !packet.is_acknowledge()).collect()
    };
    let (sent, arrived) = (requests(Side::A, Sent), requests(Side::B, Received));
    assert_eq!(sent.len(), 12);
    assert_eq!(psns(&sent).len(), 12, "no PSN twice");
    assert_eq!(sent, arrived);
}

#[test]
fn the_owner_of_memory_sees_the_notice_only() {
    let mut pair = pair(ShmMode::Direct);
    pair.write_down();
    let (from, to) = (pair.a.host.memory.filled(&pattern(600, 1)), pair.b.host.memory.region(600));
    post_recv(&mut pair, 1, &to);
    pair.a.send(send_wr(1, SendOp::Write(to.remote(0)), payload(&from)));
    pair.a.send(send_wr(2, SendOp::WriteImm(to.remote(0), 9), payload(&from)));
    pair.run();
    let seen = pair.packets(Side::B);
    let [(Received, notice), (Sent, acknowledge)] = &seen[..] else { panic!("{seen:?}") };
    let notice = plain(notice);
    assert_eq!((notice.bth.opcode, notice.extensions.imm), (Opcode::RC_WRITE_ONLY_IMM, Some(wire::ImmDt(9))));
    assert_eq!(notice.extensions.reth.map(|reth| reth.len_bytes), Some(600));
    assert!(plain(acknowledge).is_acknowledge());
}

#[test]
fn a_request_that_nobody_answers_is_there_once() {
    let setup = everything();
    let mut pair = ShmPair::new(&setup);
    pair.enter_rtr(Side::A, &setup);
    pair.a.enter_rts(&setup);
    pair.write_down();
    let from = pair.a.host.memory.filled(&pattern(300, 1));
    let nowhere = RemoteAddr { addr: 0, rkey: wire::RKey(1) };
    pair.a.send(send_wr(1, SendOp::Write(nowhere), payload(&from)));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RetryExceeded)]);
    let packets = pair.packets(Side::A);
    let opcodes: Vec<Opcode> = packets.iter().map(|(_, bytes)| plain(bytes).bth.opcode).collect();
    assert_eq!(opcodes, [Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_LAST]);
}

/// Random frames, and requests between them: every captured packet is still a valid one.
#[test]
fn whatever_is_told_becomes_packets_or_nothing() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let pair = ShmPair::connected(&Setup { qp_type, ..everything() });
        let mut transcript = Transcript::new(CapturedConnection::of(&pair.a.qp));
        let mut random = Rng::new(7);
        let (mut packets, mut bytes_shown) = (0, 0);
        let show = &mut |_: PacketDirection, packet: &[u8], _: Option<&str>| {
            assert!(Packet::parse(packet).is_ok(), "{packet:?}");
            packets += 1;
            bytes_shown += packet.len();
        };
        for _ in 0..50_000 {
            let (head, front) = nonsense(&mut random);
            let len_bytes = random.below(2000) as u32;
            let reads = random.below(20) > 0;
            let read = &mut |_: u32, out: &mut [u8]| {
                out.fill(1);
                reads
            };
            match random.below(4) {
                0 => {
                    transcript.sent(&head, &front[..random.below(33) as usize], PayloadSource { len_bytes, read }, show)
                }
                1 => {
                    let remote = RemoteAddr { addr: 1, rkey: wire::RKey(2) };
                    let op =
                        [SendOp::WriteImm(remote, 1), SendOp::Read(remote), SendOp::AtomicWrite(remote), SendOp::Send];
                    let op = &op[random.below(4) as usize];
                    let outcomes = [
                        DirectOutcome::Done,
                        DirectOutcome::Value(1),
                        DirectOutcome::NoticeSent(head.request),
                        DirectOutcome::NoAnswer,
                    ];
                    let outcome = outcomes[random.below(4) as usize];
                    let direct = DirectRequest {
                        op,
                        payload: &Payload::empty(),
                        pd: crate::PdId(1),
                        len_bytes,
                        solicited: true,
                    };
                    transcript.done(&direct, outcome, read, show);
                }
                _ => transcript.arrived(&head, &front, PayloadSource { len_bytes, read }, show),
            }
        }
        assert!(packets > 10_000 && bytes_shown < 200_000_000, "{packets} {bytes_shown}");
    }
}

/// A frame with small numbers, so that some fit together.
fn nonsense(random: &mut Rng) -> (FrameHead, [u8; FRONT_BYTES]) {
    let mut front = [0; FRONT_BYTES];
    front.fill_with(|| random.below(6) as u8);
    loop {
        let mut bytes = [0; HEAD_BYTES];
        bytes.fill_with(|| random.below(3) as u8);
        (bytes[0], bytes[1]) = (random.below(23) as u8, random.below(64) as u8);
        (bytes[7], bytes[11]) = (0, 0);
        // Also some that are far off, and some that begin messages.
        bytes[12 + random.below(8) as usize] = random.below(256) as u8;
        if let Some(head) = FrameHead::decode(&bytes) {
            return (
                FrameHead { flags: head.flags | FrameFlags::from_bits_truncate(random.below(2) as u8), ..head },
                front,
            );
        }
    }
}

/// Random requests, errors mixed in: what is written down of requests is what the wire has seen of them. Behind an error
/// each way has sent some that the other has not. (The wire may ask for a READ in parts.)
#[test]
fn random_requests_are_those_of_the_wire() {
    let counts = |packet: &Plain| packet.is_request() && packet.bth.opcode != Opcode::RC_READ_REQUEST;
    let mut whole = 0;
    for seed in 0..300 {
        let mut wire = [const { Vec::new() }; 2];
        let seen = std::cell::RefCell::new(&mut wire);
        let outcome = random::play(seed, Pair::connected(&everything()), Pair::node, |pair| {
            pair.run_with(|side, packet| {
                seen.borrow_mut()[usize::from(side == Side::B)].push(plain(packet.bytes()));
                PacketFate::Pass
            });
        });
        let has_failed = outcome.iter().any(|end| end.3 == crate::attr::QpState::Error);
        whole += u32::from(!has_failed);
        let mut shm = ShmPair::connected(&everything()).in_mode(ShmMode::ALL[seed as usize % 3]);
        shm.write_down();
        let shared = shm.shared.clone();
        random::play(seed, shm, ShmPair::node, ShmPair::run);
        for (side, wire) in wire.iter().enumerate() {
            let recorder = shared.recorders[side].borrow();
            let sent =
                recorder.iter().flat_map(|recorder| &recorder.packets).filter(|(direction, _)| *direction == Sent);
            let shm: Vec<Plain> = sent.map(|(_, bytes)| plain(bytes)).filter(counts).collect();
            let seen_by = |packets: &[Plain], packet: &Plain| {
                let mut same = packets.iter().filter(|other| counts(other) && other.bth.psn == packet.bth.psn);
                same.next().map_or(has_failed, |other| other == packet)
            };
            let odd = shm.iter().find(|packet| !seen_by(wire, packet));
            let missing = wire.iter().filter(|packet| counts(packet)).find(|packet| !seen_by(&shm, packet));
            assert_eq!((odd, missing), (None, None), "seed {seed}");
        }
    }
    assert!((50..250).contains(&whole), "{whole}");
}
