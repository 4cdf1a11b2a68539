//! Memory that is shared with other processes, as mapped here.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

#[cfg(test)]
use memory::Span;

/// A mapping, until it is dropped. A child made by `fork` does not have it.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
    writable: bool,
    /// Whose mapping it is: in a child of that process something else may be at its place.
    process: u32,
}

// SAFETY: a mapping is tied to no thread; its bytes are reached through atomics and spans only.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len_bytes` of a file, shared.
    ///
    /// The caller has made sure that the file is a memfd that cannot shrink below that.
    pub(crate) fn new(fd: BorrowedFd<'_>, len_bytes: usize, writable: bool) -> io::Result<Mapping> {
        Mapping::of_part(fd, 0, len_bytes, writable)
    }

    /// Maps `len_bytes` of a file from `start` on, likewise.
    pub(crate) fn of_part(fd: BorrowedFd<'_>, start: u64, len_bytes: usize, writable: bool) -> io::Result<Mapping> {
        let from = libc::off_t::try_from(start).map_err(|_| io::ErrorKind::InvalidInput)?;
        let rights = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start =
            unsafe { libc::mmap(core::ptr::null_mut(), len_bytes, rights, libc::MAP_SHARED, fd.as_raw_fd(), from) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping { start, len_bytes, writable, process: std::process::id() };
        // SAFETY: the range is our own new mapping.
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

    /// Whether it may be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// All of it.
    #[cfg(test)]
    pub(crate) fn span(&self) -> Span<'_> {
        // SAFETY: mapped until dropped, and no reference to its bytes is ever made but to atomics.
        unsafe { Span::new(self.as_ptr(), self.len_bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            // SAFETY: our own mapping, whole; whoever reaches into it borrows it or pins it.
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
// SAFETY: consists of what is sound by itself.
unsafe impl<T: Layout, const N: usize> Layout for [T; N] {}

/// Something that has cache lines of its own.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

// SAFETY: a structure of what is sound by itself, and padding that nobody looks at.
unsafe impl<T: Layout> Layout for Line<T> {}

/// A mapping with a layout.
pub(crate) struct Shared<T> {
    mapping: Mapping,
    layout: PhantomData<T>,
}

impl<T: Layout> Shared<T> {
    /// Maps a file of exactly that size. Through a mapping that is not writable nothing may be stored.
    pub(crate) fn new(fd: BorrowedFd<'_>, writable: bool) -> io::Result<Shared<T>> {
        let mapping = Mapping::new(fd, size_of::<T>(), writable)?;
        assert!(mapping.as_ptr().addr().is_multiple_of(align_of::<T>()), "pages are aligned enough");
        Ok(Shared { mapping, layout: PhantomData })
    }

    /// The bytes.
    #[cfg(test)]
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

impl<T: Layout> Deref for Shared<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: mapped until dropped, as large as the layout and aligned; any bytes are a
        // valid value, and others changing them is what the layout's atomics are for.
        unsafe { &*self.mapping.as_ptr().cast::<T>() }
    }
}
