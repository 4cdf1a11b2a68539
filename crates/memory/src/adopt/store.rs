//! The memfd for adopted pages: one for the whole process, so that a thousand regions need one descriptor.
//!
//! ```text
//!   0        window of region A         window of region B                       2^62
//!   |........[pages]...gap..............[pages]...gap.................................|
//! ```
//!
//! The file has the maximum length of a file, and seals keep it so; untouched pages take no memory. A gap
//! follows each window. If a program enlarges an adopted range with mremap(2), it finds zeros there, as in
//! private memory. A window is never used twice.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::probe::{InodeId, MapsEntry};
use crate::region::{HUGE_BYTES, checked, file_limit_bytes, memfd, page_bytes};

const NAME: &core::ffi::CStr = c"longarm-adopted";
const MOST_BYTES: u64 = 1 << 62;
/// Bytes by which a range may grow before it reaches the next window.
const GAP_BYTES: u64 = 64 << 30;
/// The number of stores that a process and its ancestors can have had.
const MOST_STORES: usize = 16;

/// The memfd from which windows are allocated.
#[derive(Debug)]
pub(super) struct Store {
    fd: Arc<OwnedFd>,
    file: InodeId,
    bytes: u64,
    /// The offset where the next window may begin.
    next: u64,
}

/// A part of a store.
#[derive(Clone, Debug)]
pub(super) struct StoreWindow {
    pub(super) fd: Arc<OwnedFd>,
    file: InodeId,
    /// The offset of its pages in the file, in bytes.
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// The offset where the next window may begin.
    end: u64,
}

impl Store {
    /// # Errors
    /// The error of memfd_create(2) or ftruncate(2); `FileTooLarge` if the process may not make such files,
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

    fn take(&mut self, range: &Range<usize>) -> Option<StoreWindow> {
        let bytes = range.len() as u64;
        let gap = GAP_BYTES.min(self.bytes / 64);
        let start = match range.len() < HUGE_BYTES {
            true => self.next,
            // At the same offset into a huge page as the range itself, so that huge pages fit.
            false => self.next.checked_next_multiple_of(HUGE_BYTES as u64)? + (range.start % HUGE_BYTES) as u64,
        };
        let end = start.checked_add(bytes)?.checked_add(gap)?.checked_next_multiple_of(page_bytes() as u64)?;
        if end > self.bytes {
            return None;
        }
        self.next = end;
        Some(StoreWindow { fd: Arc::clone(&self.fd), file: self.file, start, bytes, end })
    }
}

/// A window for a range, from the present store or, if that is full, from a new one.
///
/// # Errors
/// As for a new store.
pub(super) fn window(store: &mut Option<Store>, range: &Range<usize>) -> io::Result<StoreWindow> {
    if let Some(window) = store.as_mut().and_then(|store| store.take(range)) {
        return Ok(window);
    }
    let mut fresh = Store::new()?;
    let window = fresh.take(range).ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
    *store = Some(fresh);
    Ok(window)
}

impl StoreWindow {
    /// True if a mapping shows a part of this window, its gap included.
    pub(super) fn is_in(&self, mapping: &MapsEntry) -> bool {
        let end = mapping.offset + mapping.range.len() as u64;
        mapping.file == self.file && mapping.offset < self.end && end > self.start
    }

    /// True if this offset of a store lies in this window.
    pub(super) fn has(&self, file: InodeId, offset: u64) -> bool {
        file == self.file && (self.start..self.end).contains(&offset)
    }

    /// Frees the memory of the window and its gap. The process must not map it any more.
    pub(super) fn free(&self) {
        free(&self.fd, self.start, self.end - self.start);
    }
}

/// Frees the memory of a part of a store.
pub(super) fn free(fd: &impl AsFd, start: u64, len_bytes: u64) {
    let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: punches a hole in a file of this library; no Rust reference points into its pages.
    unsafe { libc::fallocate(fd.as_fd().as_raw_fd(), flags, start as i64, len_bytes as i64) };
}

/// Identities of store files, by which their mappings are recognized. A mapping may come from a parent
/// process.
struct KnownFile {
    device: AtomicU64,
    /// Zero until `device` is stored.
    inode: AtomicU64,
}

static KNOWN: [KnownFile; MOST_STORES] =
    [const { KnownFile { device: AtomicU64::new(0), inode: AtomicU64::new(0) } }; MOST_STORES];

/// True if this process, or an ancestor by fork, has ever adopted memory.
#[inline]
pub(super) fn was_used() -> bool {
    KNOWN[0].inode.load(Relaxed) != 0
}

/// True if a mapping shows adopted pages, shared or as a private copy.
pub(super) fn is_adopted(mapping: &MapsEntry) -> bool {
    let known = KNOWN.iter().take_while(|known| known.inode.load(Acquire) != 0);
    known.into_iter().any(|known| {
        let file = InodeId { device: known.device.load(Relaxed), inode: known.inode.load(Relaxed) };
        file == mapping.file
    })
}

/// Records a store. The caller must hold the table's lock.
fn remember(file: InodeId) -> io::Result<()> {
    let free = KNOWN.iter().find(|known| known.inode.load(Relaxed) == 0);
    let known = free.ok_or_else(|| io::Error::from(io::ErrorKind::QuotaExceeded))?;
    known.device.store(file.device, Relaxed);
    known.inode.store(file.inode, Release);
    Ok(())
}

fn file_id(fd: &impl AsFd) -> io::Result<InodeId> {
    // SAFETY: an all-zero `stat` is valid, and the call fills it.
    let status = unsafe {
        let mut status: libc::stat = core::mem::zeroed();
        checked(libc::fstat(fd.as_fd().as_raw_fd(), &mut status))?;
        status
    };
    Ok(InodeId::new(libc::major(status.st_dev), libc::minor(status.st_dev), status.st_ino))
}
