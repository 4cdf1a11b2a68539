//! Places of objects: size classes, and the word of a slot that leads to an object.
//!
//! ```text
//!  63  62 61          48 47        42 41                0
//! | kind | incarnation  | size class | offset / 64       |
//! ```
//! (Wei, Shi, Chen, Chen, Chen: "Fast In-memory Transaction Processing using RDMA and HTM", SOSP 2015, figure 8, has type 2,
//! incarnation 14, offset 48. Six bits of the offset tell the length here, so one READ fetches values of any length.)

use std::fmt;

use crate::object::header::INCARNATION_BITS;

/// Objects and areas begin at multiples of this.
pub(crate) const LINE_BYTES: u64 = 64;

/// The length of a block: 64 bytes, then two classes for each power of two from 128 bytes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

impl SizeClass {
    /// Number of classes. The largest block has 192 GiB.
    pub const COUNT: usize = 63;

    /// The smallest class whose blocks have at least `len_bytes`; `None` if there is none.
    pub fn of(len_bytes: u64) -> Option<SizeClass> {
        let first = len_bytes.max(1).ilog2().saturating_sub(7) as u8 * 2;
        (first..SizeClass::COUNT as u8).map(SizeClass).find(|class| class.bytes() >= len_bytes)
    }

    /// The class with that number, if there is one.
    pub fn from_index(index: u8) -> Option<SizeClass> {
        (usize::from(index) < SizeClass::COUNT).then_some(SizeClass(index))
    }

    /// Its number.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Bytes of its blocks.
    pub fn bytes(self) -> u64 {
        match self.0 {
            0 => 64,
            odd if odd % 2 == 1 => 128 << (odd / 2),
            even => 192 << (even / 2 - 1),
        }
    }
}

/// The kinds of words in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    Empty,
    Object,
}

/// The word of a slot that leads to an object: its place, its size class, and 14 bits of its incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location(u64);

impl Location {
    /// The word of an empty slot.
    pub(crate) const EMPTY: Location = Location(0);
    /// One more than the highest offset.
    pub(crate) const MAX_OFFSET: u64 = LINE_BYTES << 42;

    /// The location of a block. The offset is a multiple of 64 below 2^48.
    pub(crate) fn new(offset: u64, class: SizeClass, incarnation: u16) -> Location {
        debug_assert!(offset.is_multiple_of(LINE_BYTES) && offset < Location::MAX_OFFSET);
        let incarnation = u64::from(incarnation) & ((1 << INCARNATION_BITS) - 1);
        Location(1 << 62 | incarnation << 48 | u64::from(class.0) << 42 | (offset / LINE_BYTES))
    }

    /// The location that a word stands for.
    pub fn from_word(word: u64) -> Location {
        Location(word)
    }

    /// The word for it.
    pub fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn kind(self) -> SlotKind {
        let is_object = self.0 >> 62 == 1 && (self.0 >> 42 & 63) < SizeClass::COUNT as u64;
        if is_object { SlotKind::Object } else { SlotKind::Empty }
    }

    /// Where the object begins, from the start of the table's memory.
    pub fn offset(self) -> u64 {
        (self.0 & ((1 << 42) - 1)) * LINE_BYTES
    }

    /// The class of its block.
    pub fn class(self) -> SizeClass {
        SizeClass((self.0 >> 42 & 63).min(SizeClass::COUNT as u64 - 1) as u8)
    }

    /// The incarnation of the object that it was made for.
    pub fn incarnation(self) -> u16 {
        (self.0 >> 48 & ((1 << INCARNATION_BITS) - 1)) as u16
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            SlotKind::Empty => f.write_str("empty"),
            SlotKind::Object => {
                write!(f, "{} B at {:#x}, i{}", self.class().bytes(), self.offset(), self.incarnation())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_the_smallest_that_fits() {
        let mut before = 0;
        for index in 0..SizeClass::COUNT as u8 {
            let class = SizeClass::from_index(index).unwrap();
            assert!(class.bytes() > before && class.bytes().is_multiple_of(64), "{class:?}");
            assert_eq!(SizeClass::of(class.bytes()), Some(class));
            assert_eq!(SizeClass::of(before + 1), Some(class));
            before = class.bytes();
        }
        assert_eq!(SizeClass::of(0).unwrap().bytes(), 64);
        assert_eq!((SizeClass::of(before + 1), SizeClass::from_index(63)), (None, None));
        assert_eq!(SizeClass::of(700).unwrap().bytes(), 768);
    }

    #[test]
    fn a_location_is_its_fields() {
        let class = SizeClass::of(512 << 20).unwrap();
        let location = Location::new(Location::MAX_OFFSET - 64, class, 0x3fff);
        assert_eq!(location.kind(), SlotKind::Object);
        assert_eq!((location.offset(), location.class(), location.incarnation()), ((1 << 48) - 64, class, 0x3fff));
        assert_eq!(Location::EMPTY.kind(), SlotKind::Empty);
        assert_eq!(Location::from_word(1 << 62 | 63 << 42).kind(), SlotKind::Empty);
    }
}
