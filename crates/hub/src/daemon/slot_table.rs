//! The owner of each slot.
//!
//! Outside this module: it holds no socket, and opens and closes nothing.
//!
//! ```text
//!            take               release
//!   free ----------> taken -----------------> free, last in the queue
//!    ^                 ^
//!    | free_orphans    | claim
//!    +---- orphan -----+        (only after taking over from a hub that died)
//! ```
//!
//! Free slots are queued: the one that was freed longest ago is taken first, so that late
//! packets for an ended process do not reach the next one.

use super::response::ClientId;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortSlotState {
    /// The hub's own.
    Reserved,
    /// In the queue.
    Free,
    /// A client of an earlier hub may have it. Not in the queue.
    Orphan,
    Taken(ClientId),
}

#[derive(Debug)]
pub(super) struct PortSlotTable {
    states: Vec<PortSlotState>,
    queue: VecDeque<u8>,
}

impl PortSlotTable {
    /// `count` slots of which all but slot 0 are free.
    pub(super) fn new(count: usize) -> PortSlotTable {
        PortSlotTable::recovered(&vec![false; count])
    }

    /// The slots of an earlier hub. The `open` ones may belong to clients that have yet to claim them.
    pub(super) fn recovered(open: &[bool]) -> PortSlotTable {
        let count = open.len();
        assert!((2..=256).contains(&count), "{count} slots");
        let state = |open: &bool| if *open { PortSlotState::Orphan } else { PortSlotState::Free };
        let mut states: Vec<PortSlotState> = open.iter().map(state).collect();
        states[0] = PortSlotState::Reserved;
        let free = (0..count).filter(|slot| states[*slot] == PortSlotState::Free);
        let queue = free.map(|slot| slot as u8).collect();
        PortSlotTable { states, queue }
    }

    /// Takes the `wanted` slot if it is free, else the one that has been free for longest.
    pub(super) fn take(&mut self, wanted: Option<u8>, owner: ClientId) -> Option<u8> {
        let wanted = wanted.filter(|slot| self.state(*slot) == Some(PortSlotState::Free));
        let slot = match wanted {
            Some(slot) => slot,
            None => self.queue.front().copied()?,
        };
        self.set_taken(slot, owner);
        Some(slot)
    }

    /// Takes exactly this slot for the client that had it under an earlier hub.
    pub(super) fn claim(&mut self, slot: u8, owner: ClientId) -> SlotClaim {
        match self.state(slot) {
            Some(PortSlotState::Orphan) => {
                self.set_taken(slot, owner);
                SlotClaim::StillOpen
            }
            Some(PortSlotState::Free) => {
                self.set_taken(slot, owner);
                SlotClaim::WasClosed
            }
            Some(PortSlotState::Taken(other)) if other == owner => SlotClaim::StillOpen,
            Some(PortSlotState::Taken(_) | PortSlotState::Reserved) | None => SlotClaim::Refused,
        }
    }

    /// Gives a slot back. Returns whether it was `owner`'s.
    pub(super) fn release(&mut self, slot: u8, owner: ClientId) -> bool {
        let owned = self.state(slot) == Some(PortSlotState::Taken(owner));
        if owned {
            self.states[usize::from(slot)] = PortSlotState::Free;
            self.queue.push_back(slot);
        }
        owned
    }

    /// Frees the orphans and returns them. They go to the end of the queue, so that an owner that comes
    /// late most likely still gets its slot.
    pub(super) fn free_orphans(&mut self) -> Vec<u8> {
        let count = self.states.len();
        let orphans = (0..count).filter(|slot| self.states[*slot] == PortSlotState::Orphan);
        let orphans: Vec<u8> = orphans.map(|slot| slot as u8).collect();
        for slot in &orphans {
            self.states[usize::from(*slot)] = PortSlotState::Free;
            self.queue.push_back(*slot);
        }
        orphans
    }

    /// Number of slots for clients.
    pub(super) fn capacity(&self) -> usize {
        self.states.len() - 1
    }

    /// Number of free slots.
    pub(super) fn free(&self) -> usize {
        self.queue.len()
    }

    fn state(&self, slot: u8) -> Option<PortSlotState> {
        self.states.get(usize::from(slot)).copied()
    }

    fn set_taken(&mut self, slot: u8, owner: ClientId) {
        self.states[usize::from(slot)] = PortSlotState::Taken(owner);
        self.queue.retain(|queued| *queued != slot);
        debug_assert_eq!(self.states.iter().filter(|state| **state == PortSlotState::Free).count(), self.queue.len());
    }
}

/// The outcome of [`PortSlotTable::claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotClaim {
    /// The client has the slot, and its socket never stopped receiving.
    StillOpen,
    /// The client has the slot, but the socket was closed in the meantime.
    WasClosed,
    /// Another client has it, or there is no such slot.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = 10;
    const B: ClientId = 11;

    #[test]
    fn freed_slots_go_to_the_end_of_the_queue() {
        let mut slots = PortSlotTable::new(4);
        assert_eq!([slots.take(None, A), slots.take(None, A)], [Some(1), Some(2)]);
        assert!(slots.release(1, A));
        assert_eq!(slots.take(None, B), Some(3), "the slot just freed rests");
        assert_eq!(slots.take(None, B), Some(1));
        assert_eq!(slots.take(None, B), None);
        assert_eq!((slots.free(), slots.capacity()), (0, 3));
    }

    #[test]
    fn the_wanted_slot_is_taken_if_it_is_free() {
        let mut slots = PortSlotTable::new(6);
        assert_eq!(slots.take(Some(4), A), Some(4));
        for wanted in [4, 0, 6, 255] {
            assert_ne!(slots.take(Some(wanted), A), Some(wanted));
        }
    }

    #[test]
    fn only_the_owner_gives_back() {
        let mut slots = PortSlotTable::new(3);
        let slot = slots.take(None, A).unwrap();
        assert!(!slots.release(slot, B) && !slots.release(0, A) && !slots.release(200, A));
        assert!(slots.release(slot, A));
        assert!(!slots.release(slot, A), "only once");
        assert_eq!(slots.free(), 2);
    }

    #[test]
    fn after_a_takeover_owners_claim_their_slots() {
        let mut slots = PortSlotTable::recovered(&[true, true, false, true, true]);
        assert_eq!(slots.claim(3, A), SlotClaim::StillOpen);
        assert_eq!(slots.claim(3, A), SlotClaim::StillOpen, "once more by the same");
        assert_eq!(slots.claim(3, B), SlotClaim::Refused);
        assert_eq!([slots.claim(0, A), slots.claim(5, A)], [SlotClaim::Refused; 2]);
        assert_eq!(slots.free_orphans(), [1, 4]);
        assert!(slots.free_orphans().is_empty());
        assert_eq!(slots.claim(4, B), SlotClaim::WasClosed, "late, but nobody else has it");
        assert_eq!([slots.take(None, B), slots.take(None, B)], [Some(2), Some(1)]);
        assert_eq!(slots.claim(1, A), SlotClaim::Refused, "too late");
    }

    #[test]
    fn new_clients_get_no_orphan() {
        let mut slots = PortSlotTable::recovered(&[true, true, false]);
        assert_eq!(slots.take(Some(1), A), Some(2));
        assert_eq!(slots.take(None, A), None);
        slots.free_orphans();
        assert_eq!(slots.take(None, A), Some(1));
    }

    #[test]
    fn no_slot_has_two_owners() {
        let mut slots = PortSlotTable::new(9);
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut held: Vec<(u8, ClientId)> = Vec::new();
        for step in 0..20_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step | 1);
            let owner = (random >> 60) & 3;
            if random >> 63 == 0 {
                if let Some(slot) = slots.take(Some((random >> 32) as u8 % 12), owner) {
                    assert!(slot != 0 && held.iter().all(|(other, _)| *other != slot));
                    held.push((slot, owner));
                }
            } else if !held.is_empty() {
                let (slot, owner) = held.swap_remove((random >> 40) as usize % held.len());
                assert!(slots.release(slot, owner));
            }
            assert_eq!(slots.free() + held.len(), slots.capacity());
        }
    }
}
