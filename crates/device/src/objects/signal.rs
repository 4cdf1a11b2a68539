//! A descriptor that is readable exactly while something is pending.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd that counts what is pending.
#[derive(Debug)]
pub(crate) struct PendingSignal {
    fd: OwnedFd,
}

impl PendingSignal {
    /// A signal with nothing pending. Each [`lower`](PendingSignal::lower) undoes one [`raise`](PendingSignal::raise).
    ///
    /// # Errors
    /// Those of `eventfd(2)`.
    pub(crate) fn new() -> io::Result<PendingSignal> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(PendingSignal { fd: eventfd(0, flags)? })
    }

    /// Adds one. It would fail only with 2^64 - 2 pending, which no memory holds.
    pub(crate) fn raise(&self) {
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Takes one away. False if nothing was pending.
    pub(crate) fn lower(&self) -> bool {
        rustix::io::read(&self.fd, &mut [0; 8]).is_ok()
    }
}

impl AsFd for PendingSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
