//! Extended reliable connections: an initiator, a target, and the shared receive queues of
//! the target's domain.

use wire::{Bth, Extensions, NakCode, Opcode, XrcEth};

use super::*;
use crate::attr::QpState;
use crate::completion::{Completion, CompletionOp};
use crate::drop::DropReason;
use crate::host::QpEvent;
use crate::memory::{Access, PdId};
use crate::reason::Reason;
use crate::testing::{PD, PacketFate, Side, XrcQueue};

const SRQ: u32 = 0x12_3456;
const OTHER_SRQ: u32 = 7;
const OTHER_PD: PdId = PdId(99);
/// Nobody has it.
const NO_SRQ: u32 = 8;

/// An initiator and a target whose domain has two shared receive queues.
fn pair() -> Pair {
    pair_of(&Setup::new(QpType::XrcSend))
}

fn pair_of(setup: &Setup) -> Pair {
    let mut pair = Pair::connected(setup);
    for (srq, pd) in [(SRQ, PD), (OTHER_SRQ, OTHER_PD)] {
        let queue = XrcQueue { pd, wqes: Default::default(), completions: Vec::new() };
        pair.b.host.xrc.insert(srq, queue);
    }
    pair
}

fn to(srq: u32, wr: SendWr) -> SendWr {
    SendWr { xrc_srq: Some(srq), ..wr }
}

fn post(pair: &mut Pair, srq: u32, wr_id: u64, buffer: &Buffer) {
    pair.b.host.xrc.get_mut(&srq).expect("a queue").wqes.push_back(recv_wr(wr_id, buffer.sgl()));
}

fn completed(pair: &mut Pair, srq: u32) -> Vec<Completion> {
    core::mem::take(&mut pair.b.host.xrc.get_mut(&srq).expect("a queue").completions)
}

#[test]
fn a_message_goes_to_the_queue_that_it_names() {
    let mut pair = pair();
    let bytes = pattern(700, 1);
    let from = pair.a.host.memory.filled(&bytes);
    let first = pair.b.host.memory.region(700);
    let other = pair.b.host.memory.region_in(OTHER_PD, 700, Access::LOCAL_WRITE);
    post(&mut pair, SRQ, 10, &first);
    post(&mut pair, OTHER_SRQ, 20, &other);
    pair.a.send(to(OTHER_SRQ, send_wr(1, SendOp::SendImm(5), payload(&from))));
    pair.a.send(to(SRQ, send_wr(2, SendOp::Send, payload(&from))));
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([1, 2]));
    for (srq, wr_id, buffer, imm) in [(SRQ, 10, first, None), (OTHER_SRQ, 20, other, Some(5))] {
        let [completion] = completed(&mut pair, srq)[..] else { panic!("one completion") };
        assert_eq!((completion.wr_id, completion.byte_len, completion.imm), (wr_id, 700, imm));
        assert_eq!((completion.status, completion.qpn), (Status::Success, pair.b.qp.qpn()));
        assert_eq!(pair.b.host.memory.bytes(&buffer), bytes);
    }
    assert!(pair.b.host.received.is_empty(), "the target has no completion queue of its own");
}

#[test]
fn packets_have_the_opcodes_and_the_header_of_xrc() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&pattern(300, 1));
    let at = pair.b.host.memory.region(300);
    let result = pair.a.host.memory.region(8);
    post(&mut pair, SRQ, 10, &at);
    pair.a.send(to(SRQ, send_wr(1, SendOp::Send, payload(&from))));
    pair.a.send(to(SRQ, send_wr(2, SendOp::Write(at.remote(0)), payload(&from))));
    pair.a.send(to(SRQ, send_wr(3, SendOp::Read(at.remote(0)), payload(&from))));
    pair.a.send(to(SRQ, fetch_add(4, &result, &at, 1)));
    let mut requests = Vec::new();
    pair.pump_with(|side, packet| {
        if side == Side::A {
            requests.push((packet.opcode(), packet.xrceth()));
        }
        PacketFate::Pass
    });
    assert_eq!(pair.a.host.take_sent(), successes([1, 2, 3, 4]));
    use Opcode as O;
    let opcodes = [
        O::XRC_SEND_FIRST,
        O::XRC_SEND_LAST,
        O::XRC_WRITE_FIRST,
        O::XRC_WRITE_LAST,
        O::XRC_READ_REQUEST,
        O::XRC_FETCH_ADD,
    ];
    assert_eq!(requests, opcodes.map(|opcode| (opcode, Some(XrcEth { srq: SRQ }))));
    let answers = |opcode| pair.sent.contains(&(Side::B, opcode));
    for opcode in [O::XRC_READ_RESPONSE_FIRST, O::XRC_READ_RESPONSE_LAST, O::XRC_ATOMIC_ACKNOWLEDGE] {
        assert!(answers(opcode), "{opcode}: {:?}", pair.sent);
    }
}

#[test]
fn every_operation_works() {
    let mut pair = pair();
    let bytes = pattern(1000, 3);
    let from = pair.a.host.memory.filled(&bytes);
    let back = pair.a.host.memory.region(1000);
    let at = pair.b.host.memory.region(1000);
    let window = pair.b.host.memory.window();
    let notice = pair.b.host.memory.region(8);
    for wr_id in [10, 11] {
        post(&mut pair, SRQ, wr_id, &notice);
    }
    pair.a.send(to(SRQ, send_wr(1, SendOp::WriteImm(at.remote(0), 77), payload(&from))));
    pair.a.send(to(SRQ, send_wr(2, SendOp::Read(at.remote(0)), payload(&back))));
    pair.a.send(to(SRQ, send_wr(3, SendOp::SendInvalidate(window), Payload::empty())));
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([1, 2, 3]));
    assert_eq!(pair.a.host.memory.bytes(&back), bytes);
    let completions = completed(&mut pair, SRQ);
    assert_eq!(completions.iter().map(|c| c.op).collect::<Vec<_>>(), [CompletionOp::RecvWriteImm, CompletionOp::Recv]);
    assert_eq!((completions[0].imm, completions[1].invalidated), (Some(77), Some(window)));
}

#[test]
fn keys_count_in_the_domain_of_the_queue_that_is_named() {
    for (srq, status) in [(SRQ, Status::Success), (OTHER_SRQ, Status::RemoteAccess)] {
        let mut pair = pair();
        let from = pair.a.host.memory.filled(&pattern(300, 1));
        let at = pair.b.host.memory.region(300);
        pair.a.send(to(srq, send_wr(1, SendOp::Write(at.remote(0)), payload(&from))));
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), [(1, status)]);
    }
}

#[test]
fn an_unknown_queue_ends_the_connection() {
    for op in [SendOp::Send, SendOp::Write(crate::wr::RemoteAddr { addr: 0, rkey: wire::RKey(1) })] {
        let mut pair = pair();
        pair.a.send(to(NO_SRQ, send_wr(1, op, Payload::empty())));
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteInvalidRdRequest)]);
        assert_eq!(pair.a.qp.failure(), Some(Reason::PeerRefused(NakCode::InvalidRdRequest)));
        assert_eq!(pair.dropped, [(Side::B, DropReason::XrcSrq)]);
        assert_eq!(pair.b.qp.state(), QpState::Error);
        assert_eq!(pair.b.qp.counters().tx_error_naks, 1);
        assert_eq!(pair.b.host.events, [QpEvent::LastWqeReached, QpEvent::RequestError]);
    }
}

#[test]
fn an_empty_queue_makes_the_initiator_wait() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&pattern(300, 1));
    let at = pair.b.host.memory.region(300);
    pair.a.send(to(SRQ, send_wr(1, SendOp::Send, payload(&from))));
    pair.pump();
    assert_eq!(pair.b.qp.counters().tx_rnr_naks, 1);
    assert!(pair.a.host.sent.is_empty());
    post(&mut pair, SRQ, 10, &at);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(completed(&mut pair, SRQ).len(), 1);
}

#[test]
fn a_queue_that_is_never_filled_is_given_up() {
    let mut pair = pair();
    pair.a.send(to(SRQ, send_wr(1, SendOp::Send, Payload::empty())));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RnrRetryExceeded)]);
}

#[test]
fn a_queue_that_goes_away_in_the_middle_of_a_message_ends_the_connection() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&pattern(700, 1));
    let at = pair.b.host.memory.region(700);
    post(&mut pair, SRQ, 10, &at);
    pair.a.send(to(SRQ, send_wr(1, SendOp::Send, payload(&from))));
    let (first, transmit) = pair.a.poll(pair.now).expect("a packet");
    pair.deliver(Side::A, &first, &transmit);
    pair.b.host.xrc.remove(&SRQ);
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::RemoteInvalidRdRequest)]);
    assert_eq!(pair.b.qp.state(), QpState::Error);
}

#[test]
fn a_message_stays_with_its_queue() {
    let mut pair = pair();
    let at = pair.b.host.memory.region(700);
    post(&mut pair, SRQ, 10, &at);
    let psn = pair.b.qp.query().rq_psn;
    let xrc = |srq| Extensions { xrceth: Some(XrcEth { srq }), ..Extensions::default() };
    let first = Bth { opcode: Opcode::XRC_SEND_FIRST, psn, pkey: wire::PKey::DEFAULT, ..Bth::default() };
    pair.inject(Side::B, first, xrc(SRQ), &[1; 256]).expect("taken");
    let last = Bth { opcode: Opcode::XRC_SEND_LAST, psn: psn.next(), pkey: wire::PKey::DEFAULT, ..Bth::default() };
    assert_eq!(pair.inject(Side::B, last, xrc(OTHER_SRQ), &[2; 8]), Err(DropReason::Refused));
    let [completion] = completed(&mut pair, SRQ)[..] else { panic!("one completion") };
    assert_eq!((completion.wr_id, completion.status), (10, Status::RemoteInvalidRequest));
}

#[test]
fn each_end_has_its_role_and_its_service() {
    let mut pair = pair();
    let psn = pair.a.qp.query().rq_psn;
    let none = Extensions::default();
    let with_srq = Extensions { xrceth: Some(XrcEth { srq: SRQ }), ..none };
    for (side, opcode, extensions) in [
        (Side::A, Opcode::XRC_SEND_ONLY, with_srq),
        (Side::A, Opcode::RC_SEND_ONLY, none),
        (Side::B, Opcode::RC_SEND_ONLY, none),
        (Side::B, Opcode::UC_SEND_ONLY, none),
    ] {
        let bth = Bth { opcode, psn, pkey: wire::PKey::DEFAULT, ..Bth::default() };
        assert_eq!(pair.inject(side, bth, extensions, &[]), Err(DropReason::WrongService), "{side:?} {opcode}");
    }
}

#[test]
fn losses_are_repaired_and_nothing_is_done_twice() {
    let mut pair = pair_of(&Setup { retry_count: 7, rnr_retry: 7, ..Setup::new(QpType::XrcSend) });
    let bytes = pattern(5000, 1);
    let from = pair.a.host.memory.filled(&bytes);
    let counter = pair.b.host.memory.region(8);
    let result = pair.a.host.memory.region(8);
    let back = pair.a.host.memory.region(5000);
    let at: Vec<_> = (0..4).map(|_| pair.b.host.memory.region(5000)).collect();
    for (index, buffer) in at.iter().enumerate() {
        post(&mut pair, SRQ, index as u64, buffer);
        let wr_id = index as u64 * 3;
        pair.a.send(to(SRQ, send_wr(wr_id, SendOp::Send, payload(&from))));
        pair.a.send(to(SRQ, fetch_add(wr_id + 1, &result, &counter, 1)));
        pair.a.send(to(SRQ, send_wr(wr_id + 2, SendOp::Read(buffer.remote(0)), payload(&back))));
    }
    let mut count = 0;
    pair.run_with(|_, _| {
        count += 1;
        match count % 7 {
            3 => PacketFate::Drop,
            5 => PacketFate::Duplicate,
            6 => PacketFate::Late,
            _ => PacketFate::Pass,
        }
    });
    assert_eq!(pair.a.host.take_sent(), successes(0..12));
    assert_eq!(completed(&mut pair, SRQ).iter().map(|c| c.wr_id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(at.iter().all(|buffer| pair.b.host.memory.bytes(buffer) == bytes));
    assert_eq!(pair.a.host.memory.bytes(&back), bytes);
    assert_eq!(word(&pair.b.host.memory.bytes(&counter)), 4);
}
