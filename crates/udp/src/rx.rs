//! Receiving: one slot's socket, read in batches.

mod batch;
mod coalescing;
#[cfg(test)]
mod tests;

pub use batch::{Datagram, RxBatch, Segments};

use crate::address::Family;
use crate::{multicast, sys};
use coalescing::Coalescing;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The receiving end of a slot.
///
/// Several handles (in several processes) may refer to one socket; options, multicast membership and the
/// queue are those of the socket.
#[derive(Debug)]
pub struct RxSocket {
    fd: OwnedFd,
    family: Family,
    coalescing: Coalescing,
}

impl RxSocket {
    /// Prepares a UDP socket. It switches coalescing on, until only lone packets arrive for a while. Each
    /// datagram then comes with its destination address, interface, traffic class (so that the ECN bits can
    /// be read) and hop limit.
    ///
    /// # Errors
    /// `InvalidInput` if it is not an IP socket; otherwise as `setsockopt(2)`.
    pub fn new(fd: OwnedFd) -> io::Result<RxSocket> {
        let family = family(fd.as_fd())?;
        set_options(fd.as_fd(), family)?;
        let socket = RxSocket { fd, family, coalescing: Coalescing::default() };
        socket.tell_header_fields(true)?;
        Ok(socket)
    }

    /// Sets whether datagrams come with their traffic class and hop limit. That costs a small part of the
    /// time to receive a small datagram. Without it both are 0 in each [`Datagram`].
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    pub fn tell_header_fields(&self, tell: bool) -> io::Result<()> {
        let (fd, tell) = (self.fd.as_fd(), i32::from(tell));
        sys::set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, tell)?;
        sys::set(fd, libc::IPPROTO_IP, libc::IP_RECVTTL, tell)?;
        if self.family == Family::V6 {
            sys::set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, tell)?;
            sys::set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, tell)?;
        }
        Ok(())
    }

    /// The receive buffer in the kernel's accounting, bookkeeping included, in bytes.
    ///
    /// # Errors
    /// As `getsockopt(2)`.
    pub fn receive_buffer_bytes(&self) -> io::Result<usize> {
        let bytes = sys::get(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF)?;
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// Receives the waiting datagrams into `batch`, without blocking, and replaces its contents. Returns the
    /// number of datagrams, possibly 0. Costs one system call.
    ///
    /// While [`RxBatch::is_full`] holds after the call, more may be waiting.
    ///
    /// # Errors
    /// As `recvmsg(2)`, except for the errors that only mean that no datagram has arrived.
    pub fn recv(&self, batch: &mut RxBatch) -> io::Result<usize> {
        let received = batch.fill(self.fd.as_fd());
        self.coalescing.note(batch, self.fd.as_fd());
        match received {
            Err(error) if means_nothing_arrived(&error) => Ok(0),
            received => received,
        }
    }

    /// Joins a multicast group on an interface: the socket gets its own copy of every datagram to that group
    /// on UDP port 4791, for any slot.
    ///
    /// # Errors
    /// `AddrInUse` if it has joined already, and `ENODEV` if there is no such interface.
    /// `InvalidInput` if the address is not a multicast group, or is IPv6 while the socket is for IPv4
    /// only. `ENOBUFS` if the socket has joined as many as the system allows.
    pub fn join_multicast(&self, group: IpAddr, interface: u32) -> io::Result<()> {
        multicast::join(self.fd.as_fd(), self.family, group, interface)
    }

    /// Leaves a multicast group on an interface.
    ///
    /// # Errors
    /// `AddrNotAvailable` if it has not joined; `InvalidInput` as for joining.
    pub fn leave_multicast(&self, group: IpAddr, interface: u32) -> io::Result<()> {
        multicast::leave(self.fd.as_fd(), self.family, group, interface)
    }
}

impl AsFd for RxSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// True for an empty queue, an interrupted call, or an ICMP report about an earlier send.
fn means_nothing_arrived(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionRefused | HostUnreachable)
}

/// The family of an IP socket.
fn family(fd: BorrowedFd<'_>) -> io::Result<Family> {
    match sys::get(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)? {
        libc::AF_INET => Ok(Family::V4),
        libc::AF_INET6 => Ok(Family::V6),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn set_options(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    sys::set(fd, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    match family {
        Family::V4 => sys::set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        Family::V6 => {
            // The kernel's software RoCE driver sends no UDP checksums; the ICRC covers the packet.
            sys::set(fd, libc::SOL_UDP, libc::UDP_NO_CHECK6_RX, 1)?;
            // The option also reports the IPv4-mapped destination of IPv4 packets.
            sys::set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
        }
    }
}
