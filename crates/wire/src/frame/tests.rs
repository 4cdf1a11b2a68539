//! Frames compared with hand-written bytes, in both directions.

use super::*;

fn flow(source: &str, destination: &str) -> Flow {
    Flow {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
        source_port: 0xc123,
    }
}

fn flows() -> [Flow; 4] {
    [
        flow("10.1.2.3", "10.1.2.4"),
        flow("10.1.2.3", "239.129.0.5"),
        flow("fd00::1", "fd00::2"),
        flow("fd00::1", "ff0e::1:2"),
    ]
}

fn frame_of(flow: &Flow, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(flow, 0x0102, 0x2e, 63, payload, &mut bytes).expect("it fits");
    bytes
}

#[test]
fn an_ipv4_frame_byte_by_byte() {
    let bytes = frame_of(&flows()[0], &[0xab, 0xcd, 0xef]);
    let expected = [
        // Ethernet: destination, source, IPv4.
        0x02, 0, 10, 1, 2, 4, 0x02, 0, 10, 1, 2, 3, 0x08, 0x00, //
        // IPv4: length 31, identification, DF, TTL 63, UDP, checksum, addresses.
        0x45, 0x2e, 0, 31, 0x01, 0x02, 0x40, 0, 63, 17, 0x22, 0x96, 10, 1, 2, 3, 10, 1, 2, 4, //
        // UDP: ports, length 11, checksum, payload.
        0xc1, 0x23, 0x12, 0xb7, 0, 11, 0x79, 0x26, 0xab, 0xcd, 0xef,
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn frames_decode_to_what_they_were_made_of() {
    for flow in flows() {
        for len in [0, 1, 16, 1500, MAX_UDP_PAYLOAD_BYTES] {
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let bytes = frame_of(&flow, &payload);
            let frame = decode(&bytes).expect("our own frame");
            let identification = if flow.is_ipv4() { 0x0102 } else { 0 };
            let expected = EthernetFrame { flow, identification, tos: 0x2e, ttl: 63, payload: &payload };
            assert_eq!(frame, expected);
        }
    }
}

/// The sum over pseudo-header and datagram, checksum included, is all ones.
#[test]
fn udp_checksums_add_up() {
    for flow in flows() {
        for payload in [&b""[..], b"odd", b"even"] {
            let bytes = frame_of(&flow, payload);
            let (addresses, udp) = if flow.is_ipv4() { (26..34, 34) } else { (22..54, 54) };
            let udp_len = (bytes.len() - udp) as u32;
            let sum = words(&bytes[addresses]) + 17 + udp_len + words(&bytes[udp..]);
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        }
    }
}

fn words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low))).sum()
}

#[test]
fn multicast_goes_to_the_group_s_ethernet_address() {
    let [_, v4, _, v6] = flows();
    assert_eq!(frame_of(&v4, b"")[..6], [0x01, 0x00, 0x5e, 0x01, 0x00, 0x05]);
    assert_eq!(frame_of(&v6, b"")[..6], [0x33, 0x33, 0x00, 0x01, 0x00, 0x02]);
}

#[test]
fn padding_after_the_datagram_is_dropped_and_truncation_noticed() {
    for flow in flows() {
        let mut bytes = frame_of(&flow, b"payload");
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "{len} bytes");
        }
        bytes.extend_from_slice(&[0; 20]);
        assert_eq!(decode(&bytes).map(|frame| frame.payload), Some(&b"payload"[..]));
    }
}

#[test]
fn other_frames_are_not_ours() {
    let [v4, _, v6, _] = flows();
    // Ethertype, UDP destination port, UDP length, one by one; IPv6: version, next header too.
    for (flow, places) in [(v4, &[12, 36, 38][..]), (v6, &[12, 14, 20, 56, 58][..])] {
        let good = frame_of(&flow, b"payload");
        for place in places {
            let mut bytes = good.clone();
            bytes[*place] ^= 0x40;
            assert_eq!(decode(&bytes), None, "byte {place}");
        }
    }
}

#[test]
fn a_payload_that_does_not_fit_is_refused() {
    for flow in flows() {
        let mut out = vec![1, 2, 3];
        let payload = vec![0; MAX_UDP_PAYLOAD_BYTES + 1];
        let refused = encode(&flow, 0, 0, 64, &payload, &mut out);
        assert_eq!(refused, Err(TooLong { len_bytes: payload.len() }));
        assert_eq!(out, [1, 2, 3]);
    }
}
