//! The slots of a session, made when they are first used: most sessions of a server with many clients are idle.

use std::ops::{Index, IndexMut};

/// Up to so many values with numbers from zero.
#[derive(Debug)]
pub(crate) struct SlotList<T> {
    made: Vec<T>,
    most: u16,
}

impl<T: Default> SlotList<T> {
    /// No slots yet, and `most` of them at most.
    pub(crate) fn new(most: u16) -> SlotList<T> {
        SlotList { made: Vec::new(), most }
    }

    /// The number of slots, also of those that are not made.
    pub(crate) fn most(&self) -> u16 {
        self.most
    }

    /// The slot with that number, made if it is not there; `None` if there is no such number.
    pub(crate) fn reach(&mut self, slot: u16) -> Option<&mut T> {
        if slot >= self.most {
            return None;
        }
        let needed = usize::from(slot) + 1;
        if self.made.len() < needed {
            self.made.reserve_exact(needed - self.made.len());
            self.made.resize_with(needed, T::default);
        }
        self.made.get_mut(usize::from(slot))
    }

    /// The slots that were used.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.made.iter()
    }

    /// The slot with that number, if it was used.
    pub(crate) fn get_mut(&mut self, slot: u16) -> Option<&mut T> {
        self.made.get_mut(usize::from(slot))
    }
}

/// A slot that was used.
impl<T> Index<u16> for SlotList<T> {
    type Output = T;

    fn index(&self, slot: u16) -> &T {
        &self.made[usize::from(slot)]
    }
}

impl<T> IndexMut<u16> for SlotList<T> {
    fn index_mut(&mut self, slot: u16) -> &mut T {
        &mut self.made[usize::from(slot)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_made_when_they_are_reached() {
        let mut slots = SlotList::<u32>::new(8);
        assert!(slots.get_mut(3).is_none() && slots.reach(8).is_none());
        *slots.reach(3).unwrap() = 7;
        assert_eq!((slots[3], slots.iter().count(), slots.most()), (7, 4, 8));
        assert_eq!(slots.reach(0).copied(), Some(0));
        assert_eq!(slots.iter().count(), 4, "made once");
    }
}
