//! Datagrams that leave, and the state of the sender after a failure.

use wire::{Bth, Deth, Gid, Opcode, PKey, Packet, QKey, Qpn};

use super::*;
use crate::attr::{AttrMask, QpAttr, QpState};
use crate::host::QpEvent;
use crate::testing::{QKEY, recv_wr};
use crate::time::Time;
use crate::wr::{AddressVector, SendFlags};

#[test]
fn a_datagram_says_who_sends_and_goes_where_the_request_says() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(b"datagram");
    let group = Gid::from(core::net::IpAddr::from([239, 1, 2, 3]));
    let address = AddressVector { traffic_class: 0x68, hop_limit: 3, ..AddressVector::new(pair.a.gid, group) };
    let mut wr = to_b(&pair, 1, SendOp::SendImm(0xabcd), payload(&from));
    wr.flags |= SendFlags::SOLICITED;
    wr.datagram = Some(datagram(address, Qpn::MULTICAST));
    pair.a.send(wr);
    let (bytes, transmit) = pair.a.poll(Time(0)).expect("a packet");
    assert_eq!(transmit.address, address);
    assert_eq!(transmit.source_port, wire::source_port_ud(pair.a.qp.qpn()));
    let packet = Packet::parse(&bytes).expect("well-formed");
    let expected = Bth {
        opcode: Opcode::UD_SEND_ONLY_IMM,
        solicited: true,
        pkey: PKey::DEFAULT,
        dest_qpn: Qpn::MULTICAST,
        psn: setup().first_psn,
        ..Bth::default()
    };
    assert_eq!(packet.bth(), expected);
    assert_eq!(packet.deth(), Some(Deth { qkey: QKEY, src_qpn: pair.a.qp.qpn() }));
    assert_eq!((packet.imm(), packet.payload()), (Some(0xabcd), &b"datagram"[..]));
    assert_eq!(pair.a.host.take_sent(), successes([1]), "done as it leaves");
    assert!(pair.a.poll(Time(0)).is_none());
}

#[test]
fn a_flow_label_chooses_the_source_port() {
    let mut pair = pair();
    let mut wr = to_b(&pair, 1, SendOp::Send, Payload::empty());
    let datagram = wr.datagram.as_mut().expect("an address");
    datagram.address.flow_label = 0x5_4321;
    let remote_qpn = datagram.remote_qpn;
    pair.a.send(wr);
    let (_, transmit) = pair.a.poll(Time(0)).expect("a packet");
    assert_eq!(transmit.source_port, wire::source_port(0x5_4321, pair.a.qp.qpn(), remote_qpn));
}

#[test]
fn the_high_bit_of_a_queue_key_asks_for_our_own() {
    for (wanted, sent) in [(7, 7), (0x7fff_ffff, 0x7fff_ffff), (0x8000_0000, QKEY.0), (0xffff_ffff, QKEY.0)] {
        let mut pair = pair();
        let mut wr = to_b(&pair, 1, SendOp::Send, Payload::empty());
        wr.datagram.as_mut().expect("an address").remote_qkey = QKey(wanted);
        pair.a.send(wr);
        let (bytes, _) = pair.a.poll(Time(0)).expect("a packet");
        let packet = Packet::parse(&bytes).expect("well-formed");
        assert_eq!(packet.deth().expect("DETH").qkey, QKey(sent), "{wanted:#x}");
    }
}

#[test]
fn a_failed_send_stops_the_send_queue_only() {
    let mut pair = pair();
    let (good, gone) = (pair.a.host.memory.filled(&pattern(600, 1)), pair.a.host.memory.region(8));
    pair.a.host.memory.kill(&gone);
    let flushed = Status::WorkRequestFlushed;
    for (wr_id, buffer) in [(1, &good), (2, &gone), (3, &good)] {
        pair.a.send(to_b(&pair, wr_id, SendOp::Send, payload(buffer)));
    }
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), [(1, Status::Success), (2, Status::LocalProtection), (3, flushed)]);
    assert_eq!(pair.a.qp.state(), QpState::Sqe);
    pair.a.send(to_b(&pair, 4, SendOp::Send, payload(&good)));
    assert_eq!(pair.a.host.take_sent(), [(4, flushed)]);

    let to = pair.a.host.memory.region(GRH);
    pair.a.recv(recv_wr(9, to.sgl()));
    let back = SendWr {
        datagram: Some(datagram(pair.b.path_to(&pair.a), pair.a.qp.qpn())),
        ..send_wr(1, SendOp::Send, Payload::empty())
    };
    pair.b.send(back);
    pair.pump();
    assert_eq!(pair.a.host.take_received(), successes([9]), "receiving goes on");

    pair.a.go(QpState::Rts);
    pair.a.send(to_b(&pair, 5, SendOp::Send, payload(&good)));
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([5]));
}

#[test]
fn sqd_holds_back_and_is_drained_at_once() {
    for notify_drained in [true, false] {
        let mut pair = pair();
        pair.a.send(to_b(&pair, 1, SendOp::Send, Payload::empty()));
        let attr = QpAttr { state: QpState::Sqd, notify_drained, ..QpAttr::default() };
        pair.a.modify(&attr, AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY);
        assert_eq!(pair.a.host.events.contains(&QpEvent::SendQueueDrained), notify_drained);
        assert!(!pair.a.qp.wants_transmit() && !pair.a.qp.query().draining);
        pair.pump();
        assert!(pair.a.host.sent.is_empty());
        pair.a.go(QpState::Rts);
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([1]));
    }
}

#[test]
fn psns_count_datagrams() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&pattern(4096, 1));
    for wr_id in 0..5 {
        pair.a.send(to_b(&pair, wr_id, SendOp::Send, payload(&from)));
    }
    assert_eq!(pair.a.qp.query().sq_psn, setup().first_psn);
    pair.pump();
    assert_eq!(pair.sent.len(), 5, "one packet each, whatever path_mtu says");
    assert_eq!(pair.a.qp.query().sq_psn, setup().first_psn.add(5));
    assert_eq!(pair.a.qp.counters().tx_bytes, 5 * 4096);
}
