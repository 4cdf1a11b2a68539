//! Counts of a queue pair's own accesses to its peer's memory, without atomic additions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::objects::counters::{EngineCounter, EngineCounters};

/// The most accesses that the page of the process is behind.
const PUBLISH_EACH: u64 = 256;

/// The kinds of access.
#[derive(Clone, Copy)]
pub(crate) enum DirectAccess {
    Write,
    Read,
    Atomic,
}

const COUNTERS: [EngineCounter; 3] = [EngineCounter::ShmWrites, EngineCounter::ShmReads, EngineCounter::ShmAtomics];

/// The counts of one queue pair. Its lock protects them, so a load and a store are enough.
///
/// They are published in the page of the process now and then. The first one is published at once, so that the page shows
/// that there are accesses.
pub(crate) struct AccessTally {
    counters: EngineCounters,
    counts: [AtomicU64; 3],
    published: [AtomicU64; 3],
    total: AtomicU64,
}

impl AccessTally {
    pub(crate) fn new(counters: EngineCounters) -> AccessTally {
        AccessTally { counters, counts: Default::default(), published: Default::default(), total: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn add(&self, kind: DirectAccess) {
        increment(&self.counts[kind as usize]);
        let total = increment(&self.total);
        if total.is_multiple_of(PUBLISH_EACH) || total.is_power_of_two() {
            self.publish();
        }
    }

    /// Brings the page up to date.
    #[cold]
    pub(crate) fn publish(&self) {
        for ((count, published), counter) in self.counts.iter().zip(&self.published).zip(COUNTERS) {
            let count = count.load(Relaxed);
            let news = count.wrapping_sub(published.swap(count, Relaxed));
            if news > 0 {
                self.counters.add(counter, news);
            }
        }
    }
}

impl Drop for AccessTally {
    fn drop(&mut self) {
        self.publish();
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
        let counters = EngineCounters::new().unwrap();
        let tally = AccessTally::new(counters.clone());
        let shown = |name| counters.snapshot().get(name);
        tally.add(DirectAccess::Read);
        assert_eq!(shown("shm_reads"), 1);
        for count in 1..=3000 {
            tally.add(DirectAccess::Write);
            assert!(count - shown("shm_writes") < PUBLISH_EACH, "{count}");
        }
        tally.add(DirectAccess::Atomic);
        drop(tally);
        assert_eq!(["shm_writes", "shm_reads", "shm_atomics"].map(shown), [3000, 1, 1]);
    }
}
