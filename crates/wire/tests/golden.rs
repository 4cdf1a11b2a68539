//! Every packet of the Linux driver in the golden captures decodes, encodes to the same
//! bytes again, and has a correct ICRC. See `golden/README.md`.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use longarm_wire::frame::{self, EthernetFrame};
use longarm_wire::icrc::{self, Check};
use longarm_wire::{
    ICRC_LEN, NakCode, Opcode, Packet, Qpn, ROCE_PORT, SyndromeKind, TransportService, source_port, source_port_ud,
};

/// The number of RoCE packets in all captures, counted by another program.
const PACKETS: usize = 763;

/// Captures of programs that connect without the connection manager, and so have no flow label.
const WITHOUT_FLOW_LABEL: [&str; 15] = [
    "atomic_cas",
    "atomic_fa",
    "rc_long",
    "rc_nak",
    "rc_pingpong",
    "rc_pingpong_4k",
    "rc_pingpong_mtu256",
    "rc_pingpong_v6",
    "read_bw",
    "read_lat",
    "send_bw",
    "srq_pingpong",
    "uc_pingpong",
    "write_bw",
    "write_lat",
];

/// Whether a frame is UDP to the RoCE port; does not use the crate's decoder.
fn is_roce(frame: &[u8]) -> bool {
    let udp = match (frame[12], frame[13]) {
        (0x08, 0x00) if frame[14 + 9] == 17 => 14 + 4 * usize::from(frame[14] & 15),
        (0x86, 0xdd) if frame[14 + 6] == 17 => 14 + 40,
        _ => return false,
    };
    frame[udp + 2..udp + 4] == ROCE_PORT.to_be_bytes()
}

/// Calls `check` for every RoCE packet: capture, whole frame, frame, BTH to pad.
fn each_packet(mut check: impl FnMut(&str, &[u8], &EthernetFrame<'_>, &Packet<'_>)) {
    let mut total = 0;
    for (name, pcap) in support::golden_captures() {
        let roce = support::frames(&pcap).into_iter().filter(|f| is_roce(f));
        let mut count = 0;
        for bytes in roce {
            let frame = frame::decode(bytes).unwrap_or_else(|| panic!("{name}: not a frame"));
            let (ib, _) = frame.payload.split_at(frame.payload.len() - ICRC_LEN);
            let packet = Packet::parse(ib).unwrap_or_else(|error| panic!("{name}: {error}"));
            check(&name, bytes, &frame, &packet);
            count += 1;
        }
        assert!(count > 0, "{name} has no RoCE packet");
        total += count;
    }
    assert_eq!(total, PACKETS);
}

#[test]
fn every_packet_encodes_to_the_same_bytes() {
    let mut total = 0;
    each_packet(|name, _, _, packet| {
        let extensions = packet.extensions();
        assert!(extensions.fit(packet.info()), "{name}: {}", packet.opcode());
        let mut bytes = Vec::new();
        extensions.encode_packet(&packet.bth(), packet.payload(), &mut bytes);
        assert_eq!(bytes, packet.bytes(), "{name}: {}", packet.opcode());
        total += 1;
    });
    println!("{total} packets decoded and encoded");
}

#[test]
fn every_frame_encodes_to_the_same_ip_header_and_payload() {
    each_packet(|name, bytes, frame, _| {
        let mut encoded = Vec::new();
        frame::encode(&frame.flow, frame.identification, frame.tos, frame.ttl, frame.payload, &mut encoded)
            .expect("it fits");
        assert_eq!(encoded.len(), bytes.len(), "{name}");
        // All fields but the Ethernet addresses, which the crate makes up, and the UDP checksum,
        // which the driver leaves out.
        let udp = bytes.len() - frame.payload.len() - 8;
        assert_eq!(encoded[12..udp + 6], bytes[12..udp + 6], "{name}");
        assert_eq!(encoded[udp + 8..], bytes[udp + 8..], "{name}");
    });
}

#[test]
fn every_icrc_is_right_and_tells_the_identification() {
    let (mut expected, mut solved) = (0, 0);
    each_packet(|name, _, frame, packet| {
        let icrc = icrc::compute(&frame.flow, frame.identification, packet.bytes());
        let (_, wire) = frame.payload.split_at(packet.bytes().len());
        assert_eq!(icrc.to_le_bytes(), wire, "{name}");

        let known = icrc::check(&frame.flow, frame.payload, frame.identification);
        assert_eq!(known, Check::Good, "{name}");
        match icrc::check(&frame.flow, frame.payload, 0) {
            Check::Good => {
                assert_eq!(frame.identification, 0, "{name}");
                expected += 1;
            }
            Check::Identification(found) => {
                assert_eq!(found, frame.identification, "{name}");
                solved += 1;
            }
            Check::Bad => panic!("{name}: no identification fits"),
        }
    });
    assert!(expected > 0 && solved > 0);
    println!("{expected} packets as expected, {solved} identifications recovered");
}

#[test]
fn damaged_packets_are_bad() {
    each_packet(|name, _, frame, packet| {
        let mut payload = frame.payload.to_vec();
        // Every bit of the headers and of the ICRC, some of the payload.
        let headers = packet.info().header_len_bytes();
        let bytes = (0..payload.len())
            .filter(|at| *at != 4 && (*at < headers || *at % 61 == 0 || *at >= payload.len() - ICRC_LEN));
        for bit in bytes.collect::<Vec<_>>().into_iter().flat_map(|at| at * 8..at * 8 + 8) {
            payload[bit / 8] ^= 1 << (bit % 8);
            for expected in [0, frame.identification] {
                let found = icrc::check(&frame.flow, &payload, expected);
                assert_eq!(found, Check::Bad, "{name}, bit {bit}");
            }
            payload[bit / 8] ^= 1 << (bit % 8);
        }
    });
}

#[test]
fn the_captures_hold_all_opcodes_they_are_kept_for() {
    let mut opcodes = BTreeSet::new();
    let mut kinds = BTreeSet::new();
    let mut pads = BTreeSet::new();
    let mut versions = BTreeSet::new();
    each_packet(|_, _, frame, packet| {
        opcodes.insert(packet.opcode().0);
        pads.insert(packet.bth().pad);
        versions.insert(frame.flow.is_ipv4());
        if let Some(aeth) = packet.aeth() {
            kinds.insert(format!("{:?}", aeth.syndrome.kind()));
        }
    });
    // SEND, WRITE, READ, atomics of RC without invalidate; SEND and WRITE of UC; UD.
    for opcode in [0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20] {
        assert!(opcodes.contains(&opcode), "{}", Opcode(opcode));
    }
    for opcode in [Opcode::UC_SEND_MIDDLE, Opcode::UC_WRITE_ONLY, Opcode::UD_SEND_ONLY_IMM] {
        assert!(opcodes.contains(&opcode.0), "{opcode}");
    }
    let expected = [
        SyndromeKind::Ack { credits: None },
        SyndromeKind::RnrNak { timer: 14 },
        SyndromeKind::Nak(NakCode::PsnSequenceError),
        SyndromeKind::Nak(NakCode::RemoteAccessError),
        SyndromeKind::Nak(NakCode::RemoteOperationalError),
    ];
    let expected = expected.map(|kind| format!("{kind:?}"));
    assert_eq!(kinds, BTreeSet::from(expected));
    assert_eq!(pads, BTreeSet::from([0, 1, 2, 3]));
    assert_eq!(versions, BTreeSet::from([false, true]));
}

#[test]
fn source_ports_of_ud_are_hashes_of_the_sender() {
    let mut checked = 0;
    each_packet(|name, _, frame, packet| {
        // One of the peers in this capture is a program that chooses its own port.
        let Some(deth) = packet.deth().filter(|_| name != "hostcheck") else {
            return;
        };
        let expected = source_port_ud(deth.src_qpn);
        assert_eq!(frame.flow.source_port, expected, "{name}: {:?}", deth.src_qpn);
        checked += 1;
    });
    assert!(checked > 0);
}

#[test]
fn source_ports_of_connections_are_hashes_of_both_ends() {
    // The QPNs at each address, for each capture and port.
    let mut connections: BTreeMap<(String, u16), BTreeMap<_, Qpn>> = BTreeMap::new();
    each_packet(|name, _, frame, packet| {
        if packet.info().service != TransportService::Ud {
            let key = (name.to_owned(), frame.flow.source_port);
            let ends = connections.entry(key).or_default();
            let known = ends.insert(frame.flow.destination, packet.dest_qpn());
            assert!(known.is_none_or(|qpn| qpn == packet.dest_qpn()), "{name}");
        }
    });
    let mut checked = BTreeSet::new();
    for ((name, port), ends) in &connections {
        if !WITHOUT_FLOW_LABEL.contains(&name.as_str()) {
            continue;
        }
        let qpns: Vec<Qpn> = ends.values().copied().collect();
        let &[a, b] = qpns.as_slice() else {
            panic!("{name}: {} ends", qpns.len());
        };
        assert_eq!(source_port(0, a, b), *port, "{name}: {a} {b}");
        assert_eq!(source_port(0, b, a), *port, "{name}: {a} {b}");
        checked.insert(name.as_str());
    }
    assert_eq!(checked, BTreeSet::from(WITHOUT_FLOW_LABEL));
}
