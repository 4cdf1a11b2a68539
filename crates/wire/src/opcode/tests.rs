//! The table compared with facts written a second time, by hand.

use super::*;

fn info(opcode: Opcode) -> &'static OpcodeInfo {
    opcode.info().expect("a known opcode")
}

#[test]
fn the_known_codes() {
    let known: Vec<u8> = Opcode::all().map(|opcode| opcode.0).collect();
    let expected: Vec<u8> = (0x00..=0x14)
        .chain(0x16..=0x17)
        .chain(0x1c..=0x1d)
        .chain(0x20..=0x2b)
        .chain(0x64..=0x65)
        .chain([0x81])
        .chain(0xa0..=0xb4)
        .chain(0xb6..=0xb7)
        .chain(0xbc..=0xbd)
        .chain(0xc4..=0xc5)
        .chain(0xca..=0xcb)
        .chain(0xd1..=0xd2)
        .chain(0xd7..=0xda)
        .collect();
    assert_eq!(known, expected);
}

#[test]
fn lengths_of_headers() {
    let cases = [
        (Opcode::RC_SEND_FIRST, 12),
        (Opcode::RC_SEND_ONLY_IMM, 16),
        (Opcode::RC_SEND_ONLY_INVALIDATE, 16),
        (Opcode::RC_WRITE_FIRST, 28),
        (Opcode::RC_WRITE_MIDDLE, 12),
        (Opcode::RC_WRITE_ONLY_IMM, 32),
        (Opcode::RC_READ_REQUEST, 28),
        (Opcode::RC_READ_RESPONSE_FIRST, 16),
        (Opcode::RC_READ_RESPONSE_MIDDLE, 12),
        (Opcode::RC_ACKNOWLEDGE, 16),
        (Opcode::RC_ATOMIC_ACKNOWLEDGE, 24),
        (Opcode::RC_COMPARE_SWAP, 40),
        (Opcode::RC_FLUSH, 32),
        (Opcode::RC_ATOMIC_WRITE, 28),
        (Opcode::UC_WRITE_LAST_IMM, 16),
        (Opcode::UD_SEND_ONLY, 20),
        (Opcode::UD_SEND_ONLY_IMM, 24),
        (Opcode::CNP, 28),
        (Opcode::XRC_SEND_MIDDLE, 16),
        (Opcode::XRC_WRITE_ONLY_IMM, 36),
        (Opcode::XRC_FETCH_ADD, 44),
        (Opcode::XRC_READ_RESPONSE_ONLY, 16),
        (Opcode::SEND_ONLY_ACK, 24),
        (Opcode::WRITE_ONLY_IMM_ACK, 44),
        (Opcode::SELECTIVE_ACKNOWLEDGE, 52),
        (Opcode::ACKNOWLEDGE_COOKIE, 20),
        (Opcode::OBJECT_READ, 36),
        (Opcode::CALL, 28),
        (Opcode::REPLY, 24),
    ];
    for (opcode, len_bytes) in cases {
        assert_eq!(info(opcode).header_len_bytes(), len_bytes, "{opcode}");
    }
}

#[test]
fn headers_follow_each_other_without_gaps() {
    for opcode in Opcode::all() {
        let info = info(opcode);
        let mut next = Bth::LEN;
        for header in info.headers.iter() {
            assert_eq!(info.offset_of(header), Some(next), "{opcode} {header:?}");
            next += header.len_bytes();
        }
        assert_eq!(info.header_len_bytes(), next);
        for header in info.headers.complement().iter() {
            assert_eq!(info.offset_of(header), None, "{opcode} {header:?}");
        }
    }
}

#[test]
fn packets_that_take_a_receive_wqe() {
    let takers: Vec<String> =
        Opcode::all().filter(|opcode| info(*opcode).uses_recv_wqe).map(|opcode| opcode.to_string()).collect();
    let of_connected = |service: &str| {
        ["SEND_FIRST", "SEND_ONLY", "SEND_ONLY_IMM", "WRITE_LAST_IMM", "WRITE_ONLY_IMM"]
            .map(|name| format!("{service}_{name}"))
    };
    let mut expected = Vec::new();
    expected.extend(of_connected("RC"));
    expected.push("RC_SEND_ONLY_INVALIDATE".into());
    expected.extend(of_connected("UC"));
    expected.extend(["UD_SEND_ONLY".into(), "UD_SEND_ONLY_IMM".into()]);
    expected.extend(of_connected("XRC"));
    expected.push("XRC_SEND_ONLY_INVALIDATE".into());
    expected.extend(
        ["SEND_ONLY_ACK", "SEND_ONLY_IMM_ACK", "WRITE_ONLY_IMM_ACK", "SEND_ONLY_INVALIDATE_ACK"].map(String::from),
    );
    assert_eq!(takers, expected);
}

#[test]
fn packets_that_carry_a_payload() {
    for opcode in Opcode::all() {
        let name = opcode.to_string();
        let carries = ["SEND", "WRITE", "READ_RESPONSE", "REPLY", "CALL"].iter().any(|part| name.contains(part));
        assert_eq!(info(opcode).payload, carries, "{name}");
    }
}

#[test]
fn names_agree_with_service_position_and_headers() {
    let standard = |opcode: &Opcode| info(*opcode).service != TransportService::Own && *opcode != Opcode::CNP;
    for opcode in Opcode::all().filter(standard) {
        let info = info(opcode);
        let name = info.name;
        let service = format!("{:?}_", info.service).to_uppercase();
        assert!(name.starts_with(&service), "{name}");
        assert_eq!(name.contains("_IMM"), info.headers.contains(HeaderSet::IMM));
        assert_eq!(name.contains("_INVALIDATE"), info.headers.contains(HeaderSet::IETH));
        for (part, position) in [("_FIRST", Position::First), ("_MIDDLE", Position::Middle), ("_LAST", Position::Last)]
        {
            assert_eq!(name.contains(part), info.position == position, "{name}");
        }
    }
}

#[test]
fn a_request_that_carries_an_ack_is_otherwise_the_plain_request() {
    let mut found = 0;
    for opcode in Opcode::all() {
        let Some(own) = opcode.with_acknowledge() else { continue };
        let (plain, both) = (info(opcode), info(own));
        found += 1;
        assert_eq!(plain.service, TransportService::Rc);
        assert_eq!(both.name, format!("{}_ACK", plain.name.trim_start_matches("RC_")));
        assert_eq!((both.operation, both.position), (plain.operation, Position::Only));
        assert_eq!((both.payload, both.uses_recv_wqe), (plain.payload, plain.uses_recv_wqe));
        assert_eq!(both.headers, plain.headers | HeaderSet::PIGGYBACK | HeaderSet::COOKIE);
        assert_eq!(own.without_acknowledge(), Some(opcode));
    }
    assert_eq!(found, Opcode::all().filter(|opcode| info(*opcode).headers.contains(HeaderSet::PIGGYBACK)).count());
    for opcode in [Opcode::RC_SEND_FIRST, Opcode::UC_SEND_ONLY, Opcode::RC_ACKNOWLEDGE, Opcode::SEND_ONLY_ACK] {
        assert_eq!(opcode.with_acknowledge(), None);
    }
    for opcode in [Opcode::RC_SEND_ONLY, Opcode::SELECTIVE_ACKNOWLEDGE, Opcode(0xc0), Opcode(0xff)] {
        assert_eq!(opcode.without_acknowledge(), None);
    }
}

#[test]
fn a_packet_is_a_request_or_a_response_or_a_notification() {
    for opcode in Opcode::all() {
        let info = info(opcode);
        let kinds = [info.is_request(), info.is_response(), info.operation == Operation::Cnp];
        assert_eq!(kinds.into_iter().filter(|kind| *kind).count(), 1, "{opcode}");
    }
}

#[test]
fn unknown_opcodes_survive_and_print() {
    let unknown = Opcode(0x15);
    assert_eq!(unknown.info(), None);
    assert_eq!(unknown.to_string(), "0x15");
    assert_eq!(format!("{:?}", Opcode::RC_SEND_ONLY), "Opcode(RC_SEND_ONLY)");
}
