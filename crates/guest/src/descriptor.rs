//! Descriptors that leave the low numbers to the program.
//!
//! A program counts on low numbers: `select(2)` takes those below 1024 only, and some keep a table by number. So what
//! this library keeps open gets a number from [`LOWEST`] on, or from the upper half of what the process may have if
//! that is less.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::fork;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// The least number of a descriptor of ours where the process may have that many: what `select(2)` cannot take.
pub const LOWEST: u64 = 1024;
/// So many numbers from [`LOWEST`] on must be allowed for it to be used.
const ROOM: u64 = 1024;

/// The same descriptor under a high number; as it is if there is none left. A forked child closes it if it is a socket.
#[must_use]
pub fn high(fd: OwnedFd) -> OwnedFd {
    let fd = fcntl_dupfd_cloexec(&fd, lowest(getrlimit(Resource::Nofile).current)).unwrap_or(fd);
    fork::leave_behind(&fd);
    fd
}

/// A copy of a descriptor, under a high number. A forked child closes it if it is a socket.
///
/// # Errors
/// If the process may have no more descriptors.
pub fn copy(fd: impl AsFd) -> io::Result<OwnedFd> {
    let lowest = lowest(getrlimit(Resource::Nofile).current);
    let copy = fcntl_dupfd_cloexec(&fd, lowest).or_else(|_| fcntl_dupfd_cloexec(&fd, 0))?;
    fork::leave_behind(&copy);
    Ok(copy)
}

/// From which number on, with this limit of descriptors.
fn lowest(limit: Option<u64>) -> i32 {
    let limit = limit.unwrap_or(u64::MAX);
    let lowest = if limit >= LOWEST + ROOM { LOWEST } else { limit / 2 };
    i32::try_from(lowest).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_lower_half_is_the_programs() {
        for (limit, least) in
            [(None, 1024), (Some(1 << 20), 1024), (Some(2048), 1024), (Some(1024), 512), (Some(64), 32), (Some(0), 0)]
        {
            assert_eq!(lowest(limit), least, "with a limit of {limit:?}");
        }
    }

    #[test]
    fn a_descriptor_stays_what_it_is() {
        let [reader, writer] = <[OwnedFd; 2]>::from(rustix::pipe::pipe().unwrap());
        let number = writer.as_raw_fd();
        let writer = high(writer);
        assert!(writer.as_raw_fd() >= lowest(getrlimit(Resource::Nofile).current) && writer.as_raw_fd() != number);
        rustix::io::write(&writer, b"x").unwrap();
        let mut byte = [0];
        assert_eq!((rustix::io::read(&reader, &mut byte).unwrap(), byte), (1, *b"x"));
        assert!(rustix::io::fcntl_getfd(&writer).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
}
