//! The ICRC of the packets of one flow, with cached CRC prefixes.
//!
//! The bytes before the BTH are the same for all packets of a flow that have one length, except for the IPv4
//! identification. The sealer keeps their CRC for a few lengths and continues it over the unmasked packet. CRC is
//! linear, so it adds the changes from the identification and from the masked byte of the BTH to the result. For
//! short packets this saves a third of the work.

use core::cell::Cell;

use crc32fast::Hasher;

use crate::ICRC_LEN;
use crate::flow::{Addresses, Flow};
use crate::header::Bth;
use crate::icrc::{Check, IPV4_BYTES_AFTER_IDENTIFICATION, compute, explain, image, solve, udp_of};
use crate::ip::Udp;

/// Number of cached lengths; the cache is direct-mapped. An ACK, the shortest packet, shares no entry with
/// full packets.
const LENGTHS: usize = 4;
/// Packets longer than the largest path MTU with all headers are not cached.
const LONGEST_BYTES: usize = 4352;
/// The segments of a GSO group have consecutive identifications, starting at 0.
const IDENTIFICATIONS: usize = 64;

/// The byte of the BTH with FECN, BECN and six bits of the [`Mark`](crate::Mark); the ICRC counts it as ones.
const MASKED_BYTE: usize = 4;

static ZEROS: [u8; LONGEST_BYTES] = [0; LONGEST_BYTES];

/// The change that an identification makes to the CRC of the bytes before the BTH.
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
    cache: [Cell<CachedLength>; LENGTHS],
}

/// The cached CRC parts of all packets of one length.
#[derive(Clone, Copy, Default, Debug)]
struct CachedLength {
    /// Length from BTH to pad. 0: the entry is empty.
    len_bytes: u16,
    /// Length of the last packet that missed the cache; a second miss in a row with this length fills the entry.
    other_len_bytes: u16,
    /// CRC of the bytes before the BTH, with identification 0.
    before: u32,
    /// The change to the CRC because the masked byte counts as ones where it is zero.
    masked: u32,
    /// The change that each bit of the masked byte makes, lowest bit first.
    of_bits: [u32; 8],
}

impl Sealer {
    /// A sealer for packets of this flow, with an empty cache.
    pub fn new(flow: Flow) -> Sealer {
        Sealer { flow, has_identifications: flow.is_ipv4(), cache: Default::default() }
    }

    /// The addresses of its packets.
    #[inline]
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The same result as [`compute`](super::compute).
    #[inline]
    pub fn compute(&self, identification: u16, ib: &[u8]) -> u32 {
        self.cached_icrc(identification, ib).unwrap_or_else(|| compute(&self.flow, identification, ib))
    }

    /// The same result as [`check`](super::check).
    #[inline]
    pub fn check(&self, ib_and_icrc: &[u8], expected_identification: u16) -> Check {
        let Some((ib, icrc)) = ib_and_icrc.split_last_chunk::<ICRC_LEN>() else { return Check::Bad };
        if ib.len() < Bth::LEN {
            return Check::Bad;
        }
        let difference = self.compute(expected_identification, ib) ^ u32::from_le_bytes(*icrc);
        explain(&self.flow, ib, difference, expected_identification)
    }

    /// The ICRC from the cache; `None` if the cache lacks the packet's length or the identification is uncommon.
    #[inline]
    fn cached_icrc(&self, identification: u16, ib: &[u8]) -> Option<u32> {
        let entry = &self.cache[ib.len() / 4 % LENGTHS];
        let cached = entry.get();
        if usize::from(cached.len_bytes) != ib.len() {
            self.note_miss(entry, ib.len());
            return None;
        }
        let change = OF_IDENTIFICATION.get(usize::from(identification))?;
        let byte = *ib.get(MASKED_BYTE)?;
        let masked = if byte == 0 { cached.masked } else { cached.masked ^ of_byte(&cached.of_bits, byte) };
        let before = cached.before ^ if self.has_identifications { *change } else { 0 };
        let mut hasher = Hasher::new_with_initial(before);
        hasher.update(ib);
        Some(hasher.finalize() ^ masked)
    }

    /// Handles a packet whose length is not cached: the second such packet fills the entry.
    #[cold]
    fn note_miss(&self, entry: &Cell<CachedLength>, len_bytes: usize) {
        let Ok(len) = u16::try_from(len_bytes) else { return };
        let cached = entry.get();
        if !(Bth::LEN..LONGEST_BYTES).contains(&len_bytes) || cached.other_len_bytes != len {
            entry.set(CachedLength { other_len_bytes: len, ..cached });
            return;
        }
        let before = before_bth(&self.flow, len_bytes);
        let change = |byte| of_masked_byte(len_bytes, byte);
        let of_bits = core::array::from_fn(|bit| change(1 << bit));
        entry.set(CachedLength { len_bytes: len, other_len_bytes: 0, before, masked: change(0xff), of_bits });
    }
}

/// CRC of the bytes before the BTH of a packet, with identification 0.
fn before_bth(flow: &Flow, len_bytes: usize) -> u32 {
    let (udp, bth) = (udp_of(flow, len_bytes), &[0; Bth::LEN]);
    let cut = |image: &[u8]| crc32fast::hash(&image[..image.len() - Bth::LEN]);
    match flow.addresses() {
        Addresses::V4(source, destination) => cut(&image::ipv4(source, destination, 0, udp, bth)),
        Addresses::V6(source, destination) => cut(&image::ipv6(source, destination, udp, bth)),
    }
}

/// The change in the CRC of a packet of this length when its masked byte is `byte` instead of zero.
fn of_masked_byte(len_bytes: usize, byte: u8) -> u32 {
    let with = |byte: u8| {
        let mut hasher = Hasher::new();
        hasher.update(&[byte]);
        hasher.update(&ZEROS[..len_bytes - MASKED_BYTE - 1]);
        hasher.finalize()
    };
    with(byte) ^ with(0)
}

/// The same change, composed of the changes of single bits: CRC is linear.
#[inline]
fn of_byte(of_bits: &[u32; 8], byte: u8) -> u32 {
    let changes =
        of_bits.iter().enumerate().map(|(bit, change)| change & 0u32.wrapping_sub(u32::from(byte >> bit & 1)));
    changes.fold(0, |sum, change| sum ^ change)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In all states of the cache, for any masked byte and identification.
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
        let cached_icrc = |len: usize| sealer.cached_icrc(0, &vec![0; len]).is_some();
        assert_eq!([cached_icrc(76), cached_icrc(76), cached_icrc(76)], [false, false, true]);
        assert_eq!(
            [cached_icrc(92), cached_icrc(76), cached_icrc(92), cached_icrc(92)],
            [false, true, false, true],
            "of the same entry"
        );
        assert_eq!([cached_icrc(5000), cached_icrc(5000), cached_icrc(5000)], [false; 3], "too long");
        assert!(sealer.cached_icrc(0, &[0x3f; 92]).is_some(), "a mark costs nothing");
    }
}
