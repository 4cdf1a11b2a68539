//! Slots: their contents, and the queue of free ones.
//!
//! Freed slots wait in a long queue. A slot is used again only when [`REUSE_AFTER`] others were freed after
//! it, or no fresh one is left. So a key stays dead for many thousands of registrations after its region.

use std::collections::VecDeque;

use transport::{LKey, PdId};
use wire::{Qpn, RKey};

use crate::adopt::RegistrationHold;
use crate::keys::{Keys, Life, MAX_SLOTS};
use crate::objects::ObjectRange;
use crate::secret::SecretStream;
use crate::windows::MwType;

/// The number of freed slots that wait while there are fresh ones.
const REUSE_AFTER: usize = 1024;

/// The contents of a slot, on the control side.
pub(crate) enum SlotContents {
    /// The slot is free, or its region or window is being made or ended.
    Empty,
    /// A memory region.
    Region(RegionRecord),
    /// A memory window.
    Window(WindowRecord),
}

impl SlotContents {
    fn is_open(&self) -> bool {
        match self {
            SlotContents::Empty => false,
            SlotContents::Region(_) => true,
            SlotContents::Window(window) => window.bound.is_some(),
        }
    }
}

/// A registered region.
pub(crate) struct RegionRecord {
    pub(crate) pd: PdId,
    /// Windows bound to it.
    pub(crate) windows: u32,
    /// True if peers may have been told of it.
    pub(crate) shared: bool,
    /// The place of the memory, if peers can map it.
    pub(crate) object_range: Option<ObjectRange>,
    /// Keeps adopted pages in place while the region is registered.
    pub(crate) hold: Option<RegistrationHold>,
}

/// An allocated window.
pub(crate) struct WindowRecord {
    pub(crate) pd: PdId,
    pub(crate) kind: MwType,
    pub(crate) rkey: RKey,
    pub(crate) bound: Option<Bound>,
}

/// The binding of a window.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    /// The region's slot.
    pub(crate) region: u32,
    /// The queue pair that bound it.
    pub(crate) qpn: Qpn,
}

struct KeySlot {
    life: Life,
    /// The number of lives so far; it distinguishes an old identifier from the present one.
    serial: u64,
    holder: SlotContents,
}

/// A slot just taken, with its keys.
pub(crate) struct Taken {
    pub(crate) slot: u32,
    pub(crate) serial: u64,
    pub(crate) lkey: LKey,
    pub(crate) rkey: RKey,
}

/// All slots that were ever used.
pub(crate) struct KeySlots {
    slots: Vec<KeySlot>,
    free: VecDeque<u32>,
    stream: SecretStream,
    /// The largest number of slots.
    pub(crate) limit: u32,
}

impl KeySlots {
    pub(crate) fn new(stream: SecretStream) -> KeySlots {
        KeySlots { slots: Vec::new(), free: VecDeque::new(), stream, limit: MAX_SLOTS }
    }

    /// Takes a slot and gives it keys that it did not have before; `None` if all slots are taken.
    pub(crate) fn take(&mut self, keys: &Keys) -> Option<Taken> {
        let slot = self.pick()?;
        let record = &mut self.slots[slot as usize];
        record.serial += 1;
        loop {
            record.life.advance();
            if let Some((lkey, rkey)) = keys.make(slot, &record.life) {
                return Some(Taken { slot, serial: record.serial, lkey, rkey });
            }
        }
    }

    /// Gives back a slot whose gate is closed.
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.slots[slot as usize].holder = SlotContents::Empty;
        self.free.push_back(slot);
    }

    /// Sets the contents of a taken slot.
    pub(crate) fn set(&mut self, slot: u32, holder: SlotContents) {
        self.slots[slot as usize].holder = holder;
    }

    /// Takes the contents out of a slot, without freeing the slot.
    pub(crate) fn unset(&mut self, slot: u32) -> SlotContents {
        core::mem::replace(&mut self.slots[slot as usize].holder, SlotContents::Empty)
    }

    /// The region in a slot, of any serial.
    pub(crate) fn region(&mut self, slot: u32) -> Option<&mut RegionRecord> {
        match &mut self.slots.get_mut(slot as usize)?.holder {
            SlotContents::Region(region) => Some(region),
            _ => None,
        }
    }

    /// The window in a slot, of any serial.
    pub(crate) fn window(&mut self, slot: u32) -> Option<&mut WindowRecord> {
        match &mut self.slots.get_mut(slot as usize)?.holder {
            SlotContents::Window(window) => Some(window),
            _ => None,
        }
    }

    /// Slots of regions and of bound windows.
    pub(crate) fn open(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.holder.is_open()).map(|(number, _)| number)
    }

    /// True if a slot is still in the life in which an identifier was made.
    pub(crate) fn is_current(&self, slot: u32, serial: u64) -> bool {
        let found = self.slots.get(slot as usize);
        found.is_some_and(|slot| slot.serial == serial)
    }

    fn pick(&mut self) -> Option<u32> {
        let fresh = (self.slots.len() as u32) < self.limit;
        if !fresh || self.free.len() >= REUSE_AFTER {
            return self.free.pop_front();
        }
        self.slots.push(KeySlot { life: Life::new(&mut self.stream), serial: 0, holder: SlotContents::Empty });
        Some(self.slots.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(limit: u32) -> (KeySlots, Keys) {
        let mut stream = SecretStream::new([1; 8]);
        let keys = Keys::new(&mut stream);
        let mut slots = KeySlots::new(stream);
        slots.limit = limit;
        (slots, keys)
    }

    #[test]
    fn every_slot_can_be_taken_once() {
        let (mut slots, keys) = slots(5);
        let taken: Vec<u32> = (0..5).map(|_| slots.take(&keys).expect("free").slot).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4]);
        assert!(slots.take(&keys).is_none());
        slots.give_back(3);
        assert_eq!(slots.take(&keys).map(|t| t.slot), Some(3));
        assert!(slots.take(&keys).is_none());
    }

    #[test]
    fn freed_slots_are_used_again_in_turn_and_late() {
        let (mut slots, keys) = slots(MAX_SLOTS);
        let mut order = Vec::new();
        for _ in 0..3 * REUSE_AFTER {
            let taken = slots.take(&keys).expect("free");
            order.push(taken.slot);
            slots.give_back(taken.slot);
        }
        let (first, rest) = order.split_at(REUSE_AFTER);
        assert!(first.iter().copied().eq(0..REUSE_AFTER as u32));
        assert_eq!(&rest[..REUSE_AFTER], first);
        assert_eq!(&rest[REUSE_AFTER..], first);
    }

    #[test]
    fn an_old_serial_is_told_from_the_present_one() {
        let (mut slots, keys) = slots(1);
        let first = slots.take(&keys).expect("free");
        assert!(slots.is_current(first.slot, first.serial));
        slots.give_back(first.slot);
        let second = slots.take(&keys).expect("free");
        assert_eq!(first.slot, second.slot);
        assert!(!slots.is_current(first.slot, first.serial));
        assert!(slots.is_current(second.slot, second.serial));
        assert!(!slots.is_current(9, 1));
        assert_ne!((first.lkey, first.rkey), (second.lkey, second.rkey));
    }
}
