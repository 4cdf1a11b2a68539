//! The bytes that the ICRC covers before the extension headers, in one piece: eight bytes of ones,
//! then IP header, UDP header and BTH with the variant fields masked.
//!
//! The image is built from 32-bit words, like the diagrams of the RFCs. Stores of single fields,
//! followed by wider loads of the same bytes, would cost more than the CRC itself.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::flow::ROCE_PORT;
use crate::header::Bth;
use crate::ip::Ipv4;

/// The variable fields of the UDP header.
#[derive(Clone, Copy)]
pub(super) struct UdpFields {
    pub(super) source_port: u16,
    pub(super) len_bytes: u16,
}

/// Length with IPv4: 8 + 20 + 8 + 12.
const IPV4_LEN: usize = 48;
/// Length with IPv6: 8 + 40 + 8 + 12.
const IPV6_LEN: usize = 68;

/// Stands for a field that routers change, and for the eight bytes in front. InfiniBand has its
/// local routing header there, which changes too.
const MASKED: u16 = 0xffff;
const ONES: u32 = 0xffff_ffff;

/// Version 4, five words of header, TOS masked.
const VERSION_IHL_TOS: u16 = 0x45ff;
const DONT_FRAGMENT: u16 = 0x4000;
/// TTL masked, protocol UDP.
const TTL_PROTOCOL: u16 = 0xff11;
/// Version 6, traffic class and flow label masked.
const VERSION_CLASS_LABEL: u32 = 0x6fff_ffff;
/// Next header UDP, hop limit masked.
const NEXT_HEADER_HOP_LIMIT: u16 = 0x11ff;
/// FECN, BECN and the reserved bits beside them, in the second word of the BTH.
const BTH_MASK: u32 = 0xff00_0000;

#[inline(always)]
pub(super) fn ipv4(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    identification: u16,
    udp: UdpFields,
    bth: &[u8; Bth::LEN],
) -> [u8; IPV4_LEN] {
    let total_len_bytes = udp.len_bytes.wrapping_add(Ipv4::LEN as u16);
    let [bth0, bth1, bth2] = words(bth);
    bytes([
        ONES,
        ONES,
        word(VERSION_IHL_TOS, total_len_bytes),
        word(identification, DONT_FRAGMENT),
        word(TTL_PROTOCOL, MASKED),
        source.to_bits(),
        destination.to_bits(),
        word(udp.source_port, ROCE_PORT),
        word(udp.len_bytes, MASKED),
        bth0,
        bth1 | BTH_MASK,
        bth2,
    ])
}

#[inline(always)]
pub(super) fn ipv6(source: Ipv6Addr, destination: Ipv6Addr, udp: UdpFields, bth: &[u8; Bth::LEN]) -> [u8; IPV6_LEN] {
    let [source0, source1, source2, source3] = words(&source.octets());
    let [destination0, destination1, destination2, destination3] = words(&destination.octets());
    let [bth0, bth1, bth2] = words(bth);
    bytes([
        ONES,
        ONES,
        VERSION_CLASS_LABEL,
        word(udp.len_bytes, NEXT_HEADER_HOP_LIMIT),
        source0,
        source1,
        source2,
        source3,
        destination0,
        destination1,
        destination2,
        destination3,
        word(udp.source_port, ROCE_PORT),
        word(udp.len_bytes, MASKED),
        bth0,
        bth1 | BTH_MASK,
        bth2,
    ])
}

#[inline(always)]
fn word(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

#[inline(always)]
fn words<const WORDS: usize, const BYTES: usize>(bytes: &[u8; BYTES]) -> [u32; WORDS] {
    const { assert!(BYTES == 4 * WORDS) };
    let (chunks, _) = bytes.as_chunks::<4>();
    core::array::from_fn(|i| u32::from_be_bytes(chunks[i]))
}

#[inline(always)]
fn bytes<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    const { assert!(BYTES == 4 * WORDS) };
    let mut bytes = [0; BYTES];
    let (chunks, _) = bytes.as_chunks_mut::<4>();
    for (chunk, word) in chunks.iter_mut().zip(words) {
        *chunk = word.to_be_bytes();
    }
    bytes
}
