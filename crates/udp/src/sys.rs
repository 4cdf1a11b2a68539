//! System calls on sockets, each in one safe function.
//!
//! Descriptors come in as [`BorrowedFd`], so they stay open during the call. Every pointer for the kernel is
//! made from a reference or slice in the same function.

pub(crate) mod link;
pub(crate) mod mmsg;

use crate::address::RawAddress;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Turns a system call's `-1` into the error in `errno`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Like [`check`], for calls that return a length.
fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Opens a socket that is non-blocking and closed on `exec`.
pub(crate) fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes integers only.
    let fd = check(unsafe { libc::socket(domain, kind | flags, protocol) })?;
    // SAFETY: the kernel has just returned this descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds a socket to an address in the kernel's form.
pub(crate) fn bind(fd: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    let len = address.len() as libc::socklen_t;
    // SAFETY: pointer and length describe the slice; the kernel copies it and reads no more than `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), address.as_ptr().cast(), len) }).map(drop)
}

/// Connects a datagram socket: fixes its destination, sends nothing.
pub(crate) fn connect(fd: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    let len = address.len() as libc::socklen_t;
    // SAFETY: pointer and length describe the slice; the kernel copies it and reads no more than `len` bytes.
    check(unsafe { libc::connect(fd.as_raw_fd(), address.as_ptr().cast(), len) }).map(drop)
}

/// The local address of a socket; `None` unless it is an IP socket.
pub(crate) fn local_address(fd: BorrowedFd<'_>) -> io::Result<Option<SocketAddr>> {
    let mut raw = RawAddress::EMPTY;
    let mut len = raw.room().len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the room, and the length to `len`.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), raw.room().as_mut_ptr().cast(), &raw mut len) })?;
    raw.set_len(len);
    Ok(raw.decode())
}

/// Sets a socket option from bytes.
pub(crate) fn set_bytes(fd: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: the kernel copies at most `len` bytes from the slice. Options whose value holds pointers have
    // their own function (`set_filter`).
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), len) }).map(drop)
}

/// Sets an integer socket option.
pub(crate) fn set(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_bytes(fd, level, name, &value.to_ne_bytes())
}

/// Reads an integer socket option.
pub(crate) fn get(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `value`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// Attaches a classic BPF program by socket option `name` (`SO_ATTACH_FILTER` or
/// `SO_ATTACH_REUSEPORT_CBPF`).
pub(crate) fn set_filter(fd: BorrowedFd<'_>, name: i32, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let value = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: `value` is the structure of these options; it points to `len` instructions, which the kernel
    // copies (and checks) and does not write.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw const value).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Waits until a socket has one of `events`, at most `timeout_ms`. Returns true if it has.
pub(crate) fn wait(fd: BorrowedFd<'_>, events: i16, timeout_ms: i32) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    // SAFETY: one entry, which lives until the call returns.
    let ready = check(unsafe { libc::poll(&raw mut poll, 1, timeout_ms) })?;
    Ok(ready > 0)
}

/// Reads from a descriptor; for netlink and packet sockets, where one read is one message.
pub(crate) fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes to the slice. With MSG_TRUNC the result may be greater
    // than the slice; callers compare it before they use it as a length.
    check_len(unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) })
}

/// Sends bytes on a connected or kernel-facing socket.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the kernel reads at most `len` bytes of the slice.
    check_len(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) })
}
