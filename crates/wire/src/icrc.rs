//! The invariant CRC that ends every packet: CRC-32 over everything that does not change
//! on the way (Annex A17).
//!
//! ```text
//!  8 bytes of ones | IP | UDP | BTH | extension headers | payload | pad  ->  ICRC
//! ```
//!
//! Fields that routers change count as all ones: IPv4 TOS, TTL and header checksum; IPv6 traffic
//! class, flow label and hop limit; the UDP checksum; in the BTH the byte with FECN and BECN.
//! On the wire the result is little-endian: [`u32::to_le_bytes`].
//!
//! The IPv4 identification is covered too, but a UDP socket does not show it. So
//! [`check`] is given a guess, and solves for the real one if the guess is wrong: that
//! leaves 16 of the 32 bits to find errors with. IPv4 packets are taken to have "don't
//! fragment" set, as RoCEv2 senders do.
//!
//! This module owns the arithmetic only. Whether a packet with an unexpected
//! identification is welcome, the caller decides.

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

/// What [`check`] found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Check {
    /// Right, with the expected identification if it is IPv4.
    Good,
    /// Right if this is the packet's IPv4 identification, which was not the expected one.
    Identification(u16),
    /// Wrong: the packet was damaged, or is no packet.
    Bad,
}

/// The ICRC of a packet, of which `ib` is BTH to pad. `identification` is the IPv4
/// header's; IPv6 has none and ignores it.
///
/// Fewer bytes than a BTH are no packet; they count as if zeros followed.
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
/// If the ICRC is not right with the expected identification, and the flow is IPv4, the
/// identification that makes it right is computed. A packet with one flipped bit is always
/// found bad; other damage passes as [`Check::Identification`] with probability 2^-16.
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

/// What it means that the ICRC is different from what was expected by so much.
#[inline]
fn explain(flow: &Flow, ib: &[u8], difference: u32, expected_identification: u16) -> Check {
    match difference {
        0 => Check::Good,
        difference => check_identification(flow, ib, difference, expected_identification),
    }
}

/// What varies of the UDP header of a packet with so many bytes from BTH to pad. Longer packets than UDP can carry have
/// no ICRC that anyone could compare; their length wraps.
#[inline]
fn udp_of(flow: &Flow, ib_bytes: usize) -> image::Udp {
    image::Udp { source_port: flow.source_port, len_bytes: ib_bytes.wrapping_add(Udp::LEN + ICRC_LEN) as u16 }
}

/// Not inlined: between peers of this library the expected identification is right.
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
