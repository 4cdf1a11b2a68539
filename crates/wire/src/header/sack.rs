//! Selective ACK: a header of Longarm's own, used only between two ends that both support it
//! (see [`Mark`](crate::Mark)).

/// A bitmap of packets that arrived although packets before them are missing. It counts from the PSN
/// of the packet that carries it; all packets before that PSN arrived.
///
/// ```text
///  bit 0 of word 0: the packet with the PSN itself, bit 1: the next one, ... bit 63 of word 3: PSN + 255
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sack {
    /// One bit for each packet, lowest bit first.
    pub arrived: [u64; Sack::WORDS],
}

impl Sack {
    /// Bytes on the wire: the words in network order.
    pub const LEN: usize = Sack::WORDS * 8;
    /// Words of the bitmap.
    pub const WORDS: usize = 4;
    /// Number of packets that the bitmap covers.
    pub const BITS: u32 = 64 * Sack::WORDS as u32;

    /// Reads every field.
    #[inline]
    pub fn decode(bytes: &[u8; Sack::LEN]) -> Sack {
        let (words, _) = bytes.as_chunks::<8>();
        let mut arrived = [0; Sack::WORDS];
        arrived.iter_mut().zip(words).for_each(|(word, bytes)| *word = u64::from_be_bytes(*bytes));
        Sack { arrived }
    }

    /// Writes every field.
    #[inline]
    pub fn encode(&self) -> [u8; Sack::LEN] {
        let mut bytes = [0; Sack::LEN];
        let (words, _) = bytes.as_chunks_mut::<8>();
        words.iter_mut().zip(self.arrived).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
        bytes
    }

    /// Whether the packet `offset` after the PSN arrived; `false` beyond the bitmap.
    #[inline]
    pub fn has(&self, offset: u32) -> bool {
        self.arrived.get(offset as usize / 64).is_some_and(|word| word >> (offset % 64) & 1 != 0)
    }

    /// Notes that the packet `offset` after the PSN arrived. Offsets beyond the bitmap are ignored.
    #[inline]
    pub fn set(&mut self, offset: u32) {
        if let Some(word) = self.arrived.get_mut(offset as usize / 64) {
            *word |= 1 << (offset % 64);
        }
    }

    /// The largest offset that is set.
    pub fn highest(&self) -> Option<u32> {
        let (index, word) = self.arrived.iter().enumerate().rev().find(|(_, word)| **word != 0)?;
        Some(index as u32 * 64 + 63 - word.leading_zeros())
    }

    /// The same packets, counted from a PSN that lies `by` packets later.
    #[must_use]
    pub fn forward(&self, by: u32) -> Sack {
        let mut moved = Sack::default();
        let (words, bits) = (by as usize / 64, by % 64);
        for (to, word) in moved.arrived.iter_mut().enumerate() {
            let part = |index: usize| self.arrived.get(index).copied().unwrap_or(0);
            let (low, high) = (part(to.saturating_add(words)), part(to.saturating_add(words).saturating_add(1)));
            *word = low >> bits | high.checked_shl(64 - bits).unwrap_or(0);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(offsets: &[u32]) -> Sack {
        let mut sack = Sack::default();
        offsets.iter().for_each(|offset| sack.set(*offset));
        sack
    }

    #[test]
    fn bytes_are_in_network_order() {
        let bytes = of(&[0, 63, 64, 255]).encode();
        assert_eq!(bytes[..8], [0x80, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[8..16], [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[24..], [0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Sack::decode(&bytes), of(&[0, 63, 64, 255]));
    }

    #[test]
    fn bits_are_found_where_they_were_set() {
        for offset in 0..Sack::BITS {
            let sack = of(&[offset]);
            assert!(sack.has(offset));
            assert_eq!(sack.highest(), Some(offset));
            assert_eq!((0..Sack::BITS + 99).filter(|o| sack.has(*o)).count(), 1);
        }
        assert_eq!(of(&[Sack::BITS, u32::MAX]), Sack::default());
        assert_eq!(Sack::default().highest(), None);
    }

    #[test]
    fn moving_forward_keeps_the_packets() {
        let offsets: [u32; 10] = [0, 1, 5, 63, 64, 65, 127, 128, 200, 255];
        for by in (0..260).chain([u32::MAX]) {
            let left: Vec<u32> = offsets.iter().filter_map(|offset| offset.checked_sub(by)).collect();
            assert_eq!(of(&offsets).forward(by), of(&left), "by {by}");
        }
    }
}
