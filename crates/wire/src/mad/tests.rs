//! Offsets of fields, and bytes that are refused.

#![allow(clippy::unusual_byte_groupings)] // the groups are fields

use super::*;
use crate::Opcode;
use crate::header::Bth;
use crate::id::{PKey, Psn, QKey, Qpn};
use packet::MadPacketError;

/// A MAD of one message; every byte after the header differs from the bytes beside it.
fn patterned(attribute: Attribute) -> [u8; MAD_LEN] {
    let mut mad = [0; MAD_LEN];
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    mad[16..18].copy_from_slice(&attribute.0.to_be_bytes());
    for (at, byte) in mad.iter_mut().enumerate().skip(HEADER_LEN) {
        *byte = (at - HEADER_LEN) as u8;
    }
    mad
}

fn decoded(attribute: Attribute) -> CmMessage {
    decode(&patterned(attribute)).expect("a message").1
}

#[test]
fn all_messages_end_where_a_mad_ends() {
    assert_eq!(
        [
            Req::PRIVATE_LEN,
            Mra::PRIVATE_LEN,
            Rej::PRIVATE_LEN,
            Rep::PRIVATE_LEN,
            Rtu::PRIVATE_LEN,
            Dreq::PRIVATE_LEN,
            Drep::PRIVATE_LEN,
            SidrReq::PRIVATE_LEN,
            SidrRep::PRIVATE_LEN,
            Lap::PRIVATE_LEN,
            Apr::PRIVATE_LEN,
        ],
        [92, 222, 148, 196, 224, 220, 224, 216, 136, 168, 148],
    );
}

#[test]
fn private_data_is_the_rest_of_the_message() {
    for number in Attribute::REQ.0..=Attribute::APR.0 {
        let message = decoded(Attribute(number));
        let last = match message {
            CmMessage::Req(m) => (m.private_data[0], m.private_data[91]),
            CmMessage::Mra(m) => (m.private_data[0], m.private_data[221]),
            CmMessage::Rej(m) => (m.private_data[0], m.private_data[147]),
            CmMessage::Rep(m) => (m.private_data[0], m.private_data[195]),
            CmMessage::Rtu(m) => (m.private_data[0], m.private_data[223]),
            CmMessage::Dreq(m) => (m.private_data[0], m.private_data[219]),
            CmMessage::Drep(m) => (m.private_data[0], m.private_data[223]),
            CmMessage::SidrReq(m) => (m.private_data[0], m.private_data[215]),
            CmMessage::SidrRep(m) => (m.private_data[0], m.private_data[135]),
            CmMessage::Lap(m) => (m.private_data[0], m.private_data[167]),
            CmMessage::Apr(m) => (m.private_data[0], m.private_data[147]),
        };
        let first = [140, 10, 84, 36, 8, 12, 8, 16, 96, 64, 84][usize::from(number - Attribute::REQ.0)];
        assert_eq!(last, (first, 231), "{number:#x}");
        assert_eq!(message.attribute().0, number);
    }
}

#[test]
fn fields_of_messages_that_no_capture_holds() {
    let CmMessage::Rej(rej) = decoded(Attribute::REJ) else { panic!("a REJ") };
    assert_eq!((rej.local_id, rej.remote_id), (0x0001_0203, 0x0405_0607));
    assert_eq!((rej.rejected, rej.info_len, rej.reason), (Rejected(0), 4, 0x0a0b));
    assert_eq!((rej.info[0], rej.info[71]), (12, 83));

    let CmMessage::Lap(lap) = decoded(Attribute::LAP) else { panic!("a LAP") };
    assert_eq!((lap.remote_qpn, lap.remote_response_timeout), (Qpn::new(0x0c_0d0e), 1));
    assert_eq!((lap.local_lid, lap.remote_lid, lap.flow_label), (0x1415, 0x1617, 0x3_839_3));
    assert_eq!((lap.traffic_class, lap.hop_limit, lap.packet_rate), (59, 60, 61));
    assert_eq!((lap.service_level, lap.subnet_local, lap.local_ack_timeout), (3, true, 7));

    let CmMessage::Mra(mra) = decoded(Attribute::MRA) else { panic!("an MRA") };
    assert_eq!((mra.about, mra.service_timeout), (About(0), 1));
}

#[test]
fn small_fields_have_their_bits() {
    let mut mad = patterned(Attribute::MRA);
    mad[HEADER_LEN + 8..HEADER_LEN + 10].copy_from_slice(&[0x40, 0xa8]);
    let Ok((_, CmMessage::Mra(mra))) = decode(&mad) else { panic!("an MRA") };
    assert_eq!((mra.about, mra.service_timeout), (About::REP, 21));

    let mut mad = patterned(Attribute::REJ);
    mad[HEADER_LEN + 8..HEADER_LEN + 10].copy_from_slice(&[0x80, 0x91]);
    let Ok((_, CmMessage::Rej(rej))) = decode(&mad) else { panic!("a REJ") };
    assert_eq!((rej.rejected, rej.info_len), (Rejected::OTHER, 72));
    assert_eq!(Rej { info_len: 127, ..rej }.info().len(), 72, "never more than there are");

    let mut mad = patterned(Attribute::REQ);
    mad[HEADER_LEN + 43] = 0b10100_11_1;
    mad[HEADER_LEN + 47] = 0b10011_101;
    mad[HEADER_LEN + 50] = 0b0011_1_110;
    mad[HEADER_LEN + 51] = 0b1111_1_001;
    let Ok((_, CmMessage::Req(req))) = decode(&mad) else { panic!("a REQ") };
    assert_eq!((req.remote_response_timeout, req.transport, req.flow_control), (20, Transport::XRC, true));
    assert_eq!((req.local_response_timeout, req.retry_count), (19, 5));
    assert_eq!((req.mtu, req.rdc_exists, req.rnr_retry_count), (3, true, 6));
    assert_eq!((req.max_cm_retries, req.srq), (15, true));

    let mut mad = patterned(Attribute::REP);
    mad[HEADER_LEN + 26] = 0b01111_10_1;
    mad[HEADER_LEN + 27] = 0b111_1_0000;
    let Ok((_, CmMessage::Rep(rep))) = decode(&mad) else { panic!("a REP") };
    assert_eq!((rep.target_ack_delay, rep.failover_accepted, rep.flow_control), (15, 2, true));
    assert_eq!((rep.rnr_retry_count, rep.srq, rep.vendor_id), (7, true, 0x0f_1317));
}

#[test]
fn other_classes_and_methods_are_refused() {
    let good = patterned(Attribute::RTU);
    assert!(decode(&good).is_ok());
    for (at, value, error) in [
        (0, 2, MadError::Class { base_version: 2, class: 7, class_version: 2 }),
        (1, 3, MadError::Class { base_version: 1, class: 3, class_version: 2 }),
        (2, 1, MadError::Class { base_version: 1, class: 7, class_version: 1 }),
        (3, 0x81, MadError::Method(0x81)),
        (17, 0x1b, MadError::Attribute(0x1b)),
        (17, 0x0f, MadError::Attribute(0x0f)),
    ] {
        let mut mad = good;
        mad[at] = value;
        assert_eq!(decode(&mad), Err(error));
    }
}

#[test]
fn only_requests_have_no_receiver_id() {
    for (attribute, id) in [
        (Attribute::REQ, None),
        (Attribute::SIDR_REQ, None),
        (Attribute::SIDR_REP, Some(0x0001_0203)),
        (Attribute::REJ, Some(0x0405_0607)),
        (Attribute::DREP, Some(0x0405_0607)),
    ] {
        assert_eq!(decoded(attribute).receiver_id(), id);
    }
}

#[test]
fn packets_around_mads() {
    let mad = patterned(Attribute::DREQ);
    let bytes = packet::encode(Psn::new(9), &mad);
    let (ib, icrc) = bytes.split_at(packet::PACKET_LEN - crate::ICRC_LEN);
    assert_eq!(icrc, [0; 4]);
    let parsed = packet::parse(ib).expect("our own packet");
    assert_eq!((parsed.psn, parsed.src_qpn, parsed.mad), (Psn::new(9), Qpn::GSI, &mad));

    let broken = |at: usize, value: u8| {
        let mut ib = ib.to_vec();
        ib[at] = value;
        packet::parse(&ib).map(|packet| packet.psn)
    };
    assert_eq!(broken(0, Opcode::RC_SEND_ONLY.0), Err(MadPacketError::Opcode(Opcode::RC_SEND_ONLY)));
    assert_eq!(broken(0, Opcode::UD_SEND_ONLY_IMM.0), Err(MadPacketError::Opcode(Opcode::UD_SEND_ONLY_IMM)));
    assert_eq!(broken(7, 2), Err(MadPacketError::QueuePair(Qpn::new(2))));
    assert_eq!(broken(2, 0), Err(MadPacketError::Partition(0x00ff)));
    assert_eq!(broken(2, 0x7f), Ok(Psn::new(9)), "a limited member of the partition is one");
    assert_eq!(broken(Bth::LEN, 0), Err(MadPacketError::QKey(QKey(0x0001_0000).0)));
    assert_eq!(packet::parse(&ib[..ib.len() - 4]), Err(MadPacketError::Length(252)));
    assert!(matches!(packet::parse(&[]), Err(MadPacketError::Packet(_))));
    assert_eq!(Bth::decode(ib.first_chunk().expect("a header")).pkey, PKey(0xffff));
}
