//! A record that one process writes and others read, either whole or not at all: a sequence lock.
//!
//! The sequence number is odd while the words are written. A reader copies the words out. It accepts them if
//! the number was even before and is the same afterwards. It tries for a limited time: a hostile writer, or
//! one that was killed in the middle, leaves no record.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::sync::{AtomicU32, fence, pause};

/// The number of a reader's attempts. Most attempts yield the processor, so that an interrupted writer can
/// finish.
const TRIES: u32 = if cfg!(test) { 128 } else { 2000 };

/// Writes words under a sequence number. One writer at a time.
pub(crate) fn write(sequence: &AtomicU32, store: impl FnOnce()) {
    let before = sequence.load(Relaxed);
    // Only the single writer makes the number odd, so an odd number here is left over from a writer that
    // died.
    sequence.store(before | 1, Relaxed);
    fence(Release);
    store();
    let mut after = (before | 1).wrapping_add(1);
    if after == 0 {
        // Zero marks a record that was never written.
        after = 2;
    }
    sequence.store(after, Release);
}

/// True if a record is still the one that [`read`] returned with this number. The load is sequentially
/// consistent, like that of `read`.
///
/// (After 2^31 more writes the number would repeat. No owner makes that many between two accesses of a peer.
/// A malicious owner only gains that an old record of its own is accepted.)
#[inline(always)]
pub(crate) fn is_still(sequence: &AtomicU32, number: u32) -> bool {
    sequence.load(SeqCst) == number
}

/// Copies words out, with the number of their write. `None` if there are none, or if they never stay
/// unchanged long enough.
///
/// The load of the number is sequentially consistent. So a reader that has entered a
/// [`hazard`](crate::hazard) sees every record that was closed before the owner began to wait.
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
