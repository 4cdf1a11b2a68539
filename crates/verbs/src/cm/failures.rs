//! Events that the library reports as errors of calls.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Weak;

use connect::EventKind;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use crate::cm::id::CmIdHandle;

/// A connection that could not be made: see [`of_failed_connect`](super::translate::of_failed_connect).
pub(super) struct ConnectFailure {
    pub(super) id: Weak<CmIdHandle>,
    pub(super) kind: EventKind,
    pub(super) status: i32,
}

/// A queue of failures.
pub(super) struct ConnectFailures {
    /// Its count is the number of failures in the queue.
    signal: OwnedFd,
    failures: Mutex<VecDeque<ConnectFailure>>,
}

impl ConnectFailures {
    pub(super) fn new() -> io::Result<ConnectFailures> {
        let signal = eventfd(0, EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(ConnectFailures { signal: guest::high(signal), failures: Mutex::default() })
    }

    /// Readable while there are failures.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    pub(super) fn push(&self, failure: ConnectFailure) {
        let mut failures = self.failures.lock();
        failures.push_back(failure);
        // Fails only at 2^64 - 2 failures.
        let _ = rustix::io::write(&self.signal, &1u64.to_ne_bytes());
    }

    pub(super) fn pop(&self) -> Option<ConnectFailure> {
        let mut failures = self.failures.lock();
        let failure = failures.pop_front()?;
        let _ = rustix::io::read(&self.signal, &mut [0; 8]);
        Some(failure)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn the_descriptor_is_readable_while_there_are_failures() {
        let failures = ConnectFailures::new().unwrap();
        let is_readable =
            || poll(&mut [PollFd::new(&failures.fd(), PollFlags::IN)], Some(&Timespec::default())) == Ok(1);
        assert!(!is_readable() && failures.pop().is_none());
        for status in [8, 9] {
            failures.push(ConnectFailure { id: Weak::new(), kind: EventKind::Rejected, status });
        }
        for status in [8, 9] {
            assert!(is_readable());
            assert_eq!(failures.pop().map(|failure| failure.status), Some(status));
        }
        assert!(!is_readable() && failures.pop().is_none());
    }
}
