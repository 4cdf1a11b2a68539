//! Waiting for an event on a descriptor, as `read(2)` would.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use crate::boundary::{Errno, minus_one, set_errno};
use abi::c_int;

/// The outcome of an attempt to get an event.
pub(crate) enum EventAttempt {
    /// The caller has its event.
    Done,
    /// There is none until this descriptor is readable.
    WaitAt(RawFd),
}

/// Makes a descriptor blocking, as programs expect it: they set `O_NONBLOCK` themselves.
pub(crate) fn make_blocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: a descriptor that is open while it is borrowed.
    let done = unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) == 0
    };
    if done { Ok(()) } else { Err(Errno::last()) }
}

/// Attempts until there is an event, as a verb that returns zero, or −1 and sets errno.
///
/// In between it waits, and can be cancelled there as rdma-core can in its `read(2)`: `pthread_cancel(3)` unwinds
/// the thread out of `poll(2)` through this function and the verb, neither of which may own anything then.
pub(crate) fn until(attempt: impl Fn() -> Result<EventAttempt, Errno> + Copy) -> c_int {
    loop {
        let mut at = None;
        let tried = minus_one(|| {
            if let EventAttempt::WaitAt(fd) = attempt()? {
                at = Some(fd);
            }
            Ok(0)
        });
        let Some(fd) = at else { return tried };
        if let Err(error) = wait(fd, poll) {
            set_errno(error);
            return -1;
        }
    }
}

/// Waits until the descriptor is readable: `EAGAIN` immediately if the program has made it non-blocking,
/// `EINTR` after a signal whose handler interrupts system calls. This is not a cancellation point.
pub(crate) fn readable(fd: RawFd) -> Result<(), Errno> {
    wait(fd, poll_uncancelled)
}

/// Waits for the end of the process.
pub(crate) fn for_ever() -> ! {
    loop {
        // SAFETY: no entries, so nothing is read.
        unsafe { poll_uncancelled(std::ptr::null_mut(), 0, -1) };
    }
}

type Poll = unsafe extern "C-unwind" fn(*mut libc::pollfd, libc::nfds_t, c_int) -> c_int;

unsafe extern "C-unwind" {
    /// `poll(2)`, out of which a thread that is cancelled is unwound.
    fn poll(entries: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> c_int;
}

/// `poll(2)` without a cancellation point, and without a timeout.
unsafe extern "C-unwind" fn poll_uncancelled(entries: *mut libc::pollfd, count: libc::nfds_t, _: c_int) -> c_int {
    let (no_timeout, same_signals) = (std::ptr::null::<libc::timespec>(), std::ptr::null::<libc::sigset_t>());
    // SAFETY: the caller's entries, and what the call allows to be null.
    unsafe { libc::syscall(libc::SYS_ppoll, entries, count, no_timeout, same_signals, 0usize) as c_int }
}

fn wait(fd: RawFd, poll: Poll) -> Result<(), Errno> {
    // SAFETY: a number that the system checks.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(Errno::last());
    }
    if flags & libc::O_NONBLOCK != 0 {
        return Err(Errno(libc::EAGAIN));
    }
    loop {
        let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives on this stack.
        if unsafe { poll(&raw mut entry, 1, -1) } >= 0 {
            return Ok(());
        }
        match Errno::last() {
            Errno(libc::EINTR) if !signals_interrupt() => {}
            error => return Err(error),
        }
    }
}

/// True if a handler was installed without SA_RESTART. Every handler interrupts `poll(2)`, but only such handlers
/// interrupt the `read(2)` of rdma-core.
fn signals_interrupt() -> bool {
    (1..=libc::SIGRTMAX()).any(handler_interrupts)
}

fn handler_interrupts(signal: c_int) -> bool {
    // SAFETY: the call only writes to `action`; a zeroed `sigaction` is valid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction != libc::SIG_DFL
            && action.sa_sigaction != libc::SIG_IGN
            && action.sa_flags & libc::SA_RESTART == 0
    }
}
