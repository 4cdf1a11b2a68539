//! rsockets: the calls of sockets, over RDMA. Compatible on the wire with librdmacm's, version 1.
//!
//! ```text
//!  socket · bind · listen · accept · connect · send · recv · poll · …      this file, by descriptor
//!       stream: an RC queue pair, WRITEs into the peer's receive buffer
//!       datagram: UD queue pairs, and a UDP socket that tells their numbers
//!            protocol: messages, credits, buffers; no input and output
//! ```
//!
//! A socket is named by the number of a descriptor that it holds, so that no other descriptor of
//! the process has it. The number is valid only for the calls of this crate; [`poll`] accepts both
//! kinds.
//!
//! [`tasks`] has streams without descriptors, for asynchronous programs.
//!
//! Every call behaves as the one of the same name for sockets (`rsocket(7)` lists the exceptions),
//! with the same errno values. Where this differs from librdmacm:
//! - `accept` does not wait until the peer has heard of it; the first call on data does.
//! - Vectors are filled and sent whole, not their first part alone.
//! - SO_RCVTIMEO and SO_SNDTIMEO take effect.
//! - A peer's death ends the connection as soon as the connection manager learns of it.
//! - Datagrams work on RoCE, and those that one packet does not hold go over UDP.
//!
//! This crate does not support: iWARP's messages by SEND, AF_IB addresses, and paths of the
//! program's choice (RDMA_ROUTE is accepted and has no effect: on RoCE addresses are the path).
#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod datagram;
mod devices;
mod epoll;
mod errno;
mod polling;
mod protocol;
mod rdma_options;
mod service;
mod settings;
mod stream;
mod sys;
mod table;
pub mod tasks;
mod value;
mod wait;

use std::io::{IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::RawFd;

use crate::datagram::DatagramSocket;
use crate::stream::StreamSocket;
use crate::table::{AnySocket, find};

pub use crate::epoll::{Interest, InterestChange, epoll_control, epoll_create, epoll_wait};
pub use crate::errno::{Errno, Result};
pub use crate::polling::poll;
pub use crate::rdma_options::{RDMA_INLINE, RDMA_IOMAPSIZE, RDMA_ROUTE, RDMA_RQSIZE, RDMA_SQSIZE, SOL_RDMA};

/// A new socket: `AF_INET` or `AF_INET6`, `SOCK_STREAM` or `SOCK_DGRAM`.
///
/// # Errors
/// `ENOTSUP` for anything else.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<RawFd> {
    let v6 = match domain {
        libc::AF_INET => false,
        libc::AF_INET6 => true,
        _ => return Err(Errno::NOT_SUPPORTED),
    };
    match (kind, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => table::insert(AnySocket::Stream(StreamSocket::new()?.into())),
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => table::insert(AnySocket::Datagram(DatagramSocket::new(v6)?)),
        _ => Err(Errno::NOT_SUPPORTED),
    }
}

/// Binds it to an address and port.
///
/// # Errors
/// As bind(2).
pub fn bind(fd: RawFd, address: SocketAddr) -> Result<()> {
    match &find(fd)? {
        AnySocket::Stream(stream) => stream.bind(address),
        AnySocket::Datagram(datagram) => datagram.bind(address),
    }
}

/// Waits for connections from now on, `backlog` at a time; 0 is the default.
///
/// # Errors
/// As listen(2).
pub fn listen(fd: RawFd, backlog: i32) -> Result<()> {
    stream(fd, Errno(libc::EOPNOTSUPP), |stream| stream.listen(backlog))
}

/// The next connection.
///
/// # Errors
/// As accept(2).
pub fn accept(fd: RawFd) -> Result<RawFd> {
    let accepted = stream(fd, Errno(libc::EOPNOTSUPP), StreamSocket::accept)?;
    table::insert(AnySocket::Stream(accepted.into()))
}

/// Connects; a datagram socket has one peer then.
///
/// # Errors
/// As connect(2); `EINPROGRESS` if the socket is non-blocking.
pub fn connect(fd: RawFd, address: SocketAddr) -> Result<()> {
    match &find(fd)? {
        AnySocket::Stream(stream) => stream.connect(address),
        AnySocket::Datagram(datagram) => datagram.connect(address),
    }
}

/// Ends one direction or both.
///
/// # Errors
/// As shutdown(2).
pub fn shutdown(fd: RawFd, how: Shutdown) -> Result<()> {
    match &find(fd)? {
        AnySocket::Stream(stream) => stream.shutdown(how),
        AnySocket::Datagram(_) => Ok(()),
    }
}

/// Closes it, when everything that was sent has arrived; or a set of [`epoll_create`].
///
/// # Errors
/// `EBADF`.
pub fn close(fd: RawFd) -> Result<()> {
    let Ok(socket) = table::remove(fd) else { return epoll::close(fd) };
    epoll::forget(fd);
    match &socket {
        AnySocket::Stream(stream) => stream.close(),
        AnySocket::Datagram(datagram) => datagram.close(),
    }
    drop(socket);
    service::wait_for_its_end();
    if table::is_empty() {
        wait::forget_bells();
    }
    Ok(())
}

/// Receives into `parts`. Flags: `MSG_DONTWAIT`, `MSG_PEEK`, `MSG_WAITALL`. Zero bytes are the end
/// of a stream. Also returns the sender of a datagram, or the peer of a stream.
///
/// # Errors
/// As recvfrom(2).
pub fn recv(fd: RawFd, parts: &mut [IoSliceMut<'_>], flags: i32) -> Result<(usize, Option<SocketAddr>)> {
    match &find(fd)? {
        AnySocket::Stream(stream) => Ok((stream.recv(parts, flags)?, stream.peer_addr().ok())),
        AnySocket::Datagram(datagram) => datagram.recv(parts, flags).map(|(len, from)| (len, Some(from))),
    }
}

/// Sends `parts`, a datagram to `to`. Flags: `MSG_DONTWAIT`; nothing ever raises a signal.
///
/// # Errors
/// As sendto(2).
pub fn send(fd: RawFd, parts: &[IoSlice<'_>], flags: i32, to: Option<SocketAddr>) -> Result<usize> {
    match (&find(fd)?, to) {
        (AnySocket::Stream(_), Some(_)) => Err(Errno(libc::EISCONN)),
        (AnySocket::Stream(stream), None) => stream.send(parts, flags),
        (AnySocket::Datagram(datagram), to) => datagram.send(parts, flags, to),
    }
}

/// The local address of a socket, if it has one.
///
/// # Errors
/// `EBADF`.
pub fn local_addr(fd: RawFd) -> Result<Option<SocketAddr>> {
    match &find(fd)? {
        AnySocket::Stream(stream) => Ok(stream.local_addr()),
        AnySocket::Datagram(datagram) => datagram.local_addr().map(Some),
    }
}

/// The peer's address.
///
/// # Errors
/// `ENOTCONN`.
pub fn peer_addr(fd: RawFd) -> Result<SocketAddr> {
    match &find(fd)? {
        AnySocket::Stream(stream) => stream.peer_addr(),
        AnySocket::Datagram(datagram) => datagram.peer_addr(),
    }
}

/// Sets an option from the bytes of its value.
///
/// # Errors
/// As setsockopt(2); `ENOTSUP` for an option that a stream does not have.
pub fn set_option(fd: RawFd, level: i32, name: i32, value: &[u8]) -> Result<()> {
    match &find(fd)? {
        AnySocket::Stream(stream) => stream.set_option(level, name, value),
        AnySocket::Datagram(datagram) => datagram.set_option(level, name, value),
    }
}

/// The bytes of an option's value; of other levels than ours at most `max`.
///
/// # Errors
/// As getsockopt(2).
pub fn option(fd: RawFd, level: i32, name: i32, max: usize) -> Result<Vec<u8>> {
    match &find(fd)? {
        AnySocket::Stream(stream) => stream.option(level, name),
        AnySocket::Datagram(datagram) => datagram.option(level, name, max),
    }
}

/// The flags that `F_SETFL` set.
///
/// # Errors
/// `EBADF`.
pub fn status_flags(fd: RawFd) -> Result<i32> {
    Ok(match &find(fd)? {
        AnySocket::Stream(stream) => stream.status_flags(),
        AnySocket::Datagram(datagram) => datagram.status_flags(),
    })
}

/// Sets them; `O_NONBLOCK` takes effect.
///
/// # Errors
/// `EBADF`.
pub fn set_status_flags(fd: RawFd, flags: i32) -> Result<()> {
    match &find(fd)? {
        AnySocket::Stream(stream) => stream.set_status_flags(flags),
        AnySocket::Datagram(datagram) => datagram.set_status_flags(flags),
    }
    Ok(())
}

/// The protection domain to register memory in for [`map`].
///
/// # Errors
/// `EINVAL` unless it is a connected stream.
pub fn protection_domain(fd: RawFd) -> Result<device::Pd> {
    stream(fd, Errno::INVAL, StreamSocket::pd)
}

/// Lets the peer, if it is `writable`, write into registered memory directly, from `offset` on; without
/// one, from the memory's address on. Returns the offset. The peer hears of it before the next data.
///
/// # Errors
/// `ENOMEM` if the peer takes no more mappings.
pub fn map(fd: RawFd, mr: device::Mr, offset: Option<u64>, writable: bool) -> Result<u64> {
    stream(fd, Errno::INVAL, |stream| stream.map(mr, offset, writable))
}

/// Ends a mapping: when this returns the peer cannot write there.
///
/// # Errors
/// `EINVAL` if no such memory is mapped.
pub fn unmap(fd: RawFd, addr: u64, len_bytes: u64) -> Result<()> {
    stream(fd, Errno::INVAL, |stream| stream.unmap(addr, len_bytes))
}

/// Writes into memory that the peer has mapped at `offset`. Returns the bytes written, fewer where its
/// mappings end.
///
/// # Errors
/// As send(2).
pub fn write_mapped(fd: RawFd, bytes: &[u8], offset: u64, flags: i32) -> Result<usize> {
    stream(fd, Errno::INVAL, |stream| stream.write_mapped(bytes, offset, flags))
}

/// Does something with a stream socket; a datagram socket refuses.
fn stream<T>(fd: RawFd, refused: Errno, act: impl FnOnce(&StreamSocket) -> Result<T>) -> Result<T> {
    match &find(fd)? {
        AnySocket::Stream(stream) => act(stream),
        AnySocket::Datagram(_) => Err(refused),
    }
}
