//! Hash slots: the units of placement, exactly those of Redis Cluster.

use std::fmt;

use crc::{CRC_16_XMODEM, Crc};

/// The number of hash slots.
pub const SLOTS: u16 = 16_384;

const CRC16: Crc<u16, crc::Table<16>> = Crc::<u16, crc::Table<16>>::new(&CRC_16_XMODEM);

/// One of the [`SLOTS`] hash slots. All keys of a slot are with the same members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashSlot(u16);

impl HashSlot {
    /// The slot with that number; `None` from [`SLOTS`] on.
    pub const fn new(number: u16) -> Option<HashSlot> {
        if number < SLOTS { Some(HashSlot(number)) } else { None }
    }

    /// The slot of a key: CRC16/XMODEM modulo 16,384. If the key has a `{`, and a `}` behind it with something in between,
    /// only the bytes between the first such two count. (Redis Cluster specification, "Hash tags".)
    ///
    /// ```
    /// use longarm_cluster::HashSlot;
    ///
    /// assert_eq!(HashSlot::of_key(b"foo").number(), 12_182);
    /// assert_eq!(HashSlot::of_key(b"{user1000}.following"), HashSlot::of_key(b"{user1000}.followers"));
    /// ```
    pub fn of_key(key: &[u8]) -> HashSlot {
        HashSlot(CRC16.checksum(hashed_part(key)) % SLOTS)
    }

    /// The number: 0 to 16,383.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for HashSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The bytes of a key that are hashed.
fn hashed_part(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let behind = &key[open + 1..];
    match behind.iter().position(|byte| *byte == b'}') {
        Some(length) if length > 0 => &behind[..length],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Redis answers the same to `CLUSTER KEYSLOT`.
    #[test]
    fn slots_are_those_of_redis() {
        for (key, slot) in [("123456789", 0x31c3), ("foo", 12_182), ("bar", 5061), ("hello", 866), ("", 0)] {
            assert_eq!(HashSlot::of_key(key.as_bytes()).number(), slot, "{key}");
        }
    }

    /// The examples of the Redis Cluster specification.
    #[test]
    fn only_the_first_tag_that_is_not_empty_counts() {
        for (key, part) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("foo}bar{", "foo}bar{"),
        ] {
            assert_eq!(hashed_part(key.as_bytes()), part.as_bytes(), "{key}");
        }
    }

    #[test]
    fn there_are_16384_slots() {
        assert_eq!(HashSlot::new(16_383).map(HashSlot::number), Some(16_383));
        assert_eq!(HashSlot::new(16_384), None);
    }
}
