//! Datagrams that arrive, and those that are dropped.

use wire::{Bth, Deth, Extensions, Gid, Grh, ImmDt, Opcode, PKey, QKey, Qpn};

use super::*;
use crate::attr::QpState;
use crate::completion::CompletionOp;
use crate::drop::DropReason;
use crate::host::QpEvent;
use crate::reason::Reason;
use crate::testing::{QKEY, Side, recv_wr};
use crate::time::Time;

const SIZES: [usize; 7] = [0, 1, 255, 256, 1000, 4095, 4096];

/// A datagram made by hand arrives at B.
fn inject(pair: &mut Pair, opcode: Opcode, deth: Deth, len: usize) -> Result<(), DropReason> {
    let bth = Bth { opcode, pkey: PKey::DEFAULT, ..Bth::default() };
    let extensions = Extensions { deth: Some(deth), ..Extensions::default() };
    pair.inject(Side::B, bth, extensions, &pattern(len, 5))
}

fn deth() -> Deth {
    Deth { qkey: QKEY, src_qpn: Qpn::new(0x77) }
}

#[test]
fn datagrams_of_every_size_arrive_behind_a_grh() {
    for len in SIZES {
        for imm in [None, Some(0x0102_0304)] {
            let mut pair = pair();
            let data = pattern(len, 1);
            let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(GRH + len));
            pair.b.recv(recv_wr(9, [to.sge(0, 17), to.sge(17, to.len_bytes - 17)].into_iter().collect()));
            pair.a.send(to_b(&pair, 1, imm.map_or(SendOp::Send, SendOp::SendImm), payload(&from)));
            pair.pump();
            let [received] = pair.b.host.received[..] else { panic!("one completion: {len} bytes") };
            assert_eq!((received.wr_id, received.status, received.op), (9, Status::Success, CompletionOp::Recv));
            assert_eq!((received.byte_len, received.imm), ((GRH + len) as u32, imm));
            assert_eq!((received.src_qpn, received.grh, received.ipv4), (pair.a.qp.qpn(), true, true));
            let bytes = pair.b.host.memory.bytes(&to);
            assert_eq!(bytes[GRH..], data);
            assert_eq!(bytes[..20], [0; 20], "IPv4: the first half is not used");
            let grh = Grh::decode(bytes.first_chunk().expect("40 bytes")).expect("an IP header");
            assert_eq!((grh.source, grh.destination, grh.hop_limit), (pair.a.gid, pair.b.gid, 64));
        }
    }
}

#[test]
fn the_grh_of_ipv6_fills_forty_bytes() {
    let mut pair = pair();
    let gid = |text: &str| Gid::from(text.parse::<core::net::IpAddr>().expect("an address"));
    (pair.a.gid, pair.b.gid) = (gid("fd00::a"), gid("fd00::b"));
    let to = pair.b.host.memory.region(100);
    pair.b.recv(recv_wr(1, to.sgl()));
    inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 12).expect("a good datagram");
    assert!(matches!(pair.b.host.received[..], [received] if received.grh && !received.ipv4));
    let bytes = pair.b.host.memory.bytes(&to);
    assert_eq!(bytes[0] >> 4, 6);
    let grh = Grh::decode(bytes.first_chunk().expect("40 bytes")).expect("an IP header");
    assert_eq!((grh.source, grh.destination), (pair.a.gid, pair.b.gid));
    assert_eq!(grh.payload_len_bytes, 8 + 12 + 8 + 12 + 4, "UDP, BTH, DETH, payload, ICRC");
}

#[test]
fn datagrams_come_from_anybody_who_knows_the_key() {
    let mut pair = pair();
    let to = pair.b.host.memory.region(GRH);
    for number in 1..=3u8 {
        pair.b.recv(recv_wr(number.into(), to.sgl()));
        pair.a.gid = Gid::from(core::net::IpAddr::from([10, 9, 9, number]));
        let from = Deth { src_qpn: Qpn::new(number.into()), ..deth() };
        inject(&mut pair, Opcode::UD_SEND_ONLY, from, 0).expect("a good datagram");
    }
    let sources: Vec<_> = pair.b.host.received.iter().map(|c| c.src_qpn.get()).collect();
    assert_eq!(sources, [1, 2, 3]);
}

#[test]
fn a_wrong_queue_key_is_dropped() {
    let mut pair = pair();
    let to = pair.b.host.memory.region(100);
    pair.b.recv(recv_wr(1, to.sgl()));
    for wrong in [0, QKEY.0 ^ 1, QKEY.0 | 1 << 31, u32::MAX] {
        let deth = Deth { qkey: QKey(wrong), ..deth() };
        assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth, 8), Err(DropReason::QKey), "{wrong:#x}");
    }
    assert_eq!(pair.b.host.memory.bytes(&to), [0; 100]);
    assert!(pair.b.host.received.is_empty());
}

#[test]
fn other_services_are_dropped() {
    let mut pair = pair();
    for opcode in [Opcode::RC_SEND_ONLY, Opcode::UC_SEND_ONLY] {
        let bth = Bth { opcode, pkey: PKey::DEFAULT, ..Bth::default() };
        assert_eq!(pair.inject(Side::B, bth, Extensions::default(), &[]), Err(DropReason::WrongService));
    }
}

#[test]
fn what_does_not_fit_is_dropped_and_the_wqe_serves_the_next() {
    let mut pair = pair();
    let to = pair.b.host.memory.region(GRH + 100);
    pair.b.recv(recv_wr(1, to.sgl()));
    pair.b.recv(recv_wr(2, to.sgl()));
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 101), Err(DropReason::UdLength));
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 4097), Err(DropReason::UdLength));
    assert_eq!(pair.b.host.memory.bytes(&to), [0; GRH + 100]);
    for _ in 0..2 {
        inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 100).expect("it fits");
    }
    assert_eq!(pair.b.host.take_received(), successes([1, 2]));
    assert_eq!(pair.b.qp.counters().messages_dropped, 2);
    assert_eq!(pair.b.qp.counters().rx_packets, 2);
}

#[test]
fn a_buffer_without_room_for_the_grh_takes_nothing() {
    let mut pair = pair();
    let to = pair.b.host.memory.region(GRH - 1);
    pair.b.recv(recv_wr(1, to.sgl()));
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 0), Err(DropReason::UdLength));
    pair.b.go(QpState::Error);
    assert_eq!(pair.b.host.take_received(), [(1, Status::WorkRequestFlushed)], "the WQE that was held");
}

#[test]
fn without_a_receive_wqe_datagrams_are_lost() {
    let mut pair = pair();
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 0), Err(DropReason::NoRecvWqe));
    let to = pair.b.host.memory.region(GRH);
    pair.b.recv(recv_wr(1, to.sgl()));
    pair.b.host.refuse_recv = 1;
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 0), Err(DropReason::NoRecvWqe), "injected");
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 0), Ok(()));
    assert_eq!(pair.b.qp.counters().messages_dropped, 2);
}

#[test]
fn a_shared_receive_queue_serves_and_gets_back_nothing() {
    let mut pair = Pair::connected(&Setup { shared_recv: true, ..setup() });
    let to = pair.b.host.memory.region(GRH + 8);
    for wr_id in 1..=3 {
        pair.b.host.shared.push_back(recv_wr(wr_id, to.sgl()));
    }
    inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 8).expect("it fits");
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 9), Err(DropReason::UdLength));
    pair.b.go(QpState::Error);
    assert_eq!(pair.b.host.take_received(), [(1, Status::Success), (2, Status::WorkRequestFlushed)]);
    assert_eq!(pair.b.host.events, [QpEvent::LastWqeReached]);
    assert_eq!(pair.b.host.shared.len(), 1);
}

#[test]
fn a_receive_buffer_that_is_gone_fails_the_queue_pair() {
    let mut pair = pair();
    let gone = pair.b.host.memory.region(100);
    pair.b.recv(recv_wr(1, gone.sgl()));
    pair.b.recv(recv_wr(2, gone.sgl()));
    pair.b.host.memory.kill(&gone);
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 8), Err(DropReason::LocalMemory));
    assert_eq!(pair.b.qp.state(), QpState::Error);
    assert!(matches!(pair.b.qp.failure(), Some(Reason::LocalMemory(_))));
    let expected = [(1, Status::LocalProtection), (2, Status::WorkRequestFlushed)];
    assert_eq!(pair.b.host.take_received(), expected);
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 8), Err(DropReason::QpState));
}

#[test]
fn solicited_reaches_the_receiver() {
    for solicited in [true, false] {
        let mut pair = pair();
        let to = pair.b.host.memory.region(GRH);
        pair.b.recv(recv_wr(1, to.sgl()));
        let bth = Bth { opcode: Opcode::UD_SEND_ONLY_IMM, pkey: PKey::DEFAULT, solicited, ..Bth::default() };
        let extensions = Extensions { deth: Some(deth()), imm: Some(ImmDt(1)), ..Extensions::default() };
        pair.inject(Side::B, bth, extensions, &[]).expect("a good datagram");
        assert_eq!(pair.b.host.received[0].solicited, solicited);
    }
}

#[test]
fn datagrams_are_received_from_rtr_on() {
    let mut init = crate::testing::Node::new(&setup(), 2);
    init.enter_init(&setup());
    let mut pair = Pair::ready_to_receive(&setup());
    let to = pair.b.host.memory.region(GRH);
    pair.b.recv(recv_wr(1, to.sgl()));
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 0), Ok(()));
    assert_eq!(pair.b.host.take_received(), successes([1]));
    assert!(pair.b.poll(Time(0)).is_none(), "nothing is answered");
    pair.b = init;
    assert_eq!(inject(&mut pair, Opcode::UD_SEND_ONLY, deth(), 0), Err(DropReason::QpState));
}
