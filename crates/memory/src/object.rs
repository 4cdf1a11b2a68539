//! Copies of objects at one moment: atomic object reads (Daglis et al., SABRes, MICRO 2016), in software.
//!
//! An object begins with a word that its writers change. A writer sets some bit of a mask first: the lock. Then it
//! stores the bytes, and last a word without the lock that the object never had before. A copy is whole if the word had no
//! bit of the mask before it, and was the same after it. (Lamport, Concurrent Reading and Writing, CACM 1977.)
//!
//! The stores of a writer must become visible in that order. On x86-64 they do; elsewhere the writer needs a
//! release fence behind the lock.

use core::hint::spin_loop;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::fence;

use crate::span::Span;

/// Bytes of the word.
pub(crate) const OBJECT_WORD_BYTES: usize = 8;
/// Copies that are tried before a reader is told that the object is busy: some microseconds.
const TRIES: u32 = 16;

/// The outcome of a copy, with the object's first word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ObjectCopy {
    /// All bytes are of one moment.
    Whole(u64),
    /// A writer had the object at every try. Copied bytes may be torn.
    Busy(u64),
}

/// Copies an object whose first word is `word`, by `copy`, until a copy is whole or it has tried often enough.
///
/// # Panics
/// If `word` is not an aligned word.
///
/// # Errors
/// That of `copy`, which ends it.
pub(crate) fn copy_object<E>(
    word: Span<'_>,
    lock_mask: u64,
    mut copy: impl FnMut() -> Result<(), E>,
) -> Result<ObjectCopy, E> {
    assert!(word.is_word(), "an object begins with an aligned word");
    let mut before = load(word);
    for _ in 0..TRIES {
        if before & lock_mask != 0 {
            spin_loop();
            before = load(word);
            continue;
        }
        copy()?;
        // The copy comes before the second look at the word.
        fence(Acquire);
        let after = load(word);
        if after == before {
            return Ok(ObjectCopy::Whole(before));
        }
        before = after;
    }
    Ok(ObjectCopy::Busy(before))
}

fn load(word: Span<'_>) -> u64 {
    let mut bytes = [0; OBJECT_WORD_BYTES];
    word.read(&mut bytes);
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests;
