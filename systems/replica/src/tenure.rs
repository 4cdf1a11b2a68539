//! For how long a member has been the primary of each slot.

use std::ops::RangeInclusive;

use cluster::{HashSlot, SLOTS};

/// A number for each slot that grows when the member becomes its primary. So two looks at a slot that find the same number have the
/// same tenure around them: nobody else has served the slot in between.
#[derive(Clone, Debug)]
pub(crate) struct Tenures {
    /// Zero: the member is not the primary.
    numbers: Box<[u64]>,
    last: u64,
}

impl Tenures {
    pub(crate) fn new() -> Tenures {
        Tenures { numbers: vec![0; usize::from(SLOTS)].into(), last: 0 }
    }

    /// The number of the present tenure.
    pub(crate) fn of(&self, slot: HashSlot) -> Option<u64> {
        self.numbers.get(usize::from(slot.number())).copied().filter(|number| *number != 0)
    }

    /// Ends all tenures: nobody knows who served meanwhile.
    pub(crate) fn end(&mut self) {
        self.set(&[]);
    }

    /// The slots whose primary the member is now. Those that were there before keep their numbers.
    pub(crate) fn set(&mut self, owned: &[RangeInclusive<u16>]) {
        self.last += 1;
        let mut before = std::mem::replace(&mut self.numbers, vec![0; usize::from(SLOTS)].into());
        for slot in owned.iter().cloned().flatten().map(usize::from) {
            if let (Some(now), Some(before)) = (self.numbers.get_mut(slot), before.get_mut(slot)) {
                *now = if *before == 0 { self.last } else { *before };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_comes_back_has_another_number() {
        let mut tenures = Tenures::new();
        let numbers = |tenures: &Tenures| [0, 5, 9].map(|slot| tenures.of(HashSlot::new(slot).unwrap()));
        assert_eq!(numbers(&tenures), [None; 3]);
        tenures.set(&[0..=5]);
        assert_eq!(numbers(&tenures), [Some(1), Some(1), None]);
        tenures.set(&[5..=16383]);
        assert_eq!(numbers(&tenures), [None, Some(1), Some(2)]);
        tenures.set(&[0..=16383]);
        assert_eq!(numbers(&tenures), [Some(3), Some(1), Some(2)]);
    }
}
