//! The effect of madvise(2) on adopted memory.
//!
//! `MADV_DONTNEED` gives private memory back: the next read finds zeros. In shared memory it changes nothing.
//! So such a call of the program comes here first, and fresh private pages replace the adopted ones. A
//! program whose pages a network card holds sees the same: the card keeps the old pages.
//!
//! No function here allocates or takes a lock: the caller may be the program's allocator.

use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::store;
use crate::calls;
use crate::probe::{self, overlap};
use crate::region::page_bytes;

/// `MADV_DONTNEED_LOCKED` of Linux 5.18.
const DONTNEED_LOCKED: libc::c_int = 24;
/// Advice that sets flags on private pages. Moving the pages into shared memory would lose these flags.
const MARKS: [libc::c_int; 4] = [libc::MADV_WIPEONFORK, libc::MADV_DONTFORK, libc::MADV_MERGEABLE, libc::MADV_DONTDUMP];
/// The number of advised ranges that are recorded one by one.
const MOST_MARKED: usize = 256;

/// A range with such advice. It is never removed, because it only keeps memory from being adopted.
struct Marked {
    start: AtomicUsize,
    /// Zero until `start` is stored.
    end: AtomicUsize,
}

static MARKED: [Marked; MOST_MARKED] =
    [const { Marked { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; MOST_MARKED];
static MARKED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Carries out a program's `madvise` for adopted pages. The rest of the range is left to the kernel:
/// `otherwise` is called for each part of it, or once for the whole range if nothing is adopted.
///
/// # Errors
/// The error of `otherwise` or of the kernel.
///
/// # Safety
/// As madvise(2), by the owner of the range.
pub unsafe fn advise(
    start: usize,
    len_bytes: usize,
    advice: libc::c_int,
    mut otherwise: impl FnMut(usize, usize) -> io::Result<()>,
) -> io::Result<()> {
    if MARKS.contains(&advice) {
        mark(start, len_bytes);
    }
    let gives_back = matches!(advice, libc::MADV_DONTNEED | DONTNEED_LOCKED | libc::MADV_FREE);
    let page = page_bytes();
    let end = start.checked_add(len_bytes).and_then(|end| end.checked_next_multiple_of(page));
    let (true, true, Some(end)) = (gives_back && store::was_used(), start.is_multiple_of(page), end) else {
        return otherwise(start, len_bytes);
    };
    let range = start..end;
    // Everything before `done` is finished.
    let (mut done, mut result) = (start, Ok(()));
    probe::visit(&range, |mapping| {
        if result.is_ok() && store::is_adopted(mapping) {
            let part = overlap(&mapping.range, &range);
            if done < part.start {
                result = otherwise(done, part.start - done);
            }
            if result.is_ok() && advice != libc::MADV_FREE {
                // SAFETY: the owner of the pages gives them back.
                result = unsafe { renew(&part, mapping.rights()) };
            }
            done = part.end;
        }
    });
    result?;
    if done < end { otherwise(done, end - done) } else { Ok(()) }
}

/// Replaces pages by fresh private ones.
///
/// # Safety
/// Nothing of the range may be needed any more.
unsafe fn renew(range: &Range<usize>, rights: libc::c_int) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let start = core::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: this function's contract: nobody needs the range any more.
    let mapped = unsafe { calls::mmap(start, range.len(), rights, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn mark(start: usize, len_bytes: usize) {
    let place = MARKED_COUNT.fetch_add(1, Relaxed);
    if let Some(marked) = MARKED.get(place) {
        marked.start.store(start, Relaxed);
        marked.end.store(start.saturating_add(len_bytes), Release);
    }
}

/// True if such advice was given for any byte of a range. Always true once there were more than
/// [`MOST_MARKED`].
pub(super) fn was_given(range: &Range<usize>) -> bool {
    let count = MARKED_COUNT.load(Relaxed);
    let marked = |marked: &Marked| {
        let end = marked.end.load(Acquire);
        !overlap(&(marked.start.load(Relaxed)..end), range).is_empty()
    };
    count > MOST_MARKED || MARKED[..count].iter().any(marked)
}
