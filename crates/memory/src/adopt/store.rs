//! The memfd that adopted pages lie in: one for the whole process, so that a thousand regions need one descriptor.
//!
//! ```text
//!   0        window of region A         window of region B                       2^62
//!   |........[pages]...gap..............[pages]...gap.................................|
//! ```
//!
//! The file is as long as a file may be, and sealed so; pages that nobody touched take no memory. Behind each window
//! lies a gap: should a program enlarge an adopted range with mremap(2), it finds zeros there, as it would in private
//! memory. A window is never used twice.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::probe::{FileId, Mapping};
use crate::region::{HUGE_BYTES, checked, file_limit_bytes, memfd, page_bytes};

const NAME: &core::ffi::CStr = c"longarm-adopted";
const MOST_BYTES: u64 = 1 << 62;
/// How far a range may grow before it reaches the next window.
const GAP_BYTES: u64 = 64 << 30;
/// Stores that a process and its ancestors can have had.
const MOST_STORES: usize = 16;

/// The store that windows are taken from.
#[derive(Debug)]
pub(super) struct Store {
    fd: Arc<OwnedFd>,
    file: FileId,
    bytes: u64,
    /// Where the next window may begin.
    next: u64,
}

/// A part of a store.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) fd: Arc<OwnedFd>,
    file: FileId,
    /// Where its pages begin, in bytes from the beginning of the file.
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// Where the next window may begin.
    end: u64,
}

impl Store {
    /// # Errors
    /// What memfd_create(2) and ftruncate(2) say; `FileTooLarge` if the process may not make such files,
    /// `QuotaExceeded` after too many stores.
    fn new() -> io::Result<Store> {
        let page = page_bytes() as u64;
        let bytes = file_limit_bytes().min(MOST_BYTES) / page * page;
        if bytes == 0 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let fd = guest::high(memfd(NAME, bytes as usize, 0)?);
        let file = file_id(&fd)?;
        remember(file)?;
        Ok(Store { fd: Arc::new(fd), file, bytes, next: 0 })
    }

    fn take(&mut self, range: &Range<usize>) -> Option<Window> {
        let bytes = range.len() as u64;
        let gap = GAP_BYTES.min(self.bytes / 64);
        let start = match range.len() < HUGE_BYTES {
            true => self.next,
            // As far into a huge page as the range itself, so that huge pages fit.
            false => self.next.checked_next_multiple_of(HUGE_BYTES as u64)? + (range.start % HUGE_BYTES) as u64,
        };
        let end = start.checked_add(bytes)?.checked_add(gap)?.checked_next_multiple_of(page_bytes() as u64)?;
        if end > self.bytes {
            return None;
        }
        self.next = end;
        Some(Window { fd: Arc::clone(&self.fd), file: self.file, start, bytes, end })
    }
}

/// A window for a range, from the present store or, if that has no room, from a new one.
///
/// # Errors
/// As for a new store.
pub(super) fn window(store: &mut Option<Store>, range: &Range<usize>) -> io::Result<Window> {
    if let Some(window) = store.as_mut().and_then(|store| store.take(range)) {
        return Ok(window);
    }
    let mut fresh = Store::new()?;
    let window = fresh.take(range).ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
    *store = Some(fresh);
    Ok(window)
}

impl Window {
    /// Whether a mapping shows a part of this window, its gap included.
    pub(super) fn is_in(&self, mapping: &Mapping) -> bool {
        let end = mapping.offset + mapping.range.len() as u64;
        mapping.file == self.file && mapping.offset < self.end && end > self.start
    }

    /// Whether it is the window that this offset of a store lies in.
    pub(super) fn has(&self, file: FileId, offset: u64) -> bool {
        file == self.file && (self.start..self.end).contains(&offset)
    }

    /// Frees the memory of the window and its gap, which nothing of the process maps any more.
    pub(super) fn free(&self) {
        free(&self.fd, self.start, self.end - self.start);
    }
}

/// Frees the memory of a part of a store.
pub(super) fn free(fd: &impl AsFd, start: u64, len_bytes: u64) {
    let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: frees memory of a file of ours.
    unsafe { libc::fallocate(fd.as_fd().as_raw_fd(), flags, start as i64, len_bytes as i64) };
}

/// Files of stores, by which their mappings are recognized. A mapping may be older than this process: its parent's.
struct Known {
    device: AtomicU64,
    /// Zero until the device is there.
    inode: AtomicU64,
}

static KNOWN: [Known; MOST_STORES] =
    [const { Known { device: AtomicU64::new(0), inode: AtomicU64::new(0) } }; MOST_STORES];

/// Whether this process, or one that it was forked from, has ever adopted anything.
#[inline]
pub(super) fn was_used() -> bool {
    KNOWN[0].inode.load(Relaxed) != 0
}

/// Whether a mapping shows adopted pages, shared or as a private copy.
pub(super) fn is_adopted(mapping: &Mapping) -> bool {
    let known = KNOWN.iter().take_while(|known| known.inode.load(Acquire) != 0);
    known.into_iter().any(|known| {
        let file = FileId { device: known.device.load(Relaxed), inode: known.inode.load(Relaxed) };
        file == mapping.file
    })
}

/// To be called under the table's lock.
fn remember(file: FileId) -> io::Result<()> {
    let free = KNOWN.iter().find(|known| known.inode.load(Relaxed) == 0);
    let known = free.ok_or_else(|| io::Error::from(io::ErrorKind::QuotaExceeded))?;
    known.device.store(file.device, Relaxed);
    known.inode.store(file.inode, Release);
    Ok(())
}

fn file_id(fd: &impl AsFd) -> io::Result<FileId> {
    // SAFETY: all zeros are such a structure, and the call fills it.
    let status = unsafe {
        let mut status: libc::stat = core::mem::zeroed();
        checked(libc::fstat(fd.as_fd().as_raw_fd(), &mut status))?;
        status
    };
    Ok(FileId::new(libc::major(status.st_dev), libc::minor(status.st_dev), status.st_ino))
}
