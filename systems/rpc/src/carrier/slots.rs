//! A set of slots, at most 64.

/// Slots of a session at most.
pub(crate) const MAX_SLOTS: u16 = 64;

/// A set of slots below [`MAX_SLOTS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotSet(u64);

impl SlotSet {
    pub(crate) fn insert(&mut self, slot: u16) {
        self.0 |= 1 << slot;
    }

    pub(crate) fn remove(&mut self, slot: u16) {
        self.0 &= !(1 << slot);
    }

    pub(crate) fn contains(&self, slot: u16) -> bool {
        self.0 & 1 << slot != 0
    }

    /// The lowest that is not below `first`; if there is none, the lowest.
    pub(crate) fn next_from(&self, first: u16) -> Option<u16> {
        let above = self.0 & u64::MAX.checked_shl(u32::from(first)).unwrap_or(0);
        let from = if above != 0 { above } else { self.0 };
        (from != 0).then_some(from.trailing_zeros() as u16)
    }

    /// Removes the lowest.
    pub(crate) fn pop(&mut self) -> Option<u16> {
        let slot = (self.0 != 0).then_some(self.0.trailing_zeros() as u16)?;
        self.remove(slot);
        Some(slot)
    }
}
