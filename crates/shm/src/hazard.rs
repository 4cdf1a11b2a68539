//! How the owner of memory waits for accesses of a peer that are under way.
//!
//! The peer takes a word for each access, before it looks at the key and until it has copied. The owner closes
//! the key and then waits until every word that it finds taken has changed; accesses that come later
//! find the key closed.
//!
//! ```text
//!   word: even: free     odd: taken     taking and leaving it both add one, so that no two accesses
//!         look alike       |  one cache line each, 64 of them: who finds one taken takes another
//! ```
//!
//! A word has one user at a time, so leaving it is a plain store, and only taking it costs an atomic operation.
//! And it changes with every access, so that an owner who waits is not held up by those that keep coming.
//!
//! Why no access is missed. Taking is a sequentially consistent read-modify-write and is followed by a
//! sequentially consistent load of the key's record; closing the record is followed by a
//! sequentially consistent fence, and that by the loads of the words. So either the owner sees
//! the word taken or the peer sees the closed record. `tests/models/hazards.rs` checks it.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::sync::{AtomicU64, rmw_before_loads};

/// Takes the word for an access; returns what [`leave`] wants. `None` if it is taken.
#[inline(always)]
pub(crate) fn enter(word: &AtomicU64) -> Option<u64> {
    let free = word.load(Relaxed);
    if free & 1 == 1 {
        return None;
    }
    let taken = free.wrapping_add(1);
    word.compare_exchange(free, taken, SeqCst, Relaxed).ok()?;
    rmw_before_loads();
    Some(taken)
}

/// The access is over. Nobody else changes a word that is taken.
#[inline(always)]
pub(crate) fn leave(word: &AtomicU64, taken: u64) {
    word.store(taken.wrapping_add(1), Release);
}

/// Waits until every access has ended that was under way when it was called. The caller has
/// issued a sequentially consistent fence since it closed what they might use. `wait` is called between two looks,
/// and says whether to go on.
pub(crate) fn drain<'a>(words: impl Iterator<Item = &'a AtomicU64>, mut wait: impl FnMut() -> bool) -> bool {
    for word in words {
        let seen = word.load(Acquire);
        while seen & 1 == 1 && word.load(Acquire) == seen {
            if !wait() {
                return false;
            }
        }
    }
    true
}
