//! A record that one process writes and others read, whole or not at all: a sequence lock.
//!
//! The sequence number is odd while the words are written. A reader copies them out and
//! believes them if the number was even before and is the same afterwards. It tries for a
//! limited time: a writer that is hostile, or was killed in the middle, has no record.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::sync::{AtomicU32, fence, pause};

/// How often a reader tries. Most tries yield the processor: a writer that was interrupted gets on.
const TRIES: u32 = if cfg!(test) { 128 } else { 2000 };

/// Writes words under a sequence number. One writer at a time.
pub(crate) fn write(sequence: &AtomicU32, store: impl FnOnce()) {
    let before = sequence.load(Relaxed);
    // A record left odd by nobody: only writers make it so, and they are one at a time.
    sequence.store(before | 1, Relaxed);
    fence(Release);
    store();
    let mut after = (before | 1).wrapping_add(1);
    if after == 0 {
        // Zero is a record that was never written.
        after = 2;
    }
    sequence.store(after, Release);
}

/// Whether a record is still the one that [`read`] gave with this number, in the same order of operations.
///
/// (It could be another after 2^31 more writings. No owner makes so many between two accesses of a peer, and
/// what one gains that means harm is that an old record of its own is believed.)
#[inline(always)]
pub(crate) fn is_still(sequence: &AtomicU32, number: u32) -> bool {
    sequence.load(SeqCst) == number
}

/// Copies words out, with the number of their writing; nothing if there are none, or if they never stand still.
///
/// The number is read in the order of all sequentially consistent operations: who has entered
/// a [`hazard`](crate::hazard) before sees a record that was closed before it was waited for.
#[inline(always)]
pub(crate) fn read<T>(sequence: &AtomicU32, load: impl Fn() -> T) -> Option<(T, u32)> {
    let before = sequence.load(SeqCst);
    if before == 0 {
        return None;
    }
    let value = load();
    fence(Acquire);
    if before & 1 == 0 && sequence.load(Relaxed) == before {
        return Some((value, before));
    }
    read_again(sequence, load)
}

#[cold]
fn read_again<T>(sequence: &AtomicU32, load: impl Fn() -> T) -> Option<(T, u32)> {
    for round in 0..TRIES {
        let before = sequence.load(Acquire);
        if before & 1 == 0 {
            let value = load();
            fence(Acquire);
            if sequence.load(Relaxed) == before {
                return Some((value, before));
            }
        }
        pause(round);
    }
    None
}
