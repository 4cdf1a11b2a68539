//! The connection manager's MADs in the golden captures: each decodes, encodes to the same 256
//! bytes, and its packet equals the one that this crate would build.

mod support;

use std::collections::BTreeMap;

use longarm_wire::frame;
use longarm_wire::mad::{self, Attribute, CmMessage, Transport};
use longarm_wire::{Gid, ICRC_LEN, Packet, Psn, Qpn, ROCE_PORT};
use proptest::collection::vec;
use proptest::prelude::*;

/// Every packet to QP1: capture, BTH to pad.
fn each_mad_packet(mut check: impl FnMut(&str, &[u8])) {
    for (name, pcap) in support::golden_captures() {
        for bytes in support::frames(&pcap) {
            let Some(frame) = frame::decode(bytes) else { continue };
            // The captures also hold other UDP packets of the machines, and their ARP.
            if frame.payload.len() < ICRC_LEN || !is_roce(bytes) {
                continue;
            }
            let (ib, _) = frame.payload.split_at(frame.payload.len() - ICRC_LEN);
            if Packet::parse(ib).is_ok_and(|packet| packet.dest_qpn() == Qpn::GSI) {
                check(&name, ib);
            }
        }
    }
}

fn is_roce(bytes: &[u8]) -> bool {
    let udp = if bytes[12..14] == [0x86, 0xdd] { 54 } else { 34 };
    bytes[udp + 2..udp + 4] == ROCE_PORT.to_be_bytes()
}

#[test]
fn every_mad_encodes_to_the_same_bytes() {
    let mut seen: BTreeMap<Attribute, usize> = BTreeMap::new();
    each_mad_packet(|name, ib| {
        let packet = mad::packet::parse(ib).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (header, message) = mad::decode(packet.mad).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&mad::encode(&header, &message), packet.mad, "{name}: {:?}", message.attribute());
        *seen.entry(message.attribute()).or_default() += 1;
    });
    let expected = [
        (Attribute::REQ, 6),
        (Attribute::REP, 6),
        (Attribute::RTU, 6),
        (Attribute::DREQ, 6),
        (Attribute::DREP, 6),
        (Attribute::SIDR_REQ, 1),
        (Attribute::SIDR_REP, 1),
    ];
    assert_eq!(seen, BTreeMap::from(expected));
}

#[test]
fn every_packet_is_the_one_that_we_would_send() {
    let mut checked = 0;
    each_mad_packet(|name, ib| {
        let packet = mad::packet::parse(ib).unwrap_or_else(|error| panic!("{name}: {error}"));
        let ours = mad::packet::encode(packet.psn, packet.mad);
        assert_eq!(&ours[..ours.len() - ICRC_LEN], ib, "{name}");
        checked += 1;
    });
    assert_eq!(checked, 32);
}

/// The fields of the REQ in `rping`, as another decoder shows them.
#[test]
fn the_request_of_rping() {
    let mut found = None;
    each_mad_packet(|name, ib| {
        let packet = mad::packet::parse(ib).expect("a MAD");
        if let (header, CmMessage::Req(req)) = mad::decode(packet.mad).expect("a message")
            && name == "rping"
        {
            found = Some((header, req, packet.psn));
        }
    });
    let (header, req, psn) = found.expect("a REQ");
    assert_eq!((header.transaction_id, header.modifier, psn), (0x2_7574_eb66, 0, Psn::new(6)));
    assert_eq!((req.local_id, req.vendor_id, req.service_id), (0x66eb_7475, 0, 0x0106_1c06));
    assert_eq!((req.ca_guid, req.qpn, req.starting_psn), (0x0077_00ff_fe00_000c, Qpn::new(0x23), Psn::new(0xc4_9a2b)));
    assert_eq!((req.responder_resources, req.initiator_depth), (1, 1));
    assert_eq!((req.remote_response_timeout, req.local_response_timeout, req.max_cm_retries), (20, 20, 15));
    assert_eq!((req.transport, req.flow_control, req.srq), (Transport::RC, false, false));
    assert_eq!((req.retry_count, req.rnr_retry_count, req.mtu, req.pkey.0), (7, 7, 3, 0xffff));
    assert_eq!((req.primary.local_lid, req.primary.remote_lid), (0xffff, 0xffff));
    assert_eq!(req.primary.local_gid.ip(), std::net::IpAddr::from([10, 77, 0, 12]));
    assert_eq!(req.primary.remote_gid.ip(), std::net::IpAddr::from([10, 77, 0, 11]));
    assert_eq!((req.primary.flow_label, req.primary.packet_rate), (0x1dafa, 0));
    assert_eq!((req.primary.hop_limit, req.primary.service_level, req.primary.local_ack_timeout), (64, 0, 19));
    assert_eq!(req.alternate.local_gid, Gid::default());
    assert_eq!(req.private_data[..4], [0, 0x40, 0x92, 0x8c]);
}

/// REQ and REP carry the first PSN that their receiver shall send.
#[test]
fn the_starting_psn_is_what_the_sender_receives_first() {
    let (_, pcap) = support::golden_captures().into_iter().find(|(name, _)| name == "rping").expect("a capture");
    let mut announced = BTreeMap::new();
    let mut first = BTreeMap::new();
    for frame in support::frames(&pcap).into_iter().filter_map(frame::decode) {
        let (ib, _) = frame.payload.split_at(frame.payload.len() - ICRC_LEN);
        let packet = Packet::parse(ib).expect("a packet");
        match mad::packet::parse(ib).ok().map(|packet| mad::decode(packet.mad).expect("a message").1) {
            Some(CmMessage::Req(req)) => drop(announced.insert(frame.flow.source, req.starting_psn)),
            Some(CmMessage::Rep(rep)) => drop(announced.insert(frame.flow.source, rep.starting_psn)),
            None if packet.info().is_request() => {
                first.entry(frame.flow.destination).or_insert_with(|| packet.psn());
            }
            _ => {}
        }
    }
    assert_eq!((announced.len(), announced), (2, first));
}

/// Bytes that mostly form a message, so that they pass the first check.
fn almost_mads() -> impl Strategy<Value = [u8; mad::MAD_LEN]> {
    let attributes = prop_oneof![9 => Attribute::REQ.0..=Attribute::APR.0, 1 => any::<u16>()];
    let first = prop_oneof![9 => Just([1, 7, 2, 3]), 1 => any::<[u8; 4]>()];
    (vec(any::<u8>(), mad::MAD_LEN), first, attributes).prop_map(|(bytes, first, attribute)| {
        let mut mad: [u8; mad::MAD_LEN] = bytes.try_into().expect("its length");
        mad[..4].copy_from_slice(&first);
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        mad
    })
}

proptest! {
    #[test]
    fn no_mad_panics_and_what_decodes_survives(bytes in almost_mads()) {
        if let Ok((header, message)) = mad::decode(&bytes) {
            let encoded = mad::encode(&header, &message);
            prop_assert_eq!(mad::decode(&encoded), Ok((header, message)));
            prop_assert_eq!(mad::attribute(&encoded), Ok(message.attribute()));
            let _ = message.receiver_id();
        }
    }

    #[test]
    fn no_packet_panics(bytes in vec(any::<u8>(), 0..400), mad in almost_mads(), psn in 0u32..1 << 24) {
        let _ = mad::packet::parse(&bytes);
        let packet = mad::packet::encode(Psn::new(psn), &mad);
        let parsed = mad::packet::parse(&packet[..packet.len() - ICRC_LEN]).expect("our own packet");
        prop_assert_eq!((parsed.psn, parsed.mad), (Psn::new(psn), &mad));
    }
}
