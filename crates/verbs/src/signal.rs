//! A descriptor that is readable exactly while something is pending.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd that counts what is pending.
#[derive(Debug)]
pub(crate) struct EventSignal {
    fd: OwnedFd,
}

impl EventSignal {
    /// A signal with nothing pending. Each [`lower`](EventSignal::lower) undoes one [`raise`](EventSignal::raise).
    ///
    /// # Errors
    /// Those of `eventfd(2)`.
    pub(crate) fn new() -> io::Result<EventSignal> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(EventSignal { fd: guest::high(eventfd(0, flags)?) })
    }

    /// Adds one. It would fail only with 2^64 - 2 pending.
    pub(crate) fn raise(&self) {
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Takes one away, if something is pending.
    pub(crate) fn lower(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl AsFd for EventSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
