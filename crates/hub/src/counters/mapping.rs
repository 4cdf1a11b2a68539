//! The writer's mapping of a counter page. All `unsafe` code of `counters` is here.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A shared, writable mapping of a whole memfd, only ever used through atomics.
#[derive(Debug)]
pub(super) struct PageMapping {
    base: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the mapping is memory of the whole process, and every access to it is an atomic operation.
unsafe impl Send for PageMapping {}
// SAFETY: a shared reference gives out `&AtomicU64` only, which any thread may use.
unsafe impl Sync for PageMapping {}

impl PageMapping {
    /// Maps the first `len_bytes` of a memfd; without one, private memory. The memfd must be sealed against
    /// shrinking, so that access to the mapping cannot fault.
    pub(super) fn new(memfd: Option<BorrowedFd<'_>>, len_bytes: usize) -> io::Result<PageMapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let anywhere = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses replaces nothing.
        let base = unsafe {
            match memfd {
                Some(memfd) => rustix::mm::mmap(anywhere, len_bytes, protection, MapFlags::SHARED, memfd, 0),
                None => rustix::mm::mmap_anonymous(anywhere, len_bytes, protection, MapFlags::PRIVATE),
            }
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(PageMapping { base, len_bytes })
    }

    /// The counter at a byte offset.
    ///
    /// # Panics
    /// If the offset is not a multiple of 8 or the counter would not lie within the mapping.
    pub(super) fn cell(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.len_bytes && self.len_bytes - at >= 8);
        // SAFETY: the eight bytes lie within the mapping, which lives as long as `self`, and they
        // are aligned, as the mapping starts on a page. They are only used through atomics (readers
        // in other processes go through `pread`).
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

impl Drop for PageMapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and references into it borrow `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
    }
}
