//! Waiting for a descriptor.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits until `fd` is readable; false after `timeout`.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        // A timeout that the system cannot represent waits forever.
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], left.as_ref()) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits at most `timeout` until `next` gives something; `fd` is readable while it would.
pub(crate) fn wait_for<T>(
    fd: BorrowedFd<'_>,
    timeout: Duration,
    mut next: impl FnMut() -> Option<T>,
) -> io::Result<Option<T>> {
    let start = Instant::now();
    loop {
        if let Some(found) = next() {
            return Ok(Some(found));
        }
        let left = timeout.saturating_sub(start.elapsed());
        if !wait_readable(fd, left)? {
            return Ok(next());
        }
    }
}
