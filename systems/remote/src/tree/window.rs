//! The objects that a scan reads at the same time, one for each slot.

use std::ops::Range;

use crate::lookup::{FIRST_READ_BYTES, Judged, TEARS, judge};
use crate::object::{ObjectHeader, ObjectState, Seal, TornCheck};
use crate::tree::lookup::key_tag;
use crate::tree::node::{LeafSlot, head_of};

/// A slot of a leaf, and what is known of its object.
#[derive(Clone, Debug)]
pub(crate) struct SlotRead {
    pub(crate) slot: LeafSlot,
    pub(crate) outcome: SlotOutcome,
    tears: u32,
}

/// The state of the READ of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotOutcome {
    /// So many bytes are wanted.
    Wanted(u64),
    /// The object: its key and value are in the scan's memory, one behind the other.
    Found { header: ObjectHeader, key: Range<usize>, value_end: usize },
    /// The key is being inserted, and is not there yet.
    Absent,
    /// The slot leads elsewhere by now.
    Stale,
}

impl SlotRead {
    pub(crate) fn new(slot: LeafSlot) -> SlotRead {
        let outcome = SlotOutcome::Wanted(slot.location.class().bytes().min(FIRST_READ_BYTES));
        SlotRead { slot, outcome, tears: 0 }
    }

    /// Takes the bytes of the READ. Key and value go to the `arena`.
    pub(crate) fn feed<C: TornCheck>(
        &mut self,
        (salt, skip): (u64, usize),
        bytes: &[u8],
        arena: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) {
        let (location, SlotOutcome::Wanted(len_bytes)) = (self.slot.location, &self.outcome) else { return };
        let is_same = |header: ObjectHeader| header.incarnation() == location.incarnation();
        let seal = Seal::new(salt, location.offset());
        self.outcome = match judge::<C>(seal, (location, *len_bytes), bytes, scratch) {
            Judged::Whole(object) => {
                let content = C::content(bytes, scratch);
                let (key, value) = (&content[object.key.clone()], &content[object.value.clone()]);
                // The words of the slot may be of two moments.
                let fits = key_tag(salt, key) as u32 == self.slot.tag && head_of(key, skip) == self.slot.head;
                if fits && is_same(object.header) {
                    let start = arena.len();
                    arena.extend_from_slice(key);
                    arena.extend_from_slice(value);
                    SlotOutcome::Found { header: object.header, key: start..start + key.len(), value_end: arena.len() }
                } else {
                    SlotOutcome::Stale
                }
            }
            Judged::Longer(all) => SlotOutcome::Wanted(all),
            Judged::Torn if self.tears < TEARS => {
                self.tears += 1;
                return;
            }
            // A slot leads to a pending object only while that is being inserted.
            Judged::NotLive(header) if header.state() == ObjectState::Pending && is_same(header) => SlotOutcome::Absent,
            Judged::NotLive(_) | Judged::Torn => SlotOutcome::Stale,
        };
    }
}
