//! Gives adoption up: peers lose access to adopted pages, and the pages become private again in one step,
//! without a copy.
//!
//! ```text
//!   no key leads peers to adopted pages any more -> their accesses have ended
//!     -> mmap(MAP_FIXED | MAP_PRIVATE) of the same file at the same place
//! ```
//!
//! The kernel changes the mapping under its lock. A thread that touches the range meanwhile waits a moment
//! and continues, in a system call as well. The file keeps its contents, and nobody writes to it any more. A
//! reader therefore finds the same bytes. A writer gets a private copy of the page, in the child of a fork as
//! in its parent.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Weak};

use super::moves::Pages;
use crate::calls;
use crate::mirror::Mirror;

/// Numbers of adopted objects begin here; other objects have smaller numbers.
const FIRST: u32 = 1 << 31;

static NEXT: AtomicU32 = AtomicU32::new(FIRST);
/// Adopted objects with smaller numbers are given up.
static FLOOR: AtomicU32 = AtomicU32::new(FIRST);

/// A number that no adopted object of this process had before. `None` when all have been used.
pub(crate) fn next_number() -> Option<u32> {
    // The last number is never used.
    NEXT.fetch_update(Relaxed, Relaxed, |number| (number < u32::MAX - 1).then_some(number + 1)).ok()
}

/// True if the program no longer sees the bytes of this object.
#[inline]
pub fn is_given_up(object: u32) -> bool {
    object >= FIRST && object < FLOOR.load(Acquire)
}

/// True if adoption has ended in this process.
pub(super) fn is_over() -> bool {
    FLOOR.load(Relaxed) == u32::MAX
}

/// The mirrors, which tell peers of keys.
#[derive(Debug)]
pub(super) struct Mirrors(Vec<Weak<dyn Mirror>>);

impl Mirrors {
    pub(super) const fn new() -> Mirrors {
        Mirrors(Vec::new())
    }

    pub(super) fn add(&mut self, mirror: &Arc<dyn Mirror>) {
        self.0.retain(|mirror| mirror.strong_count() > 0);
        self.0.push(Arc::downgrade(mirror));
    }

    /// Cuts peers off for good. On return none of their accesses to adopted pages is in progress.
    pub(super) fn cut_off(&self) {
        FLOOR.store(u32::MAX, Release);
        for mirror in self.0.iter().filter_map(Weak::upgrade) {
            mirror.given_up();
        }
    }
}

/// In the child of a fork: gives up its parent's objects, but not those that it adopts itself later.
pub(super) fn reset_in_child() {
    FLOOR.store(NEXT.load(Relaxed), Release);
}

/// Makes shared pages of a store private, without a change to their contents.
///
/// # Errors
/// The error of mmap(2); the pages are unchanged then.
///
/// # Safety
/// The file must be mapped there with these rights, and nobody may write to that part of it from now on.
pub(super) unsafe fn make_private(pages: &Pages, rights: libc::c_int, file: &impl AsRawFd) -> io::Result<()> {
    let (start, len_bytes) = (core::ptr::with_exposed_provenance_mut(pages.range.start), pages.range.len());
    let (flags, offset) = (libc::MAP_PRIVATE | libc::MAP_FIXED, pages.offset as i64);
    // SAFETY: maps the same bytes of the file at the same address, and nobody writes to the file any more
    // (this function's contract).
    let mapped = unsafe { calls::mmap(start, len_bytes, rights, flags, file.as_raw_fd(), offset) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}
