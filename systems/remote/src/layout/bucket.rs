//! Slots of 16 bytes: the location, then the tag of the key.
//!
//! The writer stores the tag first and the location last, and empties a slot by its location alone. A reader may get the
//! words of two moments: then the object that the location leads to has another key, and is not taken for a match.

use crate::layout::table_layout::Candidate;
use crate::memory::{WordMemory, word_at};
use crate::object::{Location, SlotKind};

pub(crate) const SLOT_BYTES: u64 = 16;
/// Candidates that one READ can bring.
const ROOM: usize = 8;

/// The candidates of the last READ, and how many of them were taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidateList {
    list: [Candidate; ROOM],
    taken: u8,
    len: u8,
}

impl CandidateList {
    pub(crate) fn new() -> CandidateList {
        CandidateList {
            list: [Candidate { location: Location::EMPTY, slot_at: 0, tag_mask: 0 }; ROOM],
            taken: 0,
            len: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        (self.taken, self.len) = (0, 0);
    }

    /// Adds the slot at `offset` of the bytes, if it has an object and these bits of the tag.
    pub(crate) fn look(&mut self, bytes: &[u8], offset: u64, slot_at: u64, tag: u64, tag_mask: u64) {
        let location = Location::from_word(word_at(bytes, offset as usize));
        let differs = (word_at(bytes, offset as usize + 8) ^ tag) & tag_mask;
        let is_match = location.kind() == SlotKind::Object && differs == 0;
        if is_match && usize::from(self.len) < ROOM {
            self.list[usize::from(self.len)] = Candidate { location, slot_at, tag_mask };
            self.len += 1;
        }
    }

    pub(crate) fn next(&mut self) -> Option<Candidate> {
        let next = self.list[..usize::from(self.len)].get(usize::from(self.taken)).copied();
        self.taken += u8::from(next.is_some());
        next
    }
}

/// Fills a slot.
pub(crate) fn fill_slot<M: WordMemory>(memory: &M, slot_at: u64, tag: u64, location: Location) {
    memory.store(slot_at + 8, tag);
    memory.store(slot_at, location.word());
}

/// The location in a slot, if it has one.
pub(crate) fn location_in<M: WordMemory>(memory: &M, slot_at: u64) -> Option<Location> {
    Some(Location::from_word(memory.load(slot_at))).filter(|location| location.kind() == SlotKind::Object)
}
