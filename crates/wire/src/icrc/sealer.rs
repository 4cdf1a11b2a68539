//! The ICRC of the packets of one flow, quicker than each by itself.
//!
//! What comes before the BTH is the same for all packets of a flow that have one length, but for the IPv4
//! identification. So its CRC is kept, for a few lengths, and goes on over the packet as it is; CRC is linear, so
//! what the identification and the masked byte of the BTH change is added to the result. For short packets that
//! saves a third of the work.

use core::cell::Cell;

use crc32fast::Hasher;

use crate::ICRC_LEN;
use crate::flow::{Addresses, Flow};
use crate::header::Bth;
use crate::icrc::{Check, IPV4_BYTES_AFTER_IDENTIFICATION, compute, explain, image, solve, udp_of};
use crate::ip::Udp;

/// Lengths that are known at a time: each has one place where it can be. An acknowledge, the shortest packet, shares
/// none with full packets.
const LENGTHS: usize = 4;
/// Longer packets than the largest path MTU with all headers are not worth knowing.
const LONGEST_BYTES: usize = 4352;
/// Of a group of segments each has the identification of its place.
const IDENTIFICATIONS: usize = 64;

/// The byte of the BTH with FECN, BECN and six bits of the [`Mark`](crate::Mark), which counts as ones.
const MASKED_BYTE: usize = 4;

static ZEROS: [u8; LONGEST_BYTES] = [0; LONGEST_BYTES];

/// What an identification changes in the CRC of everything before the BTH.
static OF_IDENTIFICATION: [u32; IDENTIFICATIONS] = {
    let mut changes = [0; IDENTIFICATIONS];
    let mut identification = 0;
    while identification < IDENTIFICATIONS {
        changes[identification] =
            solve::of_identification(identification as u16, IPV4_BYTES_AFTER_IDENTIFICATION + Udp::LEN);
        identification += 1;
    }
    changes
};

/// Computes and checks the ICRCs of one flow.
#[derive(Clone, Debug)]
pub struct Sealer {
    flow: Flow,
    has_identifications: bool,
    known: [Cell<Known>; LENGTHS],
}

/// What is the same for all packets of one length.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    /// From BTH to pad. 0: nothing is known yet.
    len_bytes: u16,
    /// Of the last packet of an unknown length: worth knowing if it comes once more.
    other_len_bytes: u16,
    /// CRC of what comes before the BTH, with identification 0.
    before: u32,
    /// What it changes that the masked byte counts as ones where it is zero.
    masked: u32,
    /// What each bit of the masked byte changes, lowest first.
    of_bits: [u32; 8],
}

impl Sealer {
    /// For packets of this flow.
    pub fn new(flow: Flow) -> Sealer {
        Sealer { flow, has_identifications: flow.is_ipv4(), known: Default::default() }
    }

    /// Where its packets come from and go to.
    #[inline]
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// As [`compute`](super::compute).
    #[inline]
    pub fn compute(&self, identification: u16, ib: &[u8]) -> u32 {
        self.quick(identification, ib).unwrap_or_else(|| compute(&self.flow, identification, ib))
    }

    /// As [`check`](super::check).
    #[inline]
    pub fn check(&self, ib_and_icrc: &[u8], expected_identification: u16) -> Check {
        let Some((ib, icrc)) = ib_and_icrc.split_last_chunk::<ICRC_LEN>() else { return Check::Bad };
        if ib.len() < Bth::LEN {
            return Check::Bad;
        }
        let difference = self.compute(expected_identification, ib) ^ u32::from_le_bytes(*icrc);
        explain(&self.flow, ib, difference, expected_identification)
    }

    /// `None` if too little is known yet, or the packet is not a common one.
    #[inline]
    fn quick(&self, identification: u16, ib: &[u8]) -> Option<u32> {
        let place = &self.known[ib.len() / 4 % LENGTHS];
        let known = place.get();
        if usize::from(known.len_bytes) != ib.len() {
            self.meet(place, ib.len());
            return None;
        }
        let change = OF_IDENTIFICATION.get(usize::from(identification))?;
        let byte = *ib.get(MASKED_BYTE)?;
        let masked = if byte == 0 { known.masked } else { known.masked ^ of_byte(&known.of_bits, byte) };
        let before = known.before ^ if self.has_identifications { *change } else { 0 };
        let mut hasher = Hasher::new_with_initial(before);
        hasher.update(ib);
        Some(hasher.finalize() ^ masked)
    }

    /// A packet of an unknown length: the second makes it known.
    #[cold]
    fn meet(&self, place: &Cell<Known>, len_bytes: usize) {
        let Ok(len) = u16::try_from(len_bytes) else { return };
        let known = place.get();
        if !(Bth::LEN..LONGEST_BYTES).contains(&len_bytes) || known.other_len_bytes != len {
            place.set(Known { other_len_bytes: len, ..known });
            return;
        }
        let before = before_bth(&self.flow, len_bytes);
        let change = |byte| of_masked_byte(len_bytes, byte);
        let of_bits = core::array::from_fn(|bit| change(1 << bit));
        place.set(Known { len_bytes: len, other_len_bytes: 0, before, masked: change(0xff), of_bits });
    }
}

/// CRC of what comes before the BTH of a packet, with identification 0.
fn before_bth(flow: &Flow, len_bytes: usize) -> u32 {
    let (udp, bth) = (udp_of(flow, len_bytes), &[0; Bth::LEN]);
    let cut = |image: &[u8]| crc32fast::hash(&image[..image.len() - Bth::LEN]);
    match flow.addresses() {
        Addresses::V4(source, destination) => cut(&image::ipv4(source, destination, 0, udp, bth)),
        Addresses::V6(source, destination) => cut(&image::ipv6(source, destination, udp, bth)),
    }
}

/// What it changes in the CRC of a packet of this length that its masked byte is `byte` instead of zero.
fn of_masked_byte(len_bytes: usize, byte: u8) -> u32 {
    let with = |byte: u8| {
        let mut hasher = Hasher::new();
        hasher.update(&[byte]);
        hasher.update(&ZEROS[..len_bytes - MASKED_BYTE - 1]);
        hasher.finalize()
    };
    with(byte) ^ with(0)
}

/// The same from what each bit changes: CRC is linear.
#[inline]
fn of_byte(of_bits: &[u32; 8], byte: u8) -> u32 {
    let changes =
        of_bits.iter().enumerate().map(|(bit, change)| change & 0u32.wrapping_sub(u32::from(byte >> bit & 1)));
    changes.fold(0, |sum, change| sum ^ change)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Through all states of knowing, and whatever the masked byte and the identification are.
    #[test]
    fn agrees_with_the_plain_computation() {
        let v4 = Flow { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), source_port: 0xc001 };
        let ip = |text: &str| text.parse().expect("an address");
        let v6 = Flow { source: ip("fd00::1"), destination: ip("fd00::2"), source_port: 0xc001 };
        let mapped = Flow { source: ip("::ffff:10.0.0.1"), ..v4 };
        for flow in [v4, v6, mapped] {
            let sealer = Sealer::new(flow);
            let lengths =
                [16, 16, 16, 76, 76, 92, 76, 76, 16, 16, 0, 0, 11, 11, 12, 12, 4188, 4188, 4188, 4352, 4352, 65_000];
            for (round, len) in lengths.into_iter().cycle().take(5 * lengths.len()).enumerate() {
                let mut ib: Vec<u8> = (0..len).map(|i| (i * 31 + round) as u8).collect();
                for (flags, identification) in
                    [(0, 0), (0, 1), (0x40, 0), (0xff, 7), (0x15, 3), (0x3f, 0), (0, 63), (0, 64), (0, 0xbeef)]
                {
                    ib.iter_mut().skip(MASKED_BYTE).take(1).for_each(|byte| *byte = flags);
                    let icrc = compute(&flow, identification, &ib);
                    assert_eq!(sealer.compute(identification, &ib), icrc, "{len} bytes, {flags:#x}, {identification}");
                    let mut sealed = ib.clone();
                    sealed.extend_from_slice(&icrc.to_le_bytes());
                    for guess in [identification, 0, 5] {
                        assert_eq!(sealer.check(&sealed, guess), crate::icrc::check(&flow, &sealed, guess));
                    }
                }
            }
        }
    }

    #[test]
    fn a_length_is_known_from_its_second_packet_on() {
        let flow = Flow { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), source_port: 0xc001 };
        let sealer = Sealer::new(flow);
        let quick = |len: usize| sealer.quick(0, &vec![0; len]).is_some();
        assert_eq!([quick(76), quick(76), quick(76)], [false, false, true]);
        assert_eq!([quick(92), quick(76), quick(92), quick(92)], [false, true, false, true], "of the same place");
        assert_eq!([quick(5000), quick(5000), quick(5000)], [false; 3], "too long");
        assert!(sealer.quick(0, &[0x3f; 92]).is_some(), "a mark costs nothing");
    }
}
