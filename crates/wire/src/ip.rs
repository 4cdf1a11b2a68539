//! IP and UDP headers, as far as RoCEv2 needs them: without options and extensions,
//! never fragmented (Annex A17). Frames, GRHs and the ICRC use them.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::bytes::{array_at, put, u16_at, u32_at};
use crate::flow::ROCE_PORT;

/// The protocol number of UDP.
const UDP: u8 = 17;
const VERSION_4_IHL_5: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
/// The "more fragments" flag and the fragment offset.
const FRAGMENT_MASK: u16 = 0x3fff;

/// An IPv4 header of 20 bytes before UDP, "don't fragment" set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ipv4 {
    pub(crate) tos: u8,
    /// Length of the header and everything after it.
    pub(crate) total_len_bytes: u16,
    pub(crate) identification: u16,
    pub(crate) ttl: u8,
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
}

impl Ipv4 {
    pub(crate) const LEN: usize = 20;

    /// Accepts only headers that a RoCEv2 receiver may see: no options, no fragment, UDP, correct checksum.
    pub(crate) fn decode(bytes: &[u8; Ipv4::LEN]) -> Option<Ipv4> {
        Ipv4::decode_unsummed(bytes).filter(|_| checksum(&[bytes]) == 0)
    }

    /// The same whatever the checksum is.
    pub(crate) fn decode_unsummed(bytes: &[u8; Ipv4::LEN]) -> Option<Ipv4> {
        let plain = bytes[0] == VERSION_4_IHL_5 && u16_at(bytes, 6) & FRAGMENT_MASK == 0 && bytes[9] == UDP;
        plain.then(|| Ipv4 {
            tos: bytes[1],
            total_len_bytes: u16_at(bytes, 2),
            identification: u16_at(bytes, 4),
            ttl: bytes[8],
            source: array_at(bytes, 12).into(),
            destination: array_at(bytes, 16).into(),
        })
    }

    /// Computes the checksum.
    pub(crate) fn encode(&self) -> [u8; Ipv4::LEN] {
        let mut bytes = [0; Ipv4::LEN];
        bytes[0] = VERSION_4_IHL_5;
        bytes[1] = self.tos;
        put(&mut bytes, 2, self.total_len_bytes.to_be_bytes());
        put(&mut bytes, 4, self.identification.to_be_bytes());
        put(&mut bytes, 6, DONT_FRAGMENT.to_be_bytes());
        bytes[8] = self.ttl;
        bytes[9] = UDP;
        put(&mut bytes, 12, self.source.octets());
        put(&mut bytes, 16, self.destination.octets());
        let sum = checksum(&[&bytes]);
        put(&mut bytes, 10, sum.to_be_bytes());
        bytes
    }
}

/// An IPv6 header before UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ipv6 {
    pub(crate) traffic_class: u8,
    /// 20 bits.
    pub(crate) flow_label: u32,
    /// Length of everything after the header.
    pub(crate) payload_len_bytes: u16,
    pub(crate) hop_limit: u8,
    pub(crate) source: Ipv6Addr,
    pub(crate) destination: Ipv6Addr,
}

impl Ipv6 {
    pub(crate) const LEN: usize = 40;

    /// Accepts only UDP right after the header.
    pub(crate) fn decode(bytes: &[u8; Ipv6::LEN]) -> Option<Ipv6> {
        let first = u32_at(bytes, 0);
        let plain = first >> 28 == 6 && bytes[6] == UDP;
        plain.then(|| Ipv6 {
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0xf_ffff,
            payload_len_bytes: u16_at(bytes, 4),
            hop_limit: bytes[7],
            source: array_at(bytes, 8).into(),
            destination: array_at(bytes, 24).into(),
        })
    }

    pub(crate) fn encode(&self) -> [u8; Ipv6::LEN] {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        let mut bytes = [0; Ipv6::LEN];
        put(&mut bytes, 0, first.to_be_bytes());
        put(&mut bytes, 4, self.payload_len_bytes.to_be_bytes());
        bytes[6] = UDP;
        bytes[7] = self.hop_limit;
        put(&mut bytes, 8, self.source.octets());
        put(&mut bytes, 24, self.destination.octets());
        bytes
    }
}

/// A UDP header to the RoCEv2 port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Udp {
    pub(crate) source_port: u16,
    /// Length of header and payload.
    pub(crate) len_bytes: u16,
    pub(crate) checksum: u16,
}

impl Udp {
    pub(crate) const LEN: usize = 8;

    /// Accepts only the RoCEv2 port.
    pub(crate) fn decode(bytes: &[u8; Udp::LEN]) -> Option<Udp> {
        (u16_at(bytes, 2) == ROCE_PORT).then(|| Udp {
            source_port: u16_at(bytes, 0),
            len_bytes: u16_at(bytes, 4),
            checksum: u16_at(bytes, 6),
        })
    }

    pub(crate) fn encode(&self) -> [u8; Udp::LEN] {
        let mut bytes = [0; Udp::LEN];
        put(&mut bytes, 0, self.source_port.to_be_bytes());
        put(&mut bytes, 2, ROCE_PORT.to_be_bytes());
        put(&mut bytes, 4, self.len_bytes.to_be_bytes());
        put(&mut bytes, 6, self.checksum.to_be_bytes());
        bytes
    }

    /// Adds the checksum over the pseudo-header of `source` and `destination`
    /// (octets of either IP version) and the payload. It is never 0, which would mean "no checksum".
    pub(crate) fn with_checksum(self, source: &[u8], destination: &[u8], payload: &[u8]) -> Udp {
        let bare = Udp { checksum: 0, ..self };
        // The length is 32 bits wide for IPv6; its high half is zero and adds nothing.
        let pseudo = [0, UDP, (self.len_bytes >> 8) as u8, self.len_bytes as u8];
        let sum = checksum(&[source, destination, &pseudo, &bare.encode(), payload]);
        Udp { checksum: if sum == 0 { 0xffff } else { sum }, ..self }
    }
}

/// The Internet checksum (RFC 1071) over several pieces. Only the last may have odd length.
fn checksum(pieces: &[&[u8]]) -> u16 {
    let mut sum: u64 = pieces.iter().map(|piece| sum_words(piece)).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn sum_words(piece: &[u8]) -> u64 {
    let (words, odd) = piece.as_chunks::<2>();
    let last = odd.first().map_or(0, |&byte| u64::from(byte) << 8);
    words.iter().map(|&word| u64::from(u16::from_be_bytes(word))).sum::<u64>() + last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&[&bytes]), !0xddf2);
        assert_eq!(checksum(&[&bytes[..4], &bytes[4..]]), !0xddf2);
        assert_eq!(checksum(&[&[0x12]]), !0x1200);
    }

    #[test]
    fn ipv4_refuses_options_fragments_and_other_protocols() {
        let header = Ipv4 {
            tos: 0x2e,
            total_len_bytes: 1000,
            identification: 0x1234,
            ttl: 63,
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
        };
        let good = header.encode();
        assert_eq!(Ipv4::decode(&good), Some(header));
        for (at, flip, what) in [
            (0, 0x20, "version"),
            (0, 0x03, "options"),
            (6, 0x20, "more fragments"),
            (7, 0x01, "a later fragment"),
            (9, 0x17, "TCP"),
        ] {
            let mut bytes = good;
            bytes[at] ^= flip;
            put(&mut bytes, 10, [0, 0]);
            let sum = checksum(&[&bytes]);
            put(&mut bytes, 10, sum.to_be_bytes());
            assert_eq!(Ipv4::decode(&bytes), None, "{what}");
        }
        for bit in 0..good.len() * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Ipv4::decode(&bytes), None, "flipped bit {bit}");
        }
    }
}
