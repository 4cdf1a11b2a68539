//! How the owner of memory waits for accesses of a peer that are under way.
//!
//! The peer counts each access in a word, before it looks at the key and until it has copied.
//! The owner closes the key and then waits until every access that it finds counted has ended;
//! those that come later find the key closed.
//!
//! ```text
//!   word: | count of phase 1 (32 bits) | count of phase 0 (32 bits) |   one cache line, 64 of them
//! ```
//!
//! A word may never be zero if several threads keep coming, so each counts in the phase that
//! the owner names, and the owner changes the phase: the old phase's count then runs
//! out. (The idea is that of sleepable read-copy-update: McKenney, 2006.) An access that
//! read the phase long ago may still be counted in the old one; it is short, and the next
//! such access of that thread sees the new phase.
//!
//! Why no access is missed. Counting is a sequentially consistent read-modify-write and is followed by a
//! sequentially consistent load of the key's record; closing the record is followed by a
//! sequentially consistent fence, and that by the loads of the words. So either the owner sees
//! the count or the peer sees the closed record. `tests/models/hazards.rs` checks it.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::sync::{AtomicU32, AtomicU64, rmw_before_loads};

/// Counts an access; returns what [`leave`] takes off.
#[inline(always)]
pub(crate) fn enter(word: &AtomicU64, phase: &AtomicU32) -> u64 {
    let unit = 1 << (32 * (phase.load(Relaxed) & 1));
    word.fetch_add(unit, SeqCst);
    rmw_before_loads();
    unit
}

/// The access is over.
#[inline(always)]
pub(crate) fn leave(word: &AtomicU64, unit: u64) {
    word.fetch_sub(unit, Release);
}

/// Waits until every access has ended that was under way when it was called. The caller has
/// issued a sequentially consistent fence since it closed what they might use, and calls this
/// from one thread at a time. `wait` is called between two looks, with their number, and says whether to go on.
pub(crate) fn drain<'a>(
    words: impl Iterator<Item = &'a AtomicU64> + Clone,
    phase: &AtomicU32,
    mut wait: impl FnMut(u32) -> bool,
) -> bool {
    if words.clone().all(|word| word.load(Acquire) == 0) {
        return true;
    }
    let now = phase.load(Relaxed) & 1;
    // Nobody begins in the other phase but who read the phase before it was changed last.
    let other_is_empty = drain_phase(words.clone(), now ^ 1, &mut wait);
    phase.store(now ^ 1, Release);
    other_is_empty && drain_phase(words, now, &mut wait)
}

fn drain_phase<'a>(words: impl Iterator<Item = &'a AtomicU64>, phase: u32, wait: &mut impl FnMut(u32) -> bool) -> bool {
    let mut round = 0;
    for word in words {
        while (word.load(Acquire) >> (32 * phase)) as u32 != 0 {
            if !wait(round) {
                return false;
            }
            round += 1;
        }
    }
    true
}
