//! One sending socket, and the meaning of its errors.

use super::error::SendError;
use super::group::TxGroup;
use super::limits::{DEFAULT_HOP_LIMIT, SOURCE_PORTS};
use crate::address::{Family, RawAddress};
use crate::sys::mmsg::{self, TxMessage};
use crate::{bpf, path, sys};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The lowest source port, by the custom of RoCEv2 senders.
const LOWEST_PORT: u16 = 0xc000;
/// The number of ports from [`LOWEST_PORT`] up with the same low bits.
const ALTERNATIVES: u16 = (u16::MAX - LOWEST_PORT) / SOURCE_PORTS as u16 + 1;
/// The send buffer that each socket asks for.
const SEND_BUFFER_BYTES: i32 = 4 << 20;
/// The receive buffer of a socket that keeps reports of undelivered packets.
const REPORT_BUFFER_BYTES: i32 = 64 << 10;
/// The number of pending ICMP errors taken from a socket before one message fails.
const MAX_ICMP_ERRORS: u64 = 16;

/// The remaining time to wait for room, with counts of events during the sends.
pub(super) struct SendWait {
    left_ms: i32,
    pub(super) count: u64,
    pub(super) icmp_errors: u64,
}

impl SendWait {
    pub(super) fn at_most(wait_ms: i32) -> SendWait {
        SendWait { left_ms: wait_ms, count: 0, icmp_errors: 0 }
    }

    /// Waits a millisecond at a time until there is room. False if there is none in time.
    fn for_room(&mut self, fd: BorrowedFd<'_>) -> bool {
        self.count += 1;
        while self.left_ms > 0 {
            self.left_ms -= 1;
            if sys::wait(fd, libc::POLLOUT, 1).unwrap_or(false) {
                return true;
            }
        }
        false
    }
}

/// A socket that sends from one UDP source port.
#[derive(Debug)]
pub(super) struct TxSocket {
    pub(super) fd: OwnedFd,
    port: u16,
    /// True if the socket is bound to one source address.
    has_address: bool,
    /// The default traffic class of its packets.
    traffic_class: u8,
    /// True until the system refuses a segmented send.
    segments: AtomicBool,
}

impl TxSocket {
    /// Opens a socket on `wanted` for all addresses. If that port is taken, uses another with the same low
    /// bits.
    pub(super) fn open(family: Family, wanted: u16, reporting: bool) -> io::Result<TxSocket> {
        let fd = prepared(family, reporting)?;
        let port = bind(fd.as_fd(), family, wanted)?;
        Ok(TxSocket { fd, port, has_address: false, traffic_class: 0, segments: AtomicBool::new(true) })
    }

    /// Opens a socket for one address, port and traffic class.
    pub(super) fn open_at(address: IpAddr, port: u16, traffic_class: u8, reporting: bool) -> io::Result<TxSocket> {
        let family = Family::of(&address);
        let fd = prepared(family, reporting)?;
        set_traffic_class(fd.as_fd(), family, traffic_class)?;
        sys::bind(fd.as_fd(), RawAddress::new(address, port, 0).as_bytes())?;
        Ok(TxSocket { fd, port, has_address: true, traffic_class, segments: AtomicBool::new(true) })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// True if the socket has a fixed source address, so that sends need not name one.
    pub(super) fn has_address(&self) -> bool {
        self.has_address
    }

    /// The traffic class of sends that name none.
    pub(super) fn traffic_class(&self) -> u8 {
        self.traffic_class
    }

    pub(super) fn segments(&self) -> bool {
        self.segments.load(Ordering::Relaxed)
    }

    /// Sends all messages in order, except those that the system refuses; `refused` is called for each of
    /// these. Returns the number that the system took.
    pub(super) fn send_all(
        &self,
        messages: &[TxMessage<'_>],
        wait: &mut SendWait,
        mut refused: impl FnMut(usize, io::Error),
    ) -> usize {
        let (mut next, mut taken) = (0, 0);
        while next < messages.len() {
            match self.send_first(&messages[next..], wait) {
                Ok(count) => (next, taken) = (next + count, taken + count),
                Err(error) => {
                    refused(next, error);
                    next += 1;
                }
            }
        }
        taken
    }

    /// Sends as many messages as the system takes in one call. An error is that of the first message;
    /// `WouldBlock` then means that there was no room in time.
    pub(super) fn send_first(&self, messages: &[TxMessage<'_>], wait: &mut SendWait) -> io::Result<usize> {
        loop {
            let error = match mmsg::transmit(self.fd.as_fd(), messages) {
                Ok(count) => return Ok(count),
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) if wait.for_room(self.fd.as_fd()) => {}
                Some(libc::ECONNREFUSED | libc::EPROTO) if wait.icmp_errors < MAX_ICMP_ERRORS => {
                    wait.icmp_errors += 1;
                }
                _ => return Err(error),
            }
        }
    }

    /// Translates an error of sending `group`.
    pub(super) fn explain(&self, group: &TxGroup<'_>, error: io::Error) -> SendError {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => SendError::Full,
            Some(libc::EMSGSIZE) => too_long(group),
            Some(libc::EPERM | libc::EACCES) => SendError::Forbidden(error),
            // Linux has several errors for a foreign source address, and each has other meanings too.
            _ if !path::is_local(group.flow.source, group.interface) => SendError::SourceAddress,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::ENODEV) => {
                SendError::Unreachable(error)
            }
            Some(libc::EINVAL | libc::EIO) if group.segments() > 1 => self.explain_refusal(group),
            _ => SendError::System(error),
        }
    }

    /// `EINVAL` and `EIO` for a segmented send mean that the segments are too long (on older kernels), or
    /// that segmentation is impossible on this path.
    fn explain_refusal(&self, group: &TxGroup<'_>) -> SendError {
        let headers_bytes = if group.flow.is_ipv4() { 28 } else { 48 };
        let needed = u32::from(group.segment_bytes) + headers_bytes;
        match path::path_mtu(group.flow.destination, group.interface) {
            Ok(mtu) if mtu < needed => SendError::TooLong { path_mtu: Some(mtu) },
            _ => {
                self.segments.store(false, Ordering::Relaxed);
                SendError::SegmentationRefused
            }
        }
    }
}

fn too_long(group: &TxGroup<'_>) -> SendError {
    let path_mtu = path::path_mtu(group.flow.destination, group.interface).ok();
    SendError::TooLong { path_mtu }
}

/// A socket with the sending options that the ICRC needs; it receives nothing.
fn prepared(family: Family, reporting: bool) -> io::Result<OwnedFd> {
    let socket = guest::high(sys::socket(family.raw(), libc::SOCK_DGRAM, 0)?);
    prepare(socket.as_fd(), family)?;
    if reporting {
        report(socket.as_fd(), family)?;
    }
    Ok(socket)
}

/// Makes the socket keep the network's reports of undeliverable packets.
fn report(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    sys::set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, REPORT_BUFFER_BYTES)?;
    match family {
        Family::V4 => sys::set(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        Family::V6 => sys::set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    }
}

fn set_traffic_class(fd: BorrowedFd<'_>, family: Family, traffic_class: u8) -> io::Result<()> {
    let class = i32::from(traffic_class);
    match family {
        Family::V4 => sys::set(fd, libc::IPPROTO_IP, libc::IP_TOS, class),
        Family::V6 => sys::set(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class),
    }
}

fn prepare(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    let hops = i32::from(DEFAULT_HOP_LIMIT);
    bpf::drop_all(fd)?;
    sys::set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    sys::set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, 0)?;
    sys::set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
        .or_else(|_| sys::set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER_BYTES))?;
    match family {
        Family::V4 => {
            let level = libc::IPPROTO_IP;
            sys::set(fd, level, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
            sys::set(fd, level, libc::IP_TTL, hops)?;
            sys::set(fd, level, libc::IP_MULTICAST_TTL, hops)?;
            sys::set(fd, level, libc::IP_MULTICAST_LOOP, 1)
        }
        Family::V6 => {
            let level = libc::IPPROTO_IPV6;
            sys::set(fd, level, libc::IPV6_V6ONLY, 1)?;
            sys::set(fd, level, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
            sys::set(fd, level, libc::IPV6_UNICAST_HOPS, hops)?;
            sys::set(fd, level, libc::IPV6_MULTICAST_HOPS, hops)?;
            sys::set(fd, level, libc::IPV6_MULTICAST_LOOP, 1)
        }
    }
}

/// Binds to the wanted port or the next free one with the same low bits.
fn bind(fd: BorrowedFd<'_>, family: Family, wanted: u16) -> io::Result<u16> {
    let step = SOURCE_PORTS as u16;
    let (first, low) = ((wanted | LOWEST_PORT) - LOWEST_PORT, wanted % step);
    for i in 0..ALTERNATIVES {
        let port = LOWEST_PORT + (first / step + i) % ALTERNATIVES * step + low;
        let address = RawAddress::new(family.unspecified(), port, 0);
        match sys::bind(fd, address.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result.map(|()| port),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}
