//! The ICRC compared with a straightforward reference, and on damaged packets.

use super::*;
use crate::frame;

fn flow_v4() -> Flow {
    Flow { source: [10, 77, 0, 11].into(), destination: [10, 77, 0, 12].into(), source_port: 0xc121 }
}

fn flow_v6() -> Flow {
    Flow {
        source: "fd77::b".parse().expect("an address"),
        destination: "fd77::c".parse().expect("an address"),
        source_port: 0xc900,
    }
}

/// BTH and payload of a SEND.
fn packet(payload_bytes: usize) -> Vec<u8> {
    let bth = [0x04, 0, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0x12, 0x34, 0x56];
    let payload = (0..payload_bytes).map(|i| (i * 31 + 7) as u8);
    bth.into_iter().chain(payload).collect()
}

fn with_icrc(flow: &Flow, identification: u16, ib: &[u8]) -> Vec<u8> {
    let mut bytes = ib.to_vec();
    bytes.extend_from_slice(&compute(flow, identification, ib).to_le_bytes());
    bytes
}

/// Masks a real frame field by field, then runs the CRC over it in one piece.
fn reference(flow: &Flow, identification: u16, ib: &[u8]) -> u32 {
    let mut frame = Vec::new();
    let mut datagram = ib.to_vec();
    datagram.extend_from_slice(&[0; ICRC_LEN]);
    frame::encode(flow, identification, 0x2e, 61, &datagram, &mut frame).expect("it fits");
    // The bytes after the Ethernet header, without the ICRC.
    let mut covered = frame[14..frame.len() - ICRC_LEN].to_vec();
    let udp = if flow.is_ipv4() { 20 } else { 40 };
    let masked: &[usize] = if flow.is_ipv4() { &[1, 8, 10, 11] } else { &[1, 2, 3, 7] };
    for at in masked.iter().copied().chain([udp + 6, udp + 7, udp + 8 + 4]) {
        covered[at] = 0xff;
    }
    if !flow.is_ipv4() {
        covered[0] |= 0x0f;
    }
    let mut all = vec![0xff; 8];
    all.extend_from_slice(&covered);
    crc32fast::hash(&all)
}

#[test]
fn compute_agrees_with_the_reference() {
    for flow in [flow_v4(), flow_v6()] {
        for payload_bytes in [0, 4, 64, 256, 1024, 4096, 65_000] {
            let ib = packet(payload_bytes);
            let expected = reference(&flow, 0xbeef, &ib);
            assert_eq!(compute(&flow, 0xbeef, &ib), expected, "{payload_bytes} bytes");
        }
    }
}

#[test]
fn mapped_addresses_count_as_ipv4() {
    let mapped = Flow { source: "::ffff:10.77.0.11".parse().expect("an address"), ..flow_v4() };
    let ib = packet(8);
    assert_eq!(compute(&mapped, 5, &ib), compute(&flow_v4(), 5, &ib));
}

#[test]
fn every_identification_is_found() {
    let ib = packet(64);
    for identification in 0..=u16::MAX {
        let bytes = with_icrc(&flow_v4(), identification, &ib);
        let expected = match identification {
            0x1234 => Check::Good,
            other => Check::Identification(other),
        };
        assert_eq!(check(&flow_v4(), &bytes, 0x1234), expected);
    }
}

#[test]
fn identifications_are_found_at_every_length() {
    for payload_bytes in 0..4200 {
        let bytes = with_icrc(&flow_v4(), 0xa55a, &packet(payload_bytes));
        assert_eq!(check(&flow_v4(), &bytes, 0xa55a), Check::Good);
        assert_eq!(check(&flow_v4(), &bytes, 0), Check::Identification(0xa55a));
    }
}

#[test]
fn ipv6_has_no_identification() {
    let bytes = with_icrc(&flow_v6(), 0, &packet(64));
    assert_eq!(check(&flow_v6(), &bytes, 0), Check::Good);
    assert_eq!(check(&flow_v6(), &bytes, 0x1234), Check::Good);
    let foreign = with_icrc(&flow_v4(), 0, &packet(64));
    assert_eq!(check(&flow_v6(), &foreign, 0), Check::Bad);
}

/// See `solve::tests`: the difference that one flipped bit makes never passes as that of an
/// identification, with a right or a wrong guess.
#[test]
fn one_flipped_bit_is_bad_except_where_routers_may_flip() {
    for flow in [flow_v4(), flow_v6()] {
        for payload_bytes in [0, 64, 1024] {
            let good = with_icrc(&flow, 77, &packet(payload_bytes));
            for bit in 0..good.len() * 8 {
                let mut bytes = good.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let found = [check(&flow, &bytes, 77), check(&flow, &bytes, 0)];
                let expected =
                    if bit / 8 == 4 { [Check::Good, check(&flow, &good, 0)] } else { [Check::Bad, Check::Bad] };
                assert_eq!(found, expected, "bit {bit}");
            }
        }
    }
}

#[test]
fn one_flipped_bit_of_addresses_or_port_is_bad() {
    let good = with_icrc(&flow_v4(), 77, &packet(64));
    for bit in 0..32 {
        let flip = |address| match address {
            core::net::IpAddr::V4(v4) => core::net::Ipv4Addr::from_bits(v4.to_bits() ^ 1 << bit).into(),
            v6 => v6,
        };
        let flow = flow_v4();
        let wrong = [
            Flow { source: flip(flow.source), ..flow },
            Flow { destination: flip(flow.destination), ..flow },
            Flow { source_port: flow.source_port ^ 1 << (bit % 16), ..flow },
        ];
        for flow in wrong {
            assert_eq!(check(&flow, &good, 77), Check::Bad, "{flow:?}");
            assert_eq!(check(&flow, &good, 0), Check::Bad, "{flow:?}");
        }
    }
}

#[test]
fn truncated_packets_are_bad() {
    let good = with_icrc(&flow_v4(), 0, &packet(256));
    for len in 0..good.len() {
        assert_eq!(check(&flow_v4(), &good[..len], 0), Check::Bad, "{len} bytes");
    }
}

#[test]
fn fewer_bytes_than_a_bth_count_as_if_zeros_followed() {
    let mut ones = vec![0xff; 5];
    let short = compute(&flow_v4(), 0, &ones);
    ones.resize(12, 0);
    let (udp, bth) = (image_udp(5), ones.first_chunk().expect("12 bytes"));
    let image = image::ipv4([10, 77, 0, 11].into(), [10, 77, 0, 12].into(), 0, udp, bth);
    assert_eq!(short, crc32fast::hash(&image));
}

fn image_udp(ib_len: u16) -> image::UdpFields {
    image::UdpFields { source_port: flow_v4().source_port, len_bytes: ib_len + 12 }
}
