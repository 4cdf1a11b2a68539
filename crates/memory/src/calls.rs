//! System calls that change mappings and copy between processes, made directly.
//!
//! Programs replace these functions of the C library. UCX patches `mmap`, `munmap`, `madvise` and `mremap` to
//! learn of memory that goes away. Its `mremap` does not pass on the fifth argument, the address for
//! `MREMAP_FIXED`, but that address must arrive. The calls of this library take no memory away from the
//! program, so no hook needs to see them.
//!
//! AddressSanitizer replaces `process_vm_readv` and `process_vm_writev`: it checks whether the program has
//! poisoned the local bytes. A device ignores such marks.
//!
//! This library's own `madvise`, which comes before the C library's, records the program's advice. The
//! library's own calls must not be recorded.
//!
//! Each function behaves as its manual page says, `MAP_FAILED` and -1 with `errno` included.

use core::ffi::{c_int, c_ulong, c_void};

/// Whole words, as the kernel takes them: in a smaller integer the upper half would be undefined.
const ONE: c_ulong = 1;
const NO_FLAGS: c_ulong = 0;

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
    // SAFETY: this function's contract is that of mmap(2); the kernel takes each argument as a word.
    let result = unsafe { libc::syscall(libc::SYS_mmap, start, len_bytes, rights, flags, fd, offset) };
    core::ptr::with_exposed_provenance_mut(result as usize)
}

/// # Safety
/// As munmap(2).
pub(crate) unsafe fn munmap(start: *mut c_void, len_bytes: usize) -> c_int {
    // SAFETY: this function's contract is that of munmap(2).
    unsafe { libc::syscall(libc::SYS_munmap, start, len_bytes) as c_int }
}

/// Moves a mapping to `to`, over the mapping there.
///
/// # Safety
/// As mremap(2) with `MREMAP_FIXED`.
pub(crate) unsafe fn move_to(start: *mut c_void, len_bytes: usize, to: *mut c_void) -> *mut c_void {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: this function's contract is that of mremap(2).
    let result = unsafe { libc::syscall(libc::SYS_mremap, start, len_bytes, len_bytes, flags, to) };
    core::ptr::with_exposed_provenance_mut(result as usize)
}

/// # Safety
/// As madvise(2).
pub unsafe fn madvise(start: *mut c_void, len_bytes: usize, advice: c_int) -> c_int {
    // SAFETY: this function's contract is that of madvise(2).
    unsafe { libc::syscall(libc::SYS_madvise, start, len_bytes, advice) as c_int }
}

/// Copies from a process to one range of this one.
///
/// # Safety
/// As process_vm_readv(2).
pub unsafe fn process_vm_readv(pid: i32, to: &libc::iovec, from: &libc::iovec) -> isize {
    // SAFETY: this function's contract is that of process_vm_readv(2); the counts name the one range on each
    // side.
    unsafe { libc::syscall(libc::SYS_process_vm_readv, pid, to, ONE, from, ONE, NO_FLAGS) as isize }
}

/// Copies from one range of this process to another process.
///
/// # Safety
/// As process_vm_writev(2).
pub unsafe fn process_vm_writev(pid: i32, from: &libc::iovec, to: &libc::iovec) -> isize {
    // SAFETY: this function's contract is that of process_vm_writev(2); the counts name the one range on each
    // side.
    unsafe { libc::syscall(libc::SYS_process_vm_writev, pid, from, ONE, to, ONE, NO_FLAGS) as isize }
}
