//! The system calls that change mappings, made by ourselves.
//!
//! Programs put functions of their own in the place of the C library's: UCX patches `mmap`, `munmap`, `madvise` and
//! `mremap` to hear of memory that goes, and its `mremap` does not pass on the fifth argument, the address
//! that `MREMAP_FIXED` is about. Nothing of what is done here takes memory away from the program, so
//! nobody need hear of it; and the addresses must arrive.
//!
//! Each is as its manual page says, `MAP_FAILED` and -1 with `errno` included.

use core::ffi::{c_int, c_void};

/// # Safety
/// As mmap(2).
pub(crate) unsafe fn mmap(
    start: *mut c_void,
    len_bytes: usize,
    rights: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: passed on to the caller; the number of bytes is used as an unsigned word.
    let result = unsafe { libc::syscall(libc::SYS_mmap, start, len_bytes, rights, flags, fd, offset) };
    core::ptr::with_exposed_provenance_mut(result as usize)
}

/// # Safety
/// As munmap(2).
pub(crate) unsafe fn munmap(start: *mut c_void, len_bytes: usize) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { libc::syscall(libc::SYS_munmap, start, len_bytes) as c_int }
}

/// Moves a mapping over whatever is at `to`.
///
/// # Safety
/// As mremap(2) with `MREMAP_FIXED`.
pub(crate) unsafe fn move_to(start: *mut c_void, len_bytes: usize, to: *mut c_void) -> *mut c_void {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: passed on to the caller.
    let result = unsafe { libc::syscall(libc::SYS_mremap, start, len_bytes, len_bytes, flags, to) };
    core::ptr::with_exposed_provenance_mut(result as usize)
}

/// # Safety
/// As madvise(2).
pub(crate) unsafe fn madvise(start: *mut c_void, len_bytes: usize, advice: c_int) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { libc::syscall(libc::SYS_madvise, start, len_bytes, advice) as c_int }
}
