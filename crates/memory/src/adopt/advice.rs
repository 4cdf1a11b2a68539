//! What madvise(2) means for adopted memory.
//!
//! `MADV_DONTNEED` gives private memory back: the next look finds zeros. In shared memory it changes nothing, so such a
//! call of the program comes here first, and fresh private pages take the place of adopted ones. That is what a program
//! sees whose pages a network card holds: the card keeps the old ones.
//!
//! Nothing here allocates or takes a lock: the caller may be the program's allocator.

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
/// Marks that private pages have and shared ones would lose.
const MARKS: [libc::c_int; 4] = [libc::MADV_WIPEONFORK, libc::MADV_DONTFORK, libc::MADV_MERGEABLE, libc::MADV_DONTDUMP];
/// Marked ranges that are remembered one by one.
const MOST_MARKED: usize = 256;

/// A range that was marked, for good: it only keeps memory from being adopted.
struct Marked {
    start: AtomicUsize,
    /// Zero until the beginning is there.
    end: AtomicUsize,
}

static MARKED: [Marked; MOST_MARKED] =
    [const { Marked { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; MOST_MARKED];
static MARKED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// What a program's `madvise` means for adopted pages, which is done here. The rest of the range is for the kernel:
/// `otherwise` is called for each part of it, or once for all of it if nothing is adopted.
///
/// # Errors
/// What `otherwise` or the kernel says.
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
    // Up to here everything is done with.
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

/// Puts fresh private pages in the place of others.
///
/// # Safety
/// Nothing of the range may be needed any more.
unsafe fn renew(range: &Range<usize>, rights: libc::c_int) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let start = core::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: passed on to the caller.
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

/// Whether a mark was put on any of a range; always, if there were more marks than are remembered.
pub(super) fn was_given(range: &Range<usize>) -> bool {
    let count = MARKED_COUNT.load(Relaxed);
    let marked = |marked: &Marked| {
        let end = marked.end.load(Acquire);
        !overlap(&(marked.start.load(Relaxed)..end), range).is_empty()
    };
    count > MOST_MARKED || MARKED[..count].iter().any(marked)
}
