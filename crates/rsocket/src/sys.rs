//! System calls on descriptors and memory of other owners.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use crate::errno::{Errno, Result};
use rustix::event::Timespec;

/// Waits for any descriptors, as poll(2). Goes past the C library: under librspreload `poll` is
/// the one that calls us.
pub(crate) fn poll(fds: &mut [libc::pollfd], timeout: Option<&Timespec>) -> Result<usize> {
    let timeout = timeout.map(|left| libc::timespec { tv_sec: left.tv_sec, tv_nsec: left.tv_nsec as _ });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel reads the timeout and writes within the list; numbers that are no
    // descriptors are reported as such.
    let count = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            fds.as_mut_ptr(),
            fds.len(),
            timeout,
            std::ptr::null::<libc::sigset_t>(),
            size_of::<u64>(),
        )
    };
    usize::try_from(count).map_err(|_| last())
}

/// True if a descriptor with this number is open.
pub(crate) fn is_open(fd: RawFd) -> bool {
    // SAFETY: the call takes a number, which the kernel checks, and changes nothing.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// setsockopt(2) with any option.
pub(crate) fn set_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> Result<()> {
    let len = libc::socklen_t::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel reads `len` bytes of the value.
    let result = unsafe { libc::setsockopt(raw(fd), level, name, value.as_ptr().cast(), len) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// getsockopt(2) with any option; at most `max` bytes.
pub(crate) fn get_option(fd: BorrowedFd<'_>, level: i32, name: i32, max: usize) -> Result<Vec<u8>> {
    let mut value = vec![0u8; max.min(4096)];
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes of the value.
    let result = unsafe { libc::getsockopt(raw(fd), level, name, value.as_mut_ptr().cast(), &mut len) };
    if result != 0 {
        return Err(last());
    }
    value.truncate(len as usize);
    Ok(value)
}

fn raw(fd: BorrowedFd<'_>) -> RawFd {
    fd.as_raw_fd()
}

fn last() -> Errno {
    std::io::Error::last_os_error().into()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn polls_what_is_no_descriptor() {
        let mut fds = [libc::pollfd { fd: 1_000_000, events: libc::POLLIN, revents: 0 }];
        assert_eq!(poll(&mut fds, None), Ok(1));
        assert_eq!(fds[0].revents, libc::POLLNVAL);
        assert_eq!(poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1 })), Ok(0));
    }

    #[test]
    fn options_pass_through() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = socket.as_fd();
        set_option(fd, libc::SOL_SOCKET, libc::SO_BROADCAST, &1i32.to_ne_bytes()).unwrap();
        assert_eq!(get_option(fd, libc::SOL_SOCKET, libc::SO_BROADCAST, 4), Ok(1i32.to_ne_bytes().to_vec()));
        assert!(set_option(fd, -1, -1, &[]).is_err());
    }
}
