//! Descriptors that leave the low numbers to the program.
//!
//! Programs rely on low numbers: `select(2)` takes only those below 1024, and some programs keep a table by
//! number. So this library's descriptors get numbers from [`LOWEST`] on. If the process may have too few
//! descriptors for that, they get numbers from the upper half of its limit.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::fork;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// The lowest number of this library's descriptors, if the limit of descriptors permits it: `select(2)`
/// cannot take these.
pub const LOWEST: u64 = 1024;
/// The number of descriptors from [`LOWEST`] on that the limit must allow for [`LOWEST`] to be used.
const ROOM: u64 = 1024;

/// Moves a descriptor to a high number; returns it unchanged if none is left. A forked child closes it if it
/// is a socket.
#[must_use]
pub fn high(fd: OwnedFd) -> OwnedFd {
    let fd = fcntl_dupfd_cloexec(&fd, lowest(getrlimit(Resource::Nofile).current)).unwrap_or(fd);
    fork::close_in_children(&fd);
    fd
}

/// Copies a descriptor to a high number. A forked child closes the copy if it is a socket.
///
/// # Errors
/// If the process may have no more descriptors.
pub fn copy(fd: impl AsFd) -> io::Result<OwnedFd> {
    let lowest = lowest(getrlimit(Resource::Nofile).current);
    let copy = fcntl_dupfd_cloexec(&fd, lowest).or_else(|_| fcntl_dupfd_cloexec(&fd, 0))?;
    fork::close_in_children(&copy);
    Ok(copy)
}

/// The lowest number for this library's descriptors under this limit.
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
