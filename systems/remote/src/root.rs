//! The record from which readers start: where a table's slots are, and a count of their moves.
//!
//! ```text
//!  0            8                   16      24     32     40      48      56     64
//! | epoch moves | magic layout check| epoch | area | main | spare | extra | salt | CRC64 of 8..64 |
//! ```
//! The first word changes alone, whenever slots move within the table. A reader that finds no slot for its key compares it
//! with the word that it had read *before* its search: only an unchanged, even count proves that the key was absent. The
//! epoch counts the areas that the table has had. It stands in both parts, so a reader never takes the parts of two
//! moments for one record.

use crate::layout::TableShape;
use crate::memory::{WordMemory, word_at};

/// Bytes of a root record.
pub const ROOT_BYTES: u64 = 128;
const MAGIC: u64 = u64::from_le_bytes(*b"\0\0\0LARM1");
const SUMMED: std::ops::Range<usize> = 8..64;

/// A copy of a table's root record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootCopy {
    /// Epoch in the upper half; moves in the lower half, odd while slots move.
    pub(crate) sequence: u64,
    pub(crate) shape: TableShape,
    /// The secret of the table.
    pub(crate) salt: u64,
}

/// The reason why bytes are no root record of the wanted kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootFault {
    /// A writer was in between, or there is no table here.
    Torn,
    /// The record is whole, and of a table with another layout, check or version of the format.
    OtherFormat,
}

/// The check over the middle of a record.
pub(crate) fn record_check(bytes: &[u8]) -> u64 {
    crc_fast::crc64_nvme(bytes)
}

/// True if the bytes are a whole record of that layout and check, but for the first word.
pub(crate) fn checked_format(bytes: &[u8], layout: u8, check: u8) -> Result<(), RootFault> {
    let summed = bytes.get(SUMMED).ok_or(RootFault::Torn)?;
    if bytes.len() < 72 || record_check(summed) != word_at(bytes, 64) || word_at(bytes, 8) == 0 {
        return Err(RootFault::Torn);
    }
    if word_at(bytes, 8) == format_word(layout, check) { Ok(()) } else { Err(RootFault::OtherFormat) }
}

/// Magic, layout and check in one word.
pub(crate) fn format_word(layout: u8, check: u8) -> u64 {
    MAGIC | u64::from(layout) << 8 | u64::from(check)
}

impl RootCopy {
    /// True if no slot moved while this was read.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.sequence & 1 == 0
    }

    /// Reads the bytes of a record.
    pub(crate) fn decode(bytes: &[u8], layout: u8, check: u8) -> Result<RootCopy, RootFault> {
        let word = |number: usize| word_at(bytes, number * 8);
        checked_format(bytes, layout, check)?;
        if word(0) >> 32 != word(2) {
            return Err(RootFault::Torn);
        }
        let shape = TableShape { area: word(3), main: word(4), spare: word(5), extra: word(6) };
        Ok(RootCopy { sequence: word(0), shape, salt: word(7) })
    }

    /// Stores all of the record; the first word last.
    pub(crate) fn store<M: WordMemory>(&self, memory: &M, at: u64, layout: u8, check: u8) {
        let TableShape { area, main, spare, extra } = self.shape;
        let words = [format_word(layout, check), self.sequence >> 32, area, main, spare, extra, self.salt];
        let mut bytes = [0; 64];
        for (place, word) in bytes.chunks_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = record_check(&bytes[..56]);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        memory.copy_in(at + 8, &bytes);
        memory.store(at, self.sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::PlainMemory;

    #[test]
    fn a_record_comes_back_and_parts_of_two_epochs_do_not() {
        let memory = PlainMemory::new(ROOT_BYTES);
        let shape = TableShape { area: 128, main: 2, spare: 3, extra: 4 };
        let read = || {
            let mut bytes = [0; ROOT_BYTES as usize];
            memory.copy_out(0, &mut bytes);
            bytes
        };
        assert_eq!(RootCopy::decode(&read(), 1, 1), Err(RootFault::Torn));
        let first = RootCopy { sequence: 1 << 32, shape, salt: 9 };
        first.store(&memory, 0, 1, 1);
        assert_eq!(RootCopy::decode(&read(), 1, 1), Ok(first));
        assert_eq!(RootCopy::decode(&read(), 2, 1), Err(RootFault::OtherFormat));
        assert_eq!(RootCopy::decode(&read()[..64], 1, 1), Err(RootFault::Torn));
        let old = read();
        let second = RootCopy { sequence: 2 << 32, shape: TableShape { main: 4, ..shape }, salt: 9 };
        second.store(&memory, 0, 1, 1);
        let mut mixture = read();
        mixture[..8].copy_from_slice(&old[..8]);
        assert_eq!(RootCopy::decode(&mixture, 1, 1), Err(RootFault::Torn));
        mixture = old;
        mixture[..8].copy_from_slice(&read()[..8]);
        assert_eq!(RootCopy::decode(&mixture, 1, 1), Err(RootFault::Torn));
    }
}
