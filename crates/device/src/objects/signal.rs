//! A descriptor that is readable exactly while something is pending.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd that counts.
#[derive(Debug)]
pub(crate) struct Signal {
    fd: OwnedFd,
}

impl Signal {
    /// Nothing is pending. Each [`lower`](Signal::lower) takes back one [`raise`](Signal::raise).
    pub(crate) fn new() -> io::Result<Signal> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Signal { fd: eventfd(0, flags)? })
    }

    /// One more. Fails only at 2^64 - 2 pending, which no memory holds.
    pub(crate) fn raise(&self) {
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// One less; false if nothing was pending.
    pub(crate) fn lower(&self) -> bool {
        rustix::io::read(&self.fd, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
