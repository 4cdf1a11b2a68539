//! The numbers of the processes that manage connections.
//!
//! What a peer still sends to a process that is gone must not reach another one with its number,
//! so that a number rests until all others have been used.

use super::ports::Owner;
use std::collections::BTreeMap;

/// The highest number: communication ids have 12 bits for it.
const HIGHEST: u16 = 4095;

/// Who has which number.
#[derive(Debug)]
pub(super) struct Numbers {
    owners: BTreeMap<u16, Owner>,
    next: u16,
}

impl Numbers {
    /// All free; begins somewhere, as an earlier hub's clients may come back with theirs.
    pub(super) fn new(start: u16) -> Numbers {
        Numbers { owners: BTreeMap::new(), next: start % HIGHEST + 1 }
    }

    /// Takes the wanted number if it is free, else the next free one. `None` if there is none.
    pub(super) fn take(&mut self, wanted: Option<u16>, owner: Owner) -> Option<u16> {
        let wanted = wanted.filter(|number| self.is_free(*number));
        let number = match wanted {
            Some(number) => number,
            None => {
                let round = (0..HIGHEST).map(|i| (self.next - 1 + i) % HIGHEST + 1);
                let number = round.into_iter().find(|number| self.is_free(*number))?;
                self.next = number % HIGHEST + 1;
                number
            }
        };
        self.owners.insert(number, owner);
        Some(number)
    }

    /// Whose number this is.
    pub(super) fn owner(&self, number: u16) -> Option<Owner> {
        self.owners.get(&number).copied()
    }

    /// All who have numbers.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> + '_ {
        self.owners.values().copied()
    }

    /// A number's process is gone.
    pub(super) fn release(&mut self, number: u16) {
        self.owners.remove(&number);
    }

    fn is_free(&self, number: u16) -> bool {
        (1..=HIGHEST).contains(&number) && !self.owners.contains_key(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rest_until_all_were_used() {
        let mut numbers = Numbers::new(4093);
        let taken: Vec<_> = (0..4).map(|owner| numbers.take(None, owner).unwrap()).collect();
        assert_eq!(taken, [4094, 4095, 1, 2]);
        numbers.release(1);
        assert_eq!((numbers.owner(1), numbers.owner(2)), (None, Some(3)));
        assert_eq!(numbers.take(None, 9), Some(3));
    }

    #[test]
    fn a_number_is_had_again_if_it_is_free() {
        let mut numbers = Numbers::new(0);
        assert_eq!(numbers.take(Some(77), 1), Some(77));
        assert_eq!(numbers.take(Some(77), 2), Some(1), "taken");
        assert_eq!(numbers.take(Some(0), 3), Some(2), "no number");
        assert_eq!(numbers.take(Some(4096), 4), Some(3), "no number");
        assert_eq!(numbers.owners().collect::<Vec<_>>(), [2, 3, 4, 1]);
    }

    #[test]
    fn there_are_4095() {
        for start in [0, 1, 4094, 4095, u16::MAX] {
            let mut numbers = Numbers::new(start);
            let all: std::collections::BTreeSet<_> =
                (0..4095).map(|owner| numbers.take(None, owner).unwrap()).collect();
            assert_eq!((all.first(), all.last(), all.len()), (Some(&1), Some(&4095), 4095));
            assert_eq!(numbers.take(None, 1), None);
            assert_eq!(numbers.take(Some(7), 1), None);
            numbers.release(7);
            assert_eq!(numbers.take(None, 1), Some(7));
        }
    }
}
