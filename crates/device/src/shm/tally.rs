//! What a queue pair did in its peer's memory by itself, counted without an atomic addition.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::objects::counters::{Counter, Counters};

/// Between two looks at the page lie no more than so many accesses.
const TELL_EACH: u64 = 256;

/// What is counted.
#[derive(Clone, Copy)]
pub(crate) enum Direct {
    Write,
    Read,
    Atomic,
}

const COUNTERS: [Counter; 3] = [Counter::ShmWrites, Counter::ShmReads, Counter::ShmAtomics];

/// Counts of one queue pair. Whoever adds holds the queue pair's lock, so a load and a store do.
/// They are told to the page of the process now and then: the first at once, so that it is
/// seen that there are any.
pub(crate) struct Tally {
    counters: Counters,
    counts: [AtomicU64; 3],
    told: [AtomicU64; 3],
    total: AtomicU64,
}

impl Tally {
    pub(crate) fn new(counters: Counters) -> Tally {
        Tally { counters, counts: Default::default(), told: Default::default(), total: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn add(&self, what: Direct) {
        increment(&self.counts[what as usize]);
        let total = increment(&self.total);
        if total.is_multiple_of(TELL_EACH) || total.is_power_of_two() {
            self.tell();
        }
    }

    /// Brings the page up to date.
    #[cold]
    pub(crate) fn tell(&self) {
        for ((count, told), counter) in self.counts.iter().zip(&self.told).zip(COUNTERS) {
            let count = count.load(Relaxed);
            let news = count.wrapping_sub(told.swap(count, Relaxed));
            if news > 0 {
                self.counters.add(counter, news);
            }
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.tell();
    }
}

#[inline]
fn increment(count: &AtomicU64) -> u64 {
    let now = count.load(Relaxed).wrapping_add(1);
    count.store(now, Relaxed);
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_never_far_behind_and_right_in_the_end() {
        let counters = Counters::new().unwrap();
        let tally = Tally::new(counters.clone());
        let shown = |name| counters.snapshot().get(name);
        tally.add(Direct::Read);
        assert_eq!(shown("shm_reads"), 1);
        for count in 1..=3000 {
            tally.add(Direct::Write);
            assert!(count - shown("shm_writes") < TELL_EACH, "{count}");
        }
        tally.add(Direct::Atomic);
        drop(tally);
        assert_eq!(["shm_writes", "shm_reads", "shm_atomics"].map(shown), [3000, 1, 1]);
    }
}
