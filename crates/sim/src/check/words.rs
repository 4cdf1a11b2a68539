//! Words that many queue pairs change by atomics: the results must fit together.
//!
//! Additions: each original is the sum of all that came before. So the intervals from original to
//! original plus addend must tile the range from the first value to the last. Compare and swap:
//! every swap stores a number of its own, so those that worked form a chain. Requests whose answer
//! never came may have been carried out or not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Outcome, ensure};

const RULE: &str = "atomics happen exactly once";

/// Names a request: queue pair and number.
type Request = (usize, u64);

/// A word that is only added to.
#[derive(Debug)]
pub(crate) struct Counter {
    initial: u64,
    open: BTreeMap<usize, VecDeque<(u64, u64)>>,
    done: Vec<(u64, u64)>,
    last: BTreeMap<usize, u64>,
}

impl Counter {
    pub(crate) fn new(initial: u64) -> Counter {
        Counter { initial, open: BTreeMap::new(), done: Vec::new(), last: BTreeMap::new() }
    }

    /// A request to add was posted. `add` is not zero.
    pub(crate) fn post(&mut self, (end, number): Request, add: u64) {
        self.open.entry(end).or_default().push_back((number, add));
    }

    /// It brought this original.
    pub(crate) fn done(&mut self, (end, number): Request, original: u64) -> Outcome {
        let open = self.open.get_mut(&end).and_then(VecDeque::pop_front);
        let Some((_, add)) = open.filter(|(first, _)| *first == number) else {
            ensure!(RULE, false, "request {number} of end {end} is answered out of order");
            return Ok(());
        };
        // Counted from the first value, so that it does not matter where the word wraps.
        let original = original.wrapping_sub(self.initial);
        let before = self.last.insert(end, original);
        ensure!(
            RULE,
            before.is_none_or(|before| before < original),
            "end {end} found {original} after {before:?}: its requests were carried out in another order"
        );
        self.done.push((original, add));
        Ok(())
    }

    /// The run is over and the word holds `last`.
    pub(crate) fn settle(&mut self, last: u64) -> Outcome {
        self.done.sort_unstable();
        let last = last.wrapping_sub(self.initial);
        let (mut at, mut gaps) = (0, 0);
        for (original, add) in &self.done {
            ensure!(RULE, *original >= at, "an addition found {original}, another had made {at} of it already");
            gaps += original - at;
            at = original + add;
        }
        ensure!(RULE, last >= at, "the word holds {last}, but an answer promised {at}");
        gaps += last - at;
        let possible = self.possible_sums();
        ensure!(RULE, possible.contains(&gaps), "{gaps} too much: no answerless requests explain it ({possible:?})");
        Ok(())
    }

    /// Sums of what answerless requests may have added: some first ones of each queue pair.
    fn possible_sums(&self) -> BTreeSet<u64> {
        let mut sums = BTreeSet::from([0]);
        for open in self.open.values() {
            let mut with = sums.clone();
            let mut added = 0;
            for (_, add) in open {
                added += add;
                with.extend(sums.iter().map(|sum| sum + added));
            }
            sums = with;
        }
        sums
    }
}

/// A word that is only compared and swapped, with a new number every time.
#[derive(Debug)]
pub(crate) struct Chain {
    initial: u64,
    posted: BTreeMap<Request, (u64, u64)>,
    done: Vec<(u64, u64, u64)>,
}

impl Chain {
    pub(crate) fn new(initial: u64) -> Chain {
        Chain { initial, posted: BTreeMap::new(), done: Vec::new() }
    }

    /// A request was posted.
    pub(crate) fn post(&mut self, request: Request, compare: u64, swap: u64) {
        self.posted.insert(request, (compare, swap));
    }

    /// It brought this original.
    pub(crate) fn done(&mut self, request: Request, original: u64) -> Outcome {
        let posted = self.posted.remove(&request);
        ensure!(RULE, posted.is_some(), "{request:?} is answered twice");
        let (compare, swap) = posted.unwrap_or_default();
        self.done.push((compare, swap, original));
        Ok(())
    }

    /// The run is over and the word holds `last`.
    pub(crate) fn settle(&self, last: u64) -> Outcome {
        let worked = self.done.iter().filter(|(compare, _, original)| compare == original);
        let mut made_by: BTreeMap<u64, u64> = worked.map(|(compare, swap, _)| (*swap, *compare)).collect();
        let sure = made_by.len();
        made_by.extend(self.posted.values().map(|(compare, swap)| (*swap, *compare)));
        let mut held = BTreeSet::from([last]);
        let (mut value, mut sure_seen) = (last, 0);
        while value != self.initial {
            let Some(before) = made_by.get(&value) else {
                ensure!(RULE, false, "nobody stored {value:#x}");
                return Ok(());
            };
            sure_seen += usize::from(self.done.iter().any(|(_, swap, _)| *swap == value));
            value = *before;
            ensure!(RULE, held.insert(value), "{value:#x} was stored twice");
        }
        ensure!(RULE, sure_seen == sure, "{sure} swaps worked, but the word's history has {sure_seen}");
        let odd = self.done.iter().find(|(_, _, original)| !held.contains(original));
        ensure!(RULE, odd.is_none(), "a swap found what the word never held: {odd:x?}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(answers: &[(usize, u64, u64)]) -> Counter {
        let mut counter = Counter::new(100);
        for (number, (end, add, original)) in answers.iter().enumerate() {
            counter.post((*end, number as u64), *add);
            counter.done((*end, number as u64), *original).expect("in order");
        }
        counter
    }

    #[test]
    fn additions_tile() {
        counter(&[(0, 5, 100), (1, 3, 105), (0, 2, 108)]).settle(110).expect("exactly once");
        counter(&[(0, 5, 100), (1, 3, 105)]).settle(113).expect_err("one was done twice");
        counter(&[(0, 5, 100), (1, 3, 102)]).settle(108).expect_err("overlap");
        counter(&[(0, 5, 100), (1, 3, 110)]).settle(113).expect_err("a gap");
        counter(&[(0, 5, 100)]).settle(103).expect_err("undone");
    }

    #[test]
    fn words_may_wrap() {
        let mut counter = Counter::new(u64::MAX);
        counter.post((0, 0), 2);
        counter.post((0, 1), 5);
        counter.done((0, 0), u64::MAX).expect("first");
        counter.done((0, 1), 1).expect("second");
        counter.settle(6).expect("exactly once");
    }

    #[test]
    fn answerless_additions_count_in_order() {
        for (last, possible) in [(105, true), (115, true), (135, true), (125, false), (145, false)] {
            let mut counter = counter(&[(0, 5, 100)]);
            counter.post((1, 0), 10);
            counter.post((1, 1), 20);
            assert_eq!(counter.settle(last).is_ok(), possible, "{last}");
        }
    }

    #[test]
    fn swaps_form_a_chain() {
        let chain = |answers: &[(u64, u64, u64)], last: u64| {
            let mut chain = Chain::new(1);
            for (number, (compare, swap, original)) in answers.iter().enumerate() {
                chain.post((0, number as u64), *compare, *swap);
                chain.done((0, number as u64), *original).expect("once");
            }
            chain.settle(last)
        };
        chain(&[(1, 10, 1), (1, 11, 10), (10, 12, 10)], 12).expect("two worked");
        chain(&[(1, 10, 1), (1, 11, 1)], 11).expect_err("both cannot have worked");
        chain(&[(1, 10, 1)], 1).expect_err("it was undone");
        chain(&[(1, 10, 7)], 1).expect_err("7 was never there");
        chain(&[], 5).expect_err("out of nowhere");
    }
}
