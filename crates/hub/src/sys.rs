//! System calls that no safe library offers in this form, each behind one safe
//! function. The only other `unsafe` code of the crate is in `counters::mapping`, `embedded::hook` and
//! `launch::detach`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process at the other end of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerProcess {
    /// Its number; 0 if our process namespace does not contain it.
    pub(crate) pid: u32,
    /// Its effective user when it connected or listened, in our user namespace.
    pub(crate) uid: u32,
}

/// The process at the other end (`SO_PEERCRED`).
///
/// rustix has this call, too, but does not support the process number 0 of a peer in
/// another process namespace.
pub(crate) fn peer(socket: BorrowedFd<'_>) -> io::Result<PeerProcess> {
    let mut raw = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `raw`, all of whose bit
    // patterns are valid.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut raw).cast(), &raw mut len)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerProcess { pid: u32::try_from(raw.pid).unwrap_or(0), uid: raw.uid })
}

/// Whether a socket has a packet filter (`SO_ATTACH_FILTER`), as closed slots have.
pub(crate) fn has_filter(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut instructions: libc::socklen_t = 0;
    // SAFETY: with a length of 0 the kernel writes nothing but the program's length (in
    // instructions) to `instructions`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_GET_FILTER,
            std::ptr::null_mut(),
            &raw mut instructions,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(instructions > 0)
}

/// Makes writing beyond the limit for file sizes fail instead of ending the process.
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN is a valid disposition for SIGXFSZ.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Whether the file of this program has capabilities, which every process that executes it gets.
pub(crate) fn has_file_capabilities() -> bool {
    // SAFETY: both strings end with a zero, and with a size of 0 the kernel writes nothing.
    let len_bytes =
        unsafe { libc::getxattr(c"/proc/self/exe".as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    len_bytes >= 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_peer_of_a_pair_is_this_process() {
        let (a, _b) = UnixStream::pair().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(peer(a.as_fd()).unwrap(), PeerProcess { pid: std::process::id(), uid });
    }

    #[test]
    fn only_unix_sockets_have_peers() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(peer(file.as_fd()).is_err());
    }

    #[test]
    fn a_test_has_no_capabilities_of_its_own() {
        assert!(!has_file_capabilities());
    }
}
