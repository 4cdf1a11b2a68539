//! Memory that may be missing: on-demand regions, whose pages may come and go while they are registered, and
//! the null region, which has none.
//!
//! The access path does not know these regions: to its range check they are empty. Accesses that it refuses
//! come here, so that ordinary regions pay nothing.
//!
//! On-demand memory is accessed by `process_vm_readv` and `process_vm_writev` on this own process. They copy
//! as the processor would, but return an error where the processor would fault. Atomics need the processor:
//! the page is first made present and writable, which fails if it cannot be, and then used. If the program
//! unmaps the page between these two steps, the process crashes. [`unmapped`](crate::unmapped) leaves these
//! regions out: one may be the whole address space, where a fault of this library looks like a fault of the
//! program.

use core::ffi::c_void;
use std::sync::OnceLock;

use transport::MemoryError;

use crate::calls;
use crate::grant::Grant;
use crate::probe;
use crate::region::page_bytes;
use crate::span::Span;

/// The kind of memory under a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Backing {
    /// The bytes are mapped for as long as the region is registered.
    Mapped,
    /// At any time some bytes may be mapped and others not.
    OnDemand,
    /// There are no bytes: reads return zeros, writes vanish.
    Null,
}

/// Bytes of a word. The last store of a copy is within one word and tells a poller that all bytes are there.
const WORD: usize = 8;

impl Grant {
    /// Reads a range that is not mapped for good. `outside` is the error of the range check.
    #[cold]
    pub(crate) fn read_far(&self, addr: u64, out: &mut [u8], outside: MemoryError) -> Result<(), MemoryError> {
        let place = self.place(addr, out.len() as u64, outside)?;
        if self.backing == Backing::Null {
            out.fill(0);
            return Ok(());
        }
        get(place, out.as_mut_ptr(), out.len())
    }

    /// Writes a range that is not mapped for good, the last word last. If a part of it is not mapped, the
    /// bytes before that part may have been written.
    #[cold]
    pub(crate) fn write_far(&self, addr: u64, data: &[u8], outside: MemoryError) -> Result<(), MemoryError> {
        let place = self.place(addr, data.len() as u64, outside)?;
        if self.backing == Backing::Null {
            return Ok(());
        }
        let (body, tail) = data.split_at(split(place, data.len()).0);
        put(place, body.as_ptr(), body.len())?;
        put(place.wrapping_add(body.len()), tail.as_ptr(), tail.len())
    }

    /// Like [`read_far`](Grant::read_far), into a span, the last word last.
    #[cold]
    pub(crate) fn read_far_to(&self, addr: u64, to: Span<'_>, outside: MemoryError) -> Result<(), MemoryError> {
        let place = self.place(addr, to.len_bytes() as u64, outside)?;
        let (body, tail) = split(to.ptr(), to.len_bytes());
        if self.backing == Backing::Null {
            // SAFETY: within the span, which is valid for writes.
            unsafe { core::ptr::write_bytes(to.ptr(), 0, to.len_bytes()) };
            return Ok(());
        }
        get(place, to.ptr(), body)?;
        get(place.wrapping_add(body), to.ptr().wrapping_add(body), tail)
    }

    /// Like [`write_far`](Grant::write_far), from a span.
    #[cold]
    pub(crate) fn write_far_from(&self, addr: u64, from: Span<'_>, outside: MemoryError) -> Result<(), MemoryError> {
        let place = self.place(addr, from.len_bytes() as u64, outside)?;
        if self.backing == Backing::Null {
            return Ok(());
        }
        let (body, tail) = split(place, from.len_bytes());
        put(place, from.ptr(), body)?;
        put(place.wrapping_add(body), from.ptr().wrapping_add(body), tail)
    }

    /// Eight bytes that are not mapped for good, for an atomic. On return they are mapped and writable.
    #[cold]
    pub(crate) fn word_far<'a>(&self, addr: u64, outside: MemoryError) -> Result<Span<'a>, MemoryError> {
        let place = self.place(addr, WORD as u64, outside)?;
        if self.backing == Backing::Null || !place.addr().is_multiple_of(WORD) {
            return Err(MemoryError::Misaligned);
        }
        make_present(place)?;
        // SAFETY: `make_present` has just found it mapped and writable. The module comment describes the
        // remaining race.
        Ok(unsafe { Span::new(place, WORD) })
    }

    /// The first byte of a range, if it lies within an on-demand or null region.
    pub(crate) fn place(&self, addr: u64, len_bytes: u64, outside: MemoryError) -> Result<*mut u8, MemoryError> {
        if self.backing == Backing::Mapped {
            return Err(outside);
        }
        let offset = addr.checked_sub(self.base).ok_or(outside)?;
        let inside = offset <= self.far_bytes && len_bytes <= self.far_bytes - offset;
        if inside { Ok(self.start.wrapping_add(offset as usize)) } else { Err(outside) }
    }
}

/// True if the kernel lets this process copy its own memory with `process_vm_readv`.
pub(crate) fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        let (from, mut to) = (1u8, 0u8);
        let local = libc::iovec { iov_base: (&raw mut to).cast(), iov_len: 1 };
        let remote = libc::iovec { iov_base: (&raw const from).cast_mut().cast(), iov_len: 1 };
        // SAFETY: copies one byte between two variables of this function.
        unsafe { calls::process_vm_readv(libc::getpid(), &local, &remote) == 1 }
    })
}

/// The number of bytes before the last aligned word of a range, and the number in it.
fn split(start: *mut u8, len_bytes: usize) -> (usize, usize) {
    let into_last_word = start.addr().wrapping_add(len_bytes).wrapping_sub(1) % WORD;
    let body = len_bytes.saturating_sub(into_last_word + 1);
    (body, len_bytes - body)
}

/// Copies from an address that may not be mapped to `to`, which must be valid for that many bytes.
fn get(from: *mut u8, to: *mut u8, len_bytes: usize) -> Result<(), MemoryError> {
    if len_bytes == 0 {
        return Ok(());
    }
    // SAFETY: the kernel writes only to `to`, and at most `len_bytes`.
    let count = unsafe { calls::process_vm_readv(libc::getpid(), &part(to, len_bytes), &part(from, len_bytes)) };
    transferred(count, len_bytes)
}

/// Copies to an address that may not be mapped from `from`, which must be valid for that many bytes.
fn put(to: *mut u8, from: *const u8, len_bytes: usize) -> Result<(), MemoryError> {
    if len_bytes == 0 {
        return Ok(());
    }
    let local = part(from.cast_mut(), len_bytes);
    // SAFETY: the kernel only reads `from`. It writes to a region that its owner has opened to writes, and
    // returns an error if nothing is mapped there.
    let count = unsafe { calls::process_vm_writev(libc::getpid(), &local, &part(to, len_bytes)) };
    transferred(count, len_bytes)
}

fn part(start: *mut u8, len_bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast(), iov_len: len_bytes }
}

/// Success if all bytes were copied; otherwise there was a fault.
fn transferred(count: isize, wanted: usize) -> Result<(), MemoryError> {
    if usize::try_from(count) == Ok(wanted) { Ok(()) } else { Err(MemoryError::Unmapped) }
}

/// Makes the page of a word present and writable, or returns an error.
fn make_present(word: *mut u8) -> Result<(), MemoryError> {
    let page = page_bytes();
    let first: *mut c_void = word.wrapping_sub(word.addr() % page).cast();
    // SAFETY: prefaults a page, which changes no contents.
    if unsafe { libc::madvise(first, page, libc::MADV_POPULATE_WRITE) } == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error() {
        // The page is read-only, or the kernel is older than 5.14.
        Some(libc::EINVAL) => check_present(word),
        _ => Err(MemoryError::Unmapped),
    }
}

/// For kernels that cannot prefault: checks that the mapping allows writes and has a page.
fn check_present(word: *mut u8) -> Result<(), MemoryError> {
    probe::check(word.addr(), WORD, true).map_err(|_| MemoryError::Unmapped)?;
    let mut bytes = [0; WORD];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: WORD };
    // SAFETY: the kernel writes only to `bytes`.
    transferred(unsafe { calls::process_vm_readv(libc::getpid(), &local, &part(word, WORD)) }, WORD)
}

#[cfg(test)]
mod tests;
