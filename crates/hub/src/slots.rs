//! Who has which slot. Pure bookkeeping: descriptors and sockets are elsewhere.
//!
//! ```text
//!            take               release
//!   free ----------> taken -----------------> free, last in the queue
//!    ^                 ^
//!    | settle          | claim
//!    +---- orphan -----+        (only after taking over from a hub that died)
//! ```
//!
//! Free slots are queued: the one that was freed longest ago is taken first, so that late
//! packets for an ended process do not reach the next one.

use std::collections::VecDeque;

/// The owner of slots: a connection's number, never used twice.
pub(crate) type Owner = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The hub keeps it.
    Reserved,
    /// Nobody has it; it is in the queue.
    Free,
    /// A process that was there before this hub may have it. It is not in the queue.
    Orphan,
    Taken(Owner),
}

/// The slots of one port group.
#[derive(Debug)]
pub(crate) struct SlotTable {
    states: Vec<State>,
    queue: VecDeque<u8>,
}

impl SlotTable {
    /// `count` slots of which all but slot 0 are free.
    pub(crate) fn new(count: usize) -> SlotTable {
        SlotTable::recovered(&vec![false; count])
    }

    /// The slots of an earlier hub. Those that are `open` may belong to processes which are
    /// still to come and claim them.
    pub(crate) fn recovered(open: &[bool]) -> SlotTable {
        let count = open.len();
        assert!((2..=256).contains(&count), "{count} slots");
        let state = |open: &bool| if *open { State::Orphan } else { State::Free };
        let mut states: Vec<State> = open.iter().map(state).collect();
        states[0] = State::Reserved;
        let free = (0..count).filter(|slot| states[*slot] == State::Free);
        let queue = free.map(|slot| slot as u8).collect();
        SlotTable { states, queue }
    }

    /// Takes the `wanted` slot if it is free, else the one that has been free for longest.
    pub(crate) fn take(&mut self, wanted: Option<u8>, owner: Owner) -> Option<u8> {
        let wanted = wanted.filter(|slot| self.state(*slot) == Some(State::Free));
        let slot = match wanted {
            Some(slot) => slot,
            None => self.queue.front().copied()?,
        };
        self.set_taken(slot, owner);
        Some(slot)
    }

    /// Takes exactly this slot for the process that had it under an earlier hub.
    pub(crate) fn claim(&mut self, slot: u8, owner: Owner) -> Claim {
        match self.state(slot) {
            Some(State::Orphan) => {
                self.set_taken(slot, owner);
                Claim::StillOpen
            }
            Some(State::Free) => {
                self.set_taken(slot, owner);
                Claim::WasClosed
            }
            Some(State::Taken(other)) if other == owner => Claim::StillOpen,
            Some(State::Taken(_) | State::Reserved) | None => Claim::Refused,
        }
    }

    /// Gives a slot back. Returns whether it was `owner`'s.
    pub(crate) fn release(&mut self, slot: u8, owner: Owner) -> bool {
        let owned = self.state(slot) == Some(State::Taken(owner));
        if owned {
            self.states[usize::from(slot)] = State::Free;
            self.queue.push_back(slot);
        }
        owned
    }

    /// The orphans become free. Returns them, to be closed. They go to the end of the queue,
    /// so that an owner who turns up late most likely still finds his slot.
    pub(crate) fn settle(&mut self) -> Vec<u8> {
        let count = self.states.len();
        let orphans = (0..count).filter(|slot| self.states[*slot] == State::Orphan);
        let orphans: Vec<u8> = orphans.map(|slot| slot as u8).collect();
        for slot in &orphans {
            self.states[usize::from(*slot)] = State::Free;
            self.queue.push_back(*slot);
        }
        orphans
    }

    /// Number of slots for clients.
    pub(crate) fn capacity(&self) -> usize {
        self.states.len() - 1
    }

    /// Number of slots that could be taken now.
    pub(crate) fn free(&self) -> usize {
        self.queue.len()
    }

    fn state(&self, slot: u8) -> Option<State> {
        self.states.get(usize::from(slot)).copied()
    }

    fn set_taken(&mut self, slot: u8, owner: Owner) {
        self.states[usize::from(slot)] = State::Taken(owner);
        self.queue.retain(|queued| *queued != slot);
    }
}

/// The outcome of [`SlotTable::claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is the claimer's, and packets never stopped coming in.
    StillOpen,
    /// It is the claimer's, but was closed meanwhile.
    WasClosed,
    /// Somebody else has it.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Owner = 10;
    const B: Owner = 11;

    #[test]
    fn slots_go_round() {
        let mut slots = SlotTable::new(4);
        assert_eq!([slots.take(None, A), slots.take(None, A)], [Some(1), Some(2)]);
        assert!(slots.release(1, A));
        assert_eq!(slots.take(None, B), Some(3), "the slot just freed rests");
        assert_eq!(slots.take(None, B), Some(1));
        assert_eq!(slots.take(None, B), None);
        assert_eq!((slots.free(), slots.capacity()), (0, 3));
    }

    #[test]
    fn a_wish_is_granted_if_the_slot_is_free() {
        let mut slots = SlotTable::new(6);
        assert_eq!(slots.take(Some(4), A), Some(4));
        for wish in [4, 0, 6, 255] {
            assert_ne!(slots.take(Some(wish), A), Some(wish));
        }
    }

    #[test]
    fn only_the_owner_gives_back() {
        let mut slots = SlotTable::new(3);
        let slot = slots.take(None, A).unwrap();
        assert!(!slots.release(slot, B) && !slots.release(0, A) && !slots.release(200, A));
        assert!(slots.release(slot, A));
        assert!(!slots.release(slot, A), "only once");
        assert_eq!(slots.free(), 2);
    }

    #[test]
    fn after_a_takeover_owners_claim_what_they_had() {
        let mut slots = SlotTable::recovered(&[true, true, false, true, true]);
        assert_eq!(slots.claim(3, A), Claim::StillOpen);
        assert_eq!(slots.claim(3, A), Claim::StillOpen, "once more by the same");
        assert_eq!(slots.claim(3, B), Claim::Refused);
        assert_eq!([slots.claim(0, A), slots.claim(5, A)], [Claim::Refused; 2]);
        assert_eq!(slots.settle(), [1, 4]);
        assert!(slots.settle().is_empty());
        assert_eq!(slots.claim(4, B), Claim::WasClosed, "late, but nobody else has it");
        assert_eq!([slots.take(None, B), slots.take(None, B)], [Some(2), Some(1)]);
        assert_eq!(slots.claim(1, A), Claim::Refused, "too late");
    }

    #[test]
    fn newcomers_do_not_get_what_may_have_an_owner() {
        let mut slots = SlotTable::recovered(&[true, true, false]);
        assert_eq!(slots.take(Some(1), A), Some(2));
        assert_eq!(slots.take(None, A), None);
        slots.settle();
        assert_eq!(slots.take(None, A), Some(1));
    }

    #[test]
    fn no_slot_is_ever_in_two_places() {
        let mut slots = SlotTable::new(9);
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut held: Vec<(u8, Owner)> = Vec::new();
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
