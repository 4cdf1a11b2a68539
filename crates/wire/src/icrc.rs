//! The invariant CRC at the end of every packet: CRC-32 over all fields that routers do not
//! change (Annex A17).
//!
//! ```text
//!  8 bytes of ones | IP | UDP | BTH | extension headers | payload | pad  ->  ICRC
//! ```
//!
//! Fields that routers change count as all ones. In IPv4 these are TOS, TTL and header checksum, in
//! IPv6 traffic class, flow label and hop limit. The UDP checksum and, in the BTH, the byte with
//! FECN and BECN change, too. On the wire the result is little-endian: [`u32::to_le_bytes`].
//!
//! The CRC covers the IPv4 identification too, but a UDP socket does not show it. The caller
//! gives [`check`] a guess. If the guess is wrong, `check` solves for the real identification, which
//! leaves 16 of the 32 bits to detect errors. The module assumes that IPv4 packets have "don't
//! fragment" set, as RoCEv2 senders do.
//!
//! This module owns the arithmetic only. The caller decides whether it accepts a packet with an
//! unexpected identification.

mod image;
mod sealer;
mod solve;
#[cfg(test)]
mod tests;

use crc32fast::Hasher;

use crate::ICRC_LEN;
use crate::flow::{Addresses, Flow};
use crate::header::Bth;
use crate::ip::{Ipv4, Udp};

pub use sealer::Sealer;

/// The result of [`check`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Check {
    /// The ICRC is correct; for IPv4, with the expected identification.
    Good,
    /// The ICRC is correct if the packet has this IPv4 identification, which is not the expected one.
    Identification(u16),
    /// The ICRC is wrong: the packet is damaged or not a packet.
    Bad,
}

/// The ICRC of a packet; `ib` is the packet from BTH to pad. `identification` is the field of the
/// IPv4 header; it is ignored for IPv6.
///
/// Fewer bytes than a BTH are not a packet; they count as if zeros followed.
#[inline]
pub fn compute(flow: &Flow, identification: u16, ib: &[u8]) -> u32 {
    let short;
    let (bth, rest) = match ib.split_first_chunk() {
        Some(parts) => parts,
        None => {
            short = zero_extended(ib);
            (&short, &[][..])
        }
    };
    let udp = udp_of(flow, ib.len());
    let mut hasher = Hasher::new();
    match flow.addresses() {
        Addresses::V4(source, destination) => {
            hasher.update(&image::ipv4(source, destination, identification, udp, bth));
        }
        Addresses::V6(source, destination) => {
            hasher.update(&image::ipv6(source, destination, udp, bth));
        }
    }
    hasher.update(rest);
    hasher.finalize()
}

/// Checks a packet from BTH to ICRC, as a UDP socket delivers it.
///
/// If the ICRC is wrong with the expected identification and the flow is IPv4, the function computes
/// the identification that makes it correct. It always rejects a packet with one flipped bit;
/// other damage passes as [`Check::Identification`] with probability 2^-16.
#[inline]
pub fn check(flow: &Flow, ib_and_icrc: &[u8], expected_identification: u16) -> Check {
    let Some((ib, icrc)) = ib_and_icrc.split_last_chunk::<ICRC_LEN>() else {
        return Check::Bad;
    };
    if ib.len() < Bth::LEN {
        return Check::Bad;
    }
    explain(flow, ib, compute(flow, expected_identification, ib) ^ u32::from_le_bytes(*icrc), expected_identification)
}

/// The verdict on a packet whose ICRC differs from the expected one by `difference` (their XOR).
#[inline]
fn explain(flow: &Flow, ib: &[u8], difference: u32, expected_identification: u16) -> Check {
    match difference {
        0 => Check::Good,
        difference => check_identification(flow, ib, difference, expected_identification),
    }
}

/// The variable fields of the UDP header of a packet with `ib_bytes` bytes from BTH to pad. The length of packets
/// that UDP cannot carry wraps: no such packet exists whose ICRC could be compared.
#[inline]
fn udp_of(flow: &Flow, ib_bytes: usize) -> image::UdpFields {
    image::UdpFields { source_port: flow.source_port, len_bytes: ib_bytes.wrapping_add(Udp::LEN + ICRC_LEN) as u16 }
}

/// Not inlined: between peers of this library the expected identification is correct.
#[cold]
#[inline(never)]
fn check_identification(flow: &Flow, ib: &[u8], difference: u32, expected: u16) -> Check {
    if !flow.is_ipv4() {
        return Check::Bad;
    }
    let bytes_after = IPV4_BYTES_AFTER_IDENTIFICATION + Udp::LEN + ib.len();
    match solve::identification_difference(difference, bytes_after) {
        Some(flipped) => Check::Identification(expected ^ flipped),
        None => Check::Bad,
    }
}

/// Flags, TTL, protocol, checksum and addresses.
const IPV4_BYTES_AFTER_IDENTIFICATION: usize = Ipv4::LEN - 6;

#[cold]
fn zero_extended(short: &[u8]) -> [u8; Bth::LEN] {
    let mut bth = [0; Bth::LEN];
    bth[..short.len()].copy_from_slice(short);
    bth
}
