//! Hazard words: the owner of memory waits for accesses of a peer that are in progress.
//!
//! The peer takes a word for each access, before it reads the key and until it has copied. The owner closes
//! the key and then waits until every word that it finds taken has changed. Later accesses find the key
//! closed.
//!
//! ```text
//!   word: even: free     odd: taken     taking and leaving it both add one, so that no two accesses
//!         look alike       |  one cache line each, 64 of them: a thread that finds one taken tries another
//! ```
//!
//! A word has one user at a time, so leaving it is a plain store, and only taking it costs an atomic
//! operation. It changes with every access, so new accesses do not delay a waiting owner.
//!
//! No access is missed. Taking is a sequentially consistent read-modify-write, followed by a sequentially
//! consistent load of the key's record. Closing the record is followed by a sequentially consistent fence,
//! and that by the loads of the words. So either the owner sees the word taken or the peer sees the closed
//! record. `tests/models/hazards.rs` checks it.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::sync::{AtomicU64, rmw_before_loads};

/// Takes the word for an access; returns the argument for [`leave`]. `None` if it is taken already.
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

/// Ends the access. Only its user changes a word that is taken.
#[inline(always)]
pub(crate) fn leave(word: &AtomicU64, taken: u64) {
    word.store(taken.wrapping_add(1), Release);
}

/// Waits until every access has ended that was in progress at the time of the call. Before it, the caller
/// must close the records and issue a sequentially consistent fence. `wait` is called between two polls; if
/// it returns false, the wait ends and so does this function, with false.
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
