//! Mappings of memory that other processes share.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

#[cfg(test)]
use memory::Span;

/// A mapping, unmapped on drop. A child made by `fork` does not have it.
#[derive(Debug)]
pub(crate) struct SharedMapping {
    start: NonNull<u8>,
    len_bytes: usize,
    writable: bool,
    /// The process that made the mapping: in its child other memory may lie at this address.
    process: u32,
}

// SAFETY: a mapping is tied to no thread; its bytes are accessed only through atomics and spans.
unsafe impl Send for SharedMapping {}
// SAFETY: shared use is sound too: the bytes are accessed only through atomics and spans, and the other
// methods only read fields.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the first `len_bytes` of a file, shared.
    ///
    /// The caller must have checked that the file is a memfd that cannot shrink below that length.
    pub(crate) fn new(fd: BorrowedFd<'_>, len_bytes: usize, writable: bool) -> io::Result<SharedMapping> {
        SharedMapping::of_part(fd, 0, len_bytes, writable)
    }

    /// Maps `len_bytes` of a file from `start` on; the caller must have checked it as for
    /// [`new`](SharedMapping::new).
    pub(crate) fn of_part(
        fd: BorrowedFd<'_>,
        start: u64,
        len_bytes: usize,
        writable: bool,
    ) -> io::Result<SharedMapping> {
        let from = libc::off_t::try_from(start).map_err(|_| io::ErrorKind::InvalidInput)?;
        let rights = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start =
            unsafe { libc::mmap(core::ptr::null_mut(), len_bytes, rights, libc::MAP_SHARED, fd.as_raw_fd(), from) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = SharedMapping { start, len_bytes, writable, process: std::process::id() };
        // SAFETY: the range is this function's own new mapping.
        if unsafe { memory::madvise(mapping.start.as_ptr().cast(), len_bytes, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(mapping)
    }

    /// The first byte.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its length.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// True if it may be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// A span of the whole mapping.
    #[cfg(test)]
    pub(crate) fn span(&self) -> Span<'_> {
        // SAFETY: mapped until `self` is dropped; the only references to its bytes are to atomics.
        unsafe { Span::new(self.as_ptr(), self.len_bytes) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            // SAFETY: this value's own mapping, whole; every user of its bytes borrows it or holds an `Arc`
            // of it.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
        }
    }
}

/// A layout of shared memory.
///
/// # Safety
/// The type consists of atomics and cells only (and arrays and structures of them): any bytes
/// are valid, and they may change at any time through a shared reference.
pub(crate) unsafe trait Layout {}

// SAFETY: an atomic.
unsafe impl Layout for AtomicU32 {}
// SAFETY: an atomic.
unsafe impl Layout for AtomicU64 {}
// SAFETY: an array of a type that implements `Layout`.
unsafe impl<T: Layout, const N: usize> Layout for [T; N] {}

/// A value on its own cache lines.
#[repr(C, align(64))]
pub(crate) struct CacheLine<T>(pub(crate) T);

// SAFETY: a type that implements `Layout`, and padding that nothing reads.
unsafe impl<T: Layout> Layout for CacheLine<T> {}

/// A mapping with a layout.
pub(crate) struct SharedArea<T> {
    mapping: SharedMapping,
    layout: PhantomData<T>,
}

impl<T: Layout> SharedArea<T> {
    /// Maps a file of exactly that size. Nothing may be stored through a mapping that is not writable.
    pub(crate) fn new(fd: BorrowedFd<'_>, writable: bool) -> io::Result<SharedArea<T>> {
        let mapping = SharedMapping::new(fd, size_of::<T>(), writable)?;
        assert!(mapping.as_ptr().addr().is_multiple_of(align_of::<T>()), "pages are aligned enough");
        Ok(SharedArea { mapping, layout: PhantomData })
    }

    /// The bytes.
    #[cfg(test)]
    pub(crate) fn mapping(&self) -> &SharedMapping {
        &self.mapping
    }
}

impl<T: Layout> Deref for SharedArea<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: mapped until `self` is dropped, large enough and aligned (`new`). By the contract of
        // `Layout` any bytes are a valid value and may change at any time.
        unsafe { &*self.mapping.as_ptr().cast::<T>() }
    }
}
