//! The system calls that change mappings and copy between processes, made by ourselves.
//!
//! Programs put functions of their own in the place of the C library's: UCX patches `mmap`, `munmap`, `madvise` and
//! `mremap` to hear of memory that goes, and its `mremap` does not pass on the fifth argument, the address
//! that `MREMAP_FIXED` is about. Nothing of what is done here takes memory away from the program, so
//! nobody need hear of it; and the addresses must arrive.
//!
//! AddressSanitizer does so with `process_vm_readv` and `process_vm_writev`: it looks whether the program has marked its
//! side for the sanitizer, which is no affair of a device.
//!
//! Our own `madvise`, which comes before the C library's, remembers which addresses the program has marked. Marks of ours
//! do not belong there.
//!
//! Each is as its manual page says, `MAP_FAILED` and -1 with `errno` included.

use core::ffi::{c_int, c_ulong, c_void};

/// Words, as the kernel takes them: of a smaller number the upper half would be undefined.
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
pub unsafe fn madvise(start: *mut c_void, len_bytes: usize, advice: c_int) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { libc::syscall(libc::SYS_madvise, start, len_bytes, advice) as c_int }
}

/// Copies from a process to one range of this one.
///
/// # Safety
/// As process_vm_readv(2).
pub unsafe fn process_vm_readv(pid: i32, to: &libc::iovec, from: &libc::iovec) -> isize {
    // SAFETY: passed on to the caller; one part on each side, no flags.
    unsafe { libc::syscall(libc::SYS_process_vm_readv, pid, to, ONE, from, ONE, NO_FLAGS) as isize }
}

/// Copies from one range of this process to another process.
///
/// # Safety
/// As process_vm_writev(2).
pub unsafe fn process_vm_writev(pid: i32, from: &libc::iovec, to: &libc::iovec) -> isize {
    // SAFETY: passed on to the caller; one part on each side, no flags.
    unsafe { libc::syscall(libc::SYS_process_vm_writev, pid, from, ONE, to, ONE, NO_FLAGS) as isize }
}
