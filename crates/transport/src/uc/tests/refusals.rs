//! Messages that the responder refuses in silence; it takes the next ones.

use faults::Rng;
use wire::{Bth, Extensions, ImmDt, Opcode as O, PKey, Psn, RKey, Reth};

use super::*;
use crate::attr::QpState;
use crate::drop::DropReason::{self, *};
use crate::memory::Access;
use crate::reason::Reason;
use crate::testing::{Side, send_wr};
use crate::wr::SendOp;

/// A packet with the PSN that the responder expects.
fn inject(pair: &mut Pair, opcode: O, reth: Option<Reth>, len: usize) -> Result<(), DropReason> {
    let imm = opcode.info().expect("known").headers.contains(wire::HeaderSet::IMM).then_some(ImmDt(1));
    let bth = Bth { opcode, psn: pair.b.qp.query().rq_psn, pkey: PKey::DEFAULT, ..Bth::default() };
    pair.inject(Side::B, bth, Extensions { reth, imm, ..Extensions::default() }, &vec![0xee; len])
}

/// After anything, a whole message still arrives.
fn assert_alive(pair: &mut Pair) {
    let psn = pair.b.qp.query().rq_psn;
    let bth = Bth { opcode: O::UC_SEND_ONLY_IMM, psn, pkey: PKey::DEFAULT, ..Bth::default() };
    let extensions = Extensions { imm: Some(ImmDt(0xa11)), ..Extensions::default() };
    pair.inject(Side::B, bth, extensions, &[]).expect("a good message");
    let last = pair.b.host.received.last().expect("a completion");
    assert_eq!((last.imm, last.status), (Some(0xa11), Status::Success));
}

#[test]
fn broken_orders_and_lengths_are_dropped() {
    // Packets as opcode and payload length, MTU 256, and what becomes of each.
    type Script<'a> = &'a [(O, usize, Result<(), DropReason>)];
    let invalid = Err(UcInvalid);
    let scripts: [Script<'_>; 17] = [
        &[(O::UC_SEND_FIRST, 256, Ok(())), (O::UC_SEND_LAST, 44, Ok(()))],
        &[(O::UC_SEND_FIRST, 256, Ok(())), (O::UC_SEND_LAST, 45, Err(UcTooLong))],
        &[(O::UC_SEND_MIDDLE, 256, invalid), (O::UC_SEND_LAST, 1, invalid)],
        &[(O::UC_SEND_LAST_IMM, 1, invalid)],
        &[(O::UC_WRITE_MIDDLE, 256, invalid)],
        &[(O::UC_SEND_FIRST, 255, invalid), (O::UC_SEND_LAST, 1, invalid)],
        &[(O::UC_SEND_FIRST, 260, invalid)],
        &[(O::UC_SEND_FIRST, 0, invalid)],
        &[(O::UC_SEND_FIRST, 256, Ok(())), (O::UC_SEND_MIDDLE, 252, invalid), (O::UC_SEND_LAST, 1, invalid)],
        &[(O::UC_SEND_FIRST, 256, Ok(())), (O::UC_SEND_LAST, 0, invalid)],
        &[(O::UC_SEND_FIRST, 256, Ok(())), (O::UC_SEND_LAST, 257, invalid)],
        &[(O::UC_SEND_FIRST, 256, Ok(())), (O::UC_WRITE_LAST, 1, invalid)],
        &[(O::UC_SEND_ONLY, 257, invalid)],
        &[(O::UC_SEND_FIRST, 256, Ok(())), (O::UC_SEND_FIRST, 256, Ok(())), (O::UC_SEND_LAST, 9, Ok(()))],
        &[(O::UC_SEND_FIRST, 256, Ok(())), (O::UC_SEND_ONLY, 1, Ok(())), (O::UC_SEND_LAST, 9, invalid)],
        &[(O::UC_SEND_ONLY, 0, Ok(())), (O::UC_SEND_LAST, 1, invalid)],
        &[
            (O::UC_SEND_FIRST, 256, Ok(())),
            (O::UC_SEND_MIDDLE, 256, Err(UcTooLong)),
            (O::UC_SEND_LAST, 1, Err(UcTooLong)),
        ],
    ];
    for script in scripts {
        let mut pair = pair();
        let to = pair.b.host.memory.region(300);
        post_recv(&mut pair, 0, &to);
        post_recv(&mut pair, 1, &to);
        for (opcode, len, outcome) in script {
            assert_eq!(inject(&mut pair, *opcode, None, *len), *outcome, "{opcode} in {script:?}");
        }
        assert_alive(&mut pair);
    }
}

#[test]
fn every_lost_message_counts_once() {
    let scripts: [(&[(O, usize)], u64); 5] = [
        (&[(O::UC_SEND_FIRST, 1), (O::UC_SEND_MIDDLE, 256), (O::UC_SEND_LAST, 1)], 1),
        (&[(O::UC_SEND_FIRST, 1), (O::UC_SEND_ONLY, 257)], 2),
        (&[(O::UC_SEND_FIRST, 1), (O::UC_SEND_LAST, 1), (O::UC_SEND_LAST, 1)], 2),
        (&[(O::UC_SEND_ONLY, 257), (O::UC_SEND_ONLY, 257)], 2),
        (&[(O::UC_SEND_FIRST, 256), (O::UC_SEND_FIRST, 256), (O::UC_SEND_ONLY, 0)], 2),
    ];
    for (script, lost) in scripts {
        let mut pair = pair();
        let to = pair.b.host.memory.region(300);
        post_recv(&mut pair, 0, &to);
        for (opcode, len) in script {
            let _ = inject(&mut pair, *opcode, None, *len);
        }
        assert_eq!(pair.b.qp.counters().messages_dropped, lost, "{script:?}");
    }
}

#[test]
fn writes_without_a_right_change_nothing() {
    let reach = |buffer: &Buffer, offset: u64, len_bytes: u32| {
        let at = buffer.remote(offset);
        Reth { addr: at.addr, rkey: at.rkey, len_bytes }
    };
    type Spoil = fn(Reth) -> Reth;
    let cases: [(O, usize, Spoil, DropReason); 11] = [
        (O::UC_WRITE_ONLY, 8, |r| Reth { rkey: RKey(r.rkey.0 ^ 0x100), ..r }, UcAccess),
        (O::UC_WRITE_ONLY, 8, |r| Reth { addr: r.addr - 1, ..r }, UcAccess),
        (O::UC_WRITE_ONLY, 8, |r| Reth { addr: r.addr + 993, ..r }, UcAccess),
        (O::UC_WRITE_ONLY, 8, |r| Reth { addr: u64::MAX - 3, ..r }, UcAccess),
        (O::UC_WRITE_FIRST, 256, |r| Reth { len_bytes: 1001, ..r }, UcAccess),
        (O::UC_WRITE_FIRST, 256, |r| Reth { len_bytes: (1 << 31) + 1, ..r }, UcInvalid),
        (O::UC_WRITE_FIRST, 256, |r| Reth { len_bytes: 256, ..r }, UcInvalid),
        (O::UC_WRITE_FIRST, 256, |r| Reth { len_bytes: 0, ..r }, UcInvalid),
        (O::UC_WRITE_ONLY, 8, |r| Reth { len_bytes: 7, ..r }, UcInvalid),
        (O::UC_WRITE_ONLY_IMM, 8, |r| Reth { len_bytes: 9, ..r }, UcInvalid),
        (O::UC_WRITE_ONLY, 0, |r| r, UcInvalid),
    ];
    for (opcode, len, spoil, reason) in cases {
        let mut pair = pair();
        pair.b.recv(recv_wr(1, Default::default()));
        let to = pair.b.host.memory.region(1000);
        let reth = spoil(reach(&to, 0, 8));
        assert_eq!(inject(&mut pair, opcode, Some(reth), len), Err(reason), "{opcode} {reth:?}");
        assert_eq!(pair.b.host.memory.bytes(&to), [0; 1000]);
        assert_eq!(pair.b.qp.counters().messages_dropped, 1);
        assert_alive(&mut pair);
    }
}

#[test]
fn the_rights_of_region_queue_pair_and_domain_all_count() {
    let region = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let other = crate::memory::PdId(99);
    for (own, access, pd, taken) in [
        (Access::REMOTE_WRITE, region, crate::testing::PD, true),
        (Access::REMOTE_READ, region, crate::testing::PD, false),
        (Access::REMOTE_WRITE, Access::LOCAL_WRITE | Access::REMOTE_READ, crate::testing::PD, false),
        (Access::REMOTE_WRITE, region, other, false),
    ] {
        let mut pair = Pair::connected(&Setup { access: own, ..setup() });
        let to = pair.b.host.memory.region_in(pd, 8, access);
        let from = pair.a.host.memory.filled(&[5; 8]);
        pair.a.send(send_wr(1, SendOp::Write(to.remote(0)), payload(&from)));
        pair.pump();
        assert_eq!(pair.b.host.memory.bytes(&to), if taken { [5; 8] } else { [0; 8] });
        assert_eq!(pair.dropped.is_empty(), taken);
        assert!(pair.b.host.events.is_empty(), "UC refuses in silence");
    }
}

#[test]
fn an_empty_write_needs_no_valid_key() {
    let mut pair = pair();
    pair.b.recv(recv_wr(1, Default::default()));
    let reth = Reth { addr: 3, rkey: RKey(0), len_bytes: 0 };
    assert_eq!(inject(&mut pair, O::UC_WRITE_ONLY_IMM, Some(reth), 0), Ok(()));
    assert_eq!(pair.b.host.take_received(), successes([1]));
}

#[test]
fn a_region_may_go_in_the_middle_of_a_write() {
    let mut pair = pair();
    let to = pair.b.host.memory.region(600);
    pair.b.recv(recv_wr(1, Default::default()));
    let reth = Reth { addr: to.addr, rkey: to.rkey, len_bytes: 600 };
    assert_eq!(inject(&mut pair, O::UC_WRITE_FIRST, Some(reth), 256), Ok(()));
    pair.b.host.memory.kill(&to);
    assert_eq!(inject(&mut pair, O::UC_WRITE_MIDDLE, None, 256), Err(UcAccess));
    assert_eq!(inject(&mut pair, O::UC_WRITE_LAST_IMM, None, 88), Err(UcAccess));
    assert!(pair.b.host.received.is_empty());
    assert_eq!(pair.b.qp.counters().messages_dropped, 1);
    assert_alive(&mut pair);
}

#[test]
fn a_notice_refused_at_the_last_packet_keeps_its_wqe() {
    let mut pair = pair();
    let to = pair.b.host.memory.region(300);
    pair.b.recv(recv_wr(1, Default::default()));
    let reth = Reth { addr: to.addr, rkey: to.rkey, len_bytes: 300 };
    assert_eq!(inject(&mut pair, O::UC_WRITE_FIRST, Some(reth), 256), Ok(()));
    pair.b.host.memory.kill(&to);
    assert_eq!(inject(&mut pair, O::UC_WRITE_LAST_IMM, None, 44), Err(UcAccess));
    assert_alive(&mut pair);
    assert_eq!(pair.b.host.take_received(), successes([1]));
}

#[test]
fn strangers_change_nothing() {
    let mut pair = pair();
    let to = pair.b.host.memory.region(8);
    post_recv(&mut pair, 1, &to);
    pair.a.send(send_wr(1, SendOp::Send, payload(&to)));
    let mine = pair.a.host.memory.region(8);
    pair.a.send(send_wr(2, SendOp::Send, payload(&mine)));
    pair.a.host.sent.clear();
    let bth = Bth { psn: setup().first_psn, pkey: PKey::DEFAULT, ..Bth::default() };
    for (opcode, pkey, reason) in [
        (O::RC_SEND_ONLY, PKey::DEFAULT, WrongService),
        (O::UD_SEND_ONLY, PKey::DEFAULT, WrongService),
        (O::UC_SEND_ONLY, PKey(0x8001), DropReason::PKey),
    ] {
        let deth = (opcode == O::UD_SEND_ONLY).then(Default::default);
        let extensions = Extensions { deth, ..Extensions::default() };
        assert_eq!(pair.inject(Side::B, Bth { opcode, pkey, ..bth }, extensions, &[1; 8]), Err(reason));
    }
    let stranger = wire::Gid::from(core::net::IpAddr::from([10, 0, 0, 66]));
    let honest = core::mem::replace(&mut pair.a.gid, stranger);
    let outcome = pair.inject(Side::B, Bth { opcode: O::UC_SEND_ONLY, ..bth }, Extensions::default(), &[1; 8]);
    assert_eq!(outcome, Err(WrongSource));
    pair.a.gid = honest;
    assert_eq!(pair.b.qp.query().rq_psn, setup().first_psn);
    assert_eq!(pair.b.host.memory.bytes(&to), [0; 8]);
    assert_alive(&mut pair);
}

#[test]
fn a_congestion_notification_is_counted() {
    let mut pair = pair();
    let bth = Bth { opcode: O::CNP, pkey: PKey::DEFAULT, ..Bth::default() };
    let extensions = Extensions { cnp: Some(wire::Cnp::default()), ..Extensions::default() };
    assert_eq!(pair.inject(Side::A, bth, extensions, &[]), Ok(()));
    assert_eq!(pair.a.qp.counters().rx_cnps, 1);
    assert_eq!(pair.a.qp.query().rq_psn, setup().first_psn, "it has no PSN of the connection");
}

/// Our own receive buffer is at fault: the WQE fails, and the queue pair.
#[test]
fn a_receive_buffer_that_is_gone_fails_the_queue_pair() {
    let mut pair = pair();
    let gone = pair.b.host.memory.region(300);
    post_recv(&mut pair, 1, &gone);
    post_recv(&mut pair, 2, &gone);
    assert_eq!(inject(&mut pair, O::UC_SEND_FIRST, None, 256), Ok(()));
    pair.b.host.memory.kill(&gone);
    assert_eq!(inject(&mut pair, O::UC_SEND_LAST, None, 1), Err(LocalMemory));
    assert_eq!(pair.b.qp.state(), QpState::Error);
    assert!(matches!(pair.b.qp.failure(), Some(Reason::LocalMemory(_))));
    let flushed = Status::WorkRequestFlushed;
    assert_eq!(pair.b.host.take_received(), [(1, Status::LocalProtection), (2, flushed)]);
}

/// Anything may come: nothing panics, no receive WQE completes twice, nothing is
/// written outside of what keys and buffers allow.
#[test]
fn random_packets_do_no_harm() {
    let opcodes: Vec<_> = O::all().filter(|o| o.info().expect("known").service == wire::TransportService::Uc).collect();
    for seed in 0..200u64 {
        let mut rng = Rng::new(seed);
        let mut random = move |below: u64| rng.below(below);
        let mut pair = pair();
        let open = pair.b.host.memory.region(600);
        let closed = pair.b.host.memory.region_in(crate::testing::PD, 600, Access::LOCAL_WRITE);
        for wr_id in 0..8 {
            post_recv(&mut pair, wr_id, &open);
        }
        for _ in 0..200 {
            let opcode = opcodes[random(opcodes.len() as u64) as usize];
            let info = opcode.info().expect("known");
            let target = if random(4) == 0 { closed } else { open };
            let len = [0, 1, 255, 256, 257, 600][random(6) as usize];
            let reth = Reth {
                addr: target.addr.wrapping_add(random(700)).wrapping_sub(random(20)),
                rkey: target.rkey,
                len_bytes: [0, 1, 256, 257, 512, 600, u32::MAX][random(7) as usize],
            };
            let jump = [0, 0, 0, 0, 1, 5000][random(6) as usize];
            let bth = Bth {
                opcode,
                psn: Psn::new(pair.b.qp.query().rq_psn.get().wrapping_add(jump).wrapping_sub(random(2) as u32)),
                pkey: PKey::DEFAULT,
                ..Bth::default()
            };
            let extensions = Extensions {
                reth: info.headers.contains(wire::HeaderSet::RETH).then_some(reth),
                imm: info.headers.contains(wire::HeaderSet::IMM).then_some(ImmDt(0)),
                ..Extensions::default()
            };
            let _ = pair.inject(Side::B, bth, extensions, &vec![1; len]);
        }
        assert_eq!(pair.b.host.memory.bytes(&closed), [0; 600], "seed {seed}");
        assert_eq!(pair.b.qp.state(), QpState::Rts, "no packet stops a queue pair: seed {seed}");
        pair.b.go(QpState::Error);
        let mut wr_ids: Vec<_> = pair.b.host.take_received().into_iter().map(|(wr_id, _)| wr_id).collect();
        assert_eq!(wr_ids.len(), 8, "each completes once: seed {seed}");
        wr_ids.sort_unstable();
        wr_ids.dedup();
        assert_eq!(wr_ids.len(), 8, "seed {seed}");
    }
}
