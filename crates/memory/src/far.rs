//! Memory that is not simply there: on-demand regions, whose pages may come and go while they
//! are registered, and the null region, which has none.
//!
//! The access path knows nothing of them: to its range check they are empty. What it
//! refuses comes here, so that ordinary regions pay nothing.
//!
//! On-demand memory is reached by `process_vm_readv` and `process_vm_writev` on our own
//! process. They copy as the processor would, but answer with an error where it would fault.
//! Atomics need the processor: the page is made present and writable first, which says
//! whether it can be, and then used. Who unmaps a page in the moment between the two crashes:
//! [`unmapped`](crate::unmapped) leaves these regions out, since one may be the whole address space, where
//! an access of ours cannot be told from a mistake of the program.

use core::ffi::c_void;
use std::sync::OnceLock;

use transport::MemoryError;

use crate::calls;
use crate::grant::Grant;
use crate::probe;
use crate::region::page_bytes;
use crate::span::Span;

/// How the bytes of a region are reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Backing {
    /// They are mapped for as long as the region is registered.
    Mapped,
    /// Some may be mapped and some not, at any time.
    OnDemand,
    /// There are none: reads give zeros, writes vanish.
    Null,
}

/// Bytes of the unit whose last store tells a poller that all is there.
const WORD: usize = 8;

impl Grant {
    /// Reads a range that is not mapped for good. `outside` is what the range check said.
    #[cold]
    pub(crate) fn read_far(&self, addr: u64, out: &mut [u8], outside: MemoryError) -> Result<(), MemoryError> {
        let place = self.place(addr, out.len() as u64, outside)?;
        if self.backing == Backing::Null {
            out.fill(0);
            return Ok(());
        }
        get(place, out.as_mut_ptr(), out.len())
    }

    /// Writes a range that is not mapped for good, the last word last. If a part of it is not
    /// mapped, what lies before may have been written.
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

    /// As [`read_far`](Grant::read_far), into a span, the last word last.
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

    /// As [`write_far`](Grant::write_far), from a span.
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

    /// Eight bytes that are not mapped for good, for an atomic. They are mapped and writable now.
    #[cold]
    pub(crate) fn word_far<'a>(&self, addr: u64, outside: MemoryError) -> Result<Span<'a>, MemoryError> {
        let place = self.place(addr, WORD as u64, outside)?;
        if self.backing == Backing::Null || !place.addr().is_multiple_of(WORD) {
            return Err(MemoryError::Misaligned);
        }
        make_present(place)?;
        // SAFETY: mapped and writable a moment ago; the module tells of the moment in between.
        Ok(unsafe { Span::new(place, WORD) })
    }

    /// Where a range begins, if it lies within a region of this kind.
    pub(crate) fn place(&self, addr: u64, len_bytes: u64, outside: MemoryError) -> Result<*mut u8, MemoryError> {
        if self.backing == Backing::Mapped {
            return Err(outside);
        }
        let offset = addr.checked_sub(self.base).ok_or(outside)?;
        let inside = offset <= self.far_bytes && len_bytes <= self.far_bytes - offset;
        if inside { Ok(self.start.wrapping_add(offset as usize)) } else { Err(outside) }
    }
}

/// Whether the kernel lets us copy within our own process so.
pub(crate) fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        let (from, mut to) = (1u8, 0u8);
        let local = libc::iovec { iov_base: (&raw mut to).cast(), iov_len: 1 };
        let remote = libc::iovec { iov_base: (&raw const from).cast_mut().cast(), iov_len: 1 };
        // SAFETY: copies one byte between two of our own.
        unsafe { calls::process_vm_readv(libc::getpid(), &local, &remote) == 1 }
    })
}

/// How many bytes come before the last aligned word of a range, and how many are in it.
fn split(start: *mut u8, len_bytes: usize) -> (usize, usize) {
    let into_last_word = start.addr().wrapping_add(len_bytes).wrapping_sub(1) % WORD;
    let body = len_bytes.saturating_sub(into_last_word + 1);
    (body, len_bytes - body)
}

/// Copies from a place that may not be mapped to `to`, which must be valid for that many bytes.
fn get(from: *mut u8, to: *mut u8, len_bytes: usize) -> Result<(), MemoryError> {
    if len_bytes == 0 {
        return Ok(());
    }
    // SAFETY: the kernel writes to `to` alone, and no more than asked.
    let count = unsafe { calls::process_vm_readv(libc::getpid(), &part(to, len_bytes), &part(from, len_bytes)) };
    transferred(count, len_bytes)
}

/// Copies to a place that may not be mapped from `from`, which must be valid for that many bytes.
fn put(to: *mut u8, from: *const u8, len_bytes: usize) -> Result<(), MemoryError> {
    if len_bytes == 0 {
        return Ok(());
    }
    let local = part(from.cast_mut(), len_bytes);
    // SAFETY: the kernel reads `from` alone. What it writes to lies in a region that its owner
    // opened to writes, and if nothing is mapped there it says so.
    let count = unsafe { calls::process_vm_writev(libc::getpid(), &local, &part(to, len_bytes)) };
    transferred(count, len_bytes)
}

fn part(start: *mut u8, len_bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast(), iov_len: len_bytes }
}

/// All, or a fault on the way.
fn transferred(count: isize, wanted: usize) -> Result<(), MemoryError> {
    if usize::try_from(count) == Ok(wanted) { Ok(()) } else { Err(MemoryError::Unmapped) }
}

/// Makes the page of a word present and writable, or says that it cannot be.
fn make_present(word: *mut u8) -> Result<(), MemoryError> {
    let page = page_bytes();
    let first: *mut c_void = word.wrapping_sub(word.addr() % page).cast();
    // SAFETY: prefaults a page, which changes no contents.
    if unsafe { libc::madvise(first, page, libc::MADV_POPULATE_WRITE) } == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error() {
        // The page may not be written, or the kernel is older than 5.14.
        Some(libc::EINVAL) => by_looking(word),
        _ => Err(MemoryError::Unmapped),
    }
}

/// For kernels that cannot prefault: the mapping allows it, and there is a page behind it.
fn by_looking(word: *mut u8) -> Result<(), MemoryError> {
    probe::check(word.addr(), WORD, true).map_err(|_| MemoryError::Unmapped)?;
    let mut bytes = [0; WORD];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: WORD };
    // SAFETY: the kernel writes to `bytes` alone.
    transferred(unsafe { calls::process_vm_readv(libc::getpid(), &local, &part(word, WORD)) }, WORD)
}

#[cfg(test)]
mod tests;
