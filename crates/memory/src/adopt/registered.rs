//! The registered ranges: pages may move only while no key covers them.

use std::collections::BTreeSet;
use std::ops::Range;

/// A multiset of ranges that may overlap, in classes by the power of two of their length. A search in a class
/// then goes back no further than the class's longest range.
#[derive(Debug)]
pub(super) struct RegisteredRanges {
    classes: [BTreeSet<(usize, usize, u64)>; usize::BITS as usize],
    next: u64,
}

/// Identifies an entry.
pub(super) type Number = u64;

impl RegisteredRanges {
    pub(super) const fn new() -> RegisteredRanges {
        RegisteredRanges { classes: [const { BTreeSet::new() }; usize::BITS as usize], next: 0 }
    }

    /// Adds a range, which must not be empty.
    pub(super) fn insert(&mut self, range: &Range<usize>) -> Number {
        self.next += 1;
        self.classes[class(range)].insert((range.start, range.end, self.next));
        self.next
    }

    pub(super) fn remove(&mut self, range: &Range<usize>, number: Number) {
        self.classes[class(range)].remove(&(range.start, range.end, number));
    }

    /// True if any byte of a range is registered.
    pub(super) fn overlaps(&self, range: &Range<usize>) -> bool {
        let reaches = |(class, entries): (usize, &BTreeSet<(usize, usize, u64)>)| {
            // Every range of the class is shorter than twice its power of two.
            let longest = 1usize.checked_shl(class as u32 + 1).unwrap_or(usize::MAX);
            let first = (range.start.saturating_sub(longest), 0, 0);
            entries.range(first..(range.end, 0, 0)).any(|(_, end, _)| *end > range.start)
        };
        !range.is_empty() && self.classes.iter().enumerate().filter(|(_, entries)| !entries.is_empty()).any(reaches)
    }
}

fn class(range: &Range<usize>) -> usize {
    range.len().max(1).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_answers_as_a_list_does(
            ranges in prop::collection::vec((0usize..1000, 1usize..300), 1..40),
            keep in prop::collection::vec(any::<bool>(), 40),
            asked in prop::collection::vec((0usize..1300, 0usize..100), 1..40),
        ) {
            let ranges: Vec<Range<usize>> = ranges.into_iter().map(|(start, len)| start..start + len).collect();
            let mut held = RegisteredRanges::new();
            let numbers: Vec<Number> = ranges.iter().map(|range| held.insert(range)).collect();
            let mut left = Vec::new();
            for ((range, number), keep) in ranges.iter().zip(numbers).zip(keep) {
                if keep { left.push(range.clone()) } else { held.remove(range, number) }
            }
            for (start, len) in asked {
                let range = start..start + len;
                let expected = len > 0 && left.iter().any(|one| one.start < range.end && range.start < one.end);
                prop_assert_eq!(held.overlaps(&range), expected);
            }
        }
    }

    #[test]
    fn the_whole_address_space_overlaps_everything() {
        let mut held = RegisteredRanges::new();
        let number = held.insert(&(0..usize::MAX));
        assert!(held.overlaps(&(0x7fff_0000..0x7fff_1000)) && held.overlaps(&(0..1)));
        held.remove(&(0..usize::MAX), number);
        assert!(!held.overlaps(&(0..usize::MAX)));
    }
}
