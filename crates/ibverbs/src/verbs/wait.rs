//! Waiting for an event on a descriptor, as `read(2)` would.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::abi::c_int;
use crate::boundary::Errno;

/// Makes a descriptor one that blocks, as programs expect it: they set `O_NONBLOCK` themselves.
pub(crate) fn make_blocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: a descriptor that is open while it is borrowed.
    let done = unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) == 0
    };
    if done { Ok(()) } else { Err(Errno::last()) }
}

/// Waits until the descriptor is readable. `EAGAIN` at once if the program has set it not to block,
/// `EINTR` if a signal came whose handler wants system calls interrupted.
pub(crate) fn readable(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let raw = fd.as_raw_fd();
    // SAFETY: a descriptor that is open while it is borrowed.
    let flags = unsafe { libc::fcntl(raw, libc::F_GETFL) };
    if flags < 0 {
        return Err(Errno::last());
    }
    if flags & libc::O_NONBLOCK != 0 {
        return Err(Errno(libc::EAGAIN));
    }
    loop {
        let mut entry = libc::pollfd { fd: raw, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, ours.
        if unsafe { libc::poll(&raw mut entry, 1, -1) } >= 0 {
            return Ok(());
        }
        match Errno::last() {
            Errno(libc::EINTR) if !signals_interrupt() => {}
            error => return Err(error),
        }
    }
}

/// Whether some handler was installed without SA_RESTART. `poll(2)` is always interrupted; the
/// `read(2)` that programs know from rdma-core only by such handlers.
fn signals_interrupt() -> bool {
    (1..=libc::SIGRTMAX()).any(handler_interrupts)
}

fn handler_interrupts(signal: c_int) -> bool {
    // SAFETY: only asks; a zeroed sigaction is one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction != libc::SIG_DFL
            && action.sa_sigaction != libc::SIG_IGN
            && action.sa_flags & libc::SA_RESTART == 0
    }
}
