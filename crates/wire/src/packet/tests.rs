//! Bytes that parse, and bytes that `Packet::parse` refuses.

use super::*;
use crate::header::{Cnp, Cookie, FlushLevel, FlushPlacement, ObjectEth, Piggyback, ReplyEth, Sack};
use crate::id::{PKey, QKey};
use crate::syndrome::Syndrome;

/// Every header, each with different contents.
fn all_headers() -> Extensions {
    Extensions {
        deth: Some(Deth { qkey: QKey(0x1111_1111), src_qpn: Qpn::new(0x12_1212) }),
        xrceth: Some(XrcEth { srq: 0x13_1313 }),
        feth: Some(Feth { placement: FlushPlacement::GLOBAL, level: FlushLevel::MR }),
        reth: Some(Reth { addr: 0x1414_1414_1414_1414, rkey: RKey(0x1515_1515), len_bytes: 0x1616_1616 }),
        atomic_eth: Some(AtomicEth {
            addr: 0x1717_1717_1717_1717,
            rkey: RKey(0x1818_1818),
            swap_or_add: 0x1919_1919_1919_1919,
            compare: 0x2020_2020_2020_2020,
        }),
        aeth: Some(Aeth { syndrome: Syndrome(0x1f), msn: 0x21_2121 }),
        atomic_ack: Some(AtomicAckEth { original: 0x2222_2222_2222_2222 }),
        imm: Some(ImmDt(0x2323_2323)),
        ieth: Some(Ieth(RKey(0x2424_2424))),
        cnp: Some(Cnp { cookie: Cookie(0x3131_3131) }),
        sack: Some(Sack { arrived: [0x25, 0x26, 0x27, 0x28] }),
        piggyback: Some(Piggyback {
            aeth: Aeth { syndrome: Syndrome(0x0a), msn: 0x29_2929 },
            psn: Psn::new(0x30_3030),
        }),
        cookie: Some(Cookie(0x3232_3232)),
        object: Some(ObjectEth { lock_mask: 0x3333_3333_3434_3434 }),
        reply: Some(ReplyEth { len_bytes: 0x3535_3535 }),
    }
}

/// The subset of [`all_headers`] that an opcode has.
fn headers_of(info: &OpcodeInfo) -> Extensions {
    let all = all_headers();
    let has = |header| info.headers.contains(header);
    Extensions {
        deth: all.deth.filter(|_| has(HeaderSet::DETH)),
        xrceth: all.xrceth.filter(|_| has(HeaderSet::XRCETH)),
        feth: all.feth.filter(|_| has(HeaderSet::FETH)),
        reth: all.reth.filter(|_| has(HeaderSet::RETH)),
        atomic_eth: all.atomic_eth.filter(|_| has(HeaderSet::ATOMIC_ETH)),
        aeth: all.aeth.filter(|_| has(HeaderSet::AETH)),
        atomic_ack: all.atomic_ack.filter(|_| has(HeaderSet::ATOMIC_ACK)),
        imm: all.imm.filter(|_| has(HeaderSet::IMM)),
        ieth: all.ieth.filter(|_| has(HeaderSet::IETH)),
        cnp: all.cnp.filter(|_| has(HeaderSet::CNP)),
        sack: all.sack.filter(|_| has(HeaderSet::SACK)),
        piggyback: all.piggyback.filter(|_| has(HeaderSet::PIGGYBACK)),
        cookie: all.cookie.filter(|_| has(HeaderSet::COOKIE)),
        object: all.object.filter(|_| has(HeaderSet::OBJECT)),
        reply: all.reply.filter(|_| has(HeaderSet::REPLY)),
    }
}

fn bth(opcode: Opcode) -> Bth {
    Bth { opcode, pkey: PKey::DEFAULT, dest_qpn: Qpn::new(0x34_5678), psn: Psn::new(0x9a_bcde), ..Bth::default() }
}

fn packet_bytes(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let info = opcode.info().expect("a known opcode");
    let mut bytes = Vec::new();
    headers_of(info).encode_packet(&bth(opcode), payload, &mut bytes);
    bytes
}

#[test]
fn every_opcode_reads_back_what_was_written() {
    for opcode in Opcode::all() {
        let info = opcode.info().expect("a known opcode");
        let payload: &[u8] = if info.payload { b"payload" } else { b"" };
        let bytes = packet_bytes(opcode, payload);
        let packet = Packet::parse(&bytes).expect("a good packet");
        let headers = headers_of(info);
        assert_eq!(packet.extensions(), headers, "{opcode}");
        assert!(headers.fit(info));
        assert_eq!(packet.imm(), headers.imm.map(|imm| imm.0));
        assert_eq!(packet.ieth(), headers.ieth.map(|ieth| ieth.0));
        assert_eq!(packet.payload(), payload);
        assert_eq!(packet.bytes(), bytes);
        assert_eq!(packet.opcode(), opcode);
        assert_eq!(packet.info(), info);
        assert_eq!(packet.psn(), Psn::new(0x9a_bcde));
        assert_eq!(packet.dest_qpn(), Qpn::new(0x34_5678));
        assert_eq!(usize::from(packet.bth().pad), bytes.len() - info.header_len_bytes() - payload.len());
    }
}

#[test]
fn a_packet_cut_within_its_headers_is_truncated() {
    for opcode in Opcode::all() {
        let bytes = packet_bytes(opcode, b"");
        for len in 0..bytes.len() {
            let need = if len < 2 { Bth::LEN } else { bytes.len() };
            assert_eq!(
                Packet::parse(&bytes[..len]).err(),
                Some(DecodeError::Truncated { need, have: len }),
                "{opcode}"
            );
        }
    }
}

#[test]
fn pads_fill_the_payload_to_words() {
    for payload_len in 0..9 {
        let bytes = packet_bytes(Opcode::RC_SEND_ONLY, &vec![7; payload_len]);
        assert_eq!(bytes.len() % 4, 0);
        let packet = Packet::parse(&bytes).expect("a good packet");
        assert_eq!(packet.payload(), vec![7; payload_len]);
        assert_eq!(usize::from(packet.bth().pad), (4 - payload_len % 4) % 4);
    }
}

#[test]
fn wrong_pads_are_refused() {
    let with_flags = |flags: u8, body: &[u8]| {
        let mut bytes = bth(Opcode::RC_SEND_ONLY).encode().to_vec();
        bytes[1] = flags;
        bytes.extend_from_slice(body);
        Packet::parse(&bytes).map(|packet| packet.payload().len())
    };
    assert_eq!(with_flags(0x30, b""), Err(DecodeError::PadExceedsPayload { pad: 3, body: 0 }));
    assert_eq!(with_flags(0x20, b"x"), Err(DecodeError::PadExceedsPayload { pad: 2, body: 1 }));
    assert_eq!(with_flags(0x10, b"x"), Err(DecodeError::Unaligned(1)));
    assert_eq!(with_flags(0x00, b"abcde"), Err(DecodeError::Unaligned(5)));
    assert_eq!(with_flags(0x30, b"abcd"), Ok(1));
    assert_eq!(with_flags(0x00, b"abcd"), Ok(4));
}

#[test]
fn bytes_after_an_opcode_without_payload_are_refused() {
    for opcode in [Opcode::RC_ACKNOWLEDGE, Opcode::RC_READ_REQUEST, Opcode::CNP] {
        let mut bytes = packet_bytes(opcode, b"");
        bytes.extend_from_slice(&[0; 4]);
        assert_eq!(Packet::parse(&bytes).err(), Some(DecodeError::UnexpectedPayload(4)));
    }
}

#[test]
fn unknown_opcodes_and_versions_are_refused() {
    let mut bytes = packet_bytes(Opcode::RC_SEND_ONLY, b"");
    for version in 1..16 {
        bytes[1] = version;
        assert_eq!(Packet::parse(&bytes).err(), Some(DecodeError::UnknownVersion(version)));
    }
    bytes[1] = 0;
    for code in (0..=u8::MAX).filter(|code| Opcode(*code).info().is_none()) {
        bytes[0] = code;
        assert_eq!(Packet::parse(&bytes).err(), Some(DecodeError::UnknownOpcode(Opcode(code))));
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let error = Packet::parse(&[0x15, 0]).expect_err("no such opcode");
    assert_eq!(error.to_string(), "unknown opcode 0x15");
    let error = Packet::parse(&[0x04, 0, 0]).expect_err("too short");
    assert_eq!(error.to_string(), "3 bytes do not hold the 12 bytes of headers");
}
