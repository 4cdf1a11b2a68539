//! Packets that the network could not deliver, as reported by ICMP and the neighbour tables.

use super::TxPool;
use super::socket::TxSocket;
use crate::sys::mmsg::{RxHeader, receive_error};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// The longest part of a packet that is returned.
const MAX_BYTES: usize = 2048;

/// A packet that did not arrive. Anyone on the path can forge the report, so it is only a hint.
#[derive(Debug)]
pub struct Undelivered<'a> {
    /// The destination of the packet.
    pub destination: IpAddr,
    /// `ConnectionRefused` if no socket there has the port, `HostUnreachable` if no host has the address.
    pub error: io::Error,
    /// The beginning of its UDP payload, as far as the network returned it.
    pub payload: &'a [u8],
}

impl TxPool {
    /// Takes the reports so far, for a pool made by [`reporting`](TxPool::reporting). A report belongs to a
    /// port and address. Other processes may have sockets with the same ones, and the kernel may give the
    /// report to any of them.
    pub fn take_undelivered(&self, mut tell: impl FnMut(Undelivered<'_>)) {
        for socket in self.sockets.all() {
            take(socket, &mut tell);
        }
    }

    /// The sockets, which report an error condition (`EPOLLERR`) when a report is waiting.
    pub fn descriptors(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        self.sockets.all().map(|socket| socket.fd.as_fd())
    }
}

fn take(socket: &TxSocket, tell: &mut impl FnMut(Undelivered<'_>)) {
    let mut data = [0; MAX_BYTES];
    let mut header = RxHeader::EMPTY;
    while receive_error(socket.fd.as_fd(), &mut header, &mut data).is_ok() {
        let payload = &data[..header.len_bytes.min(MAX_BYTES)];
        if let (Some(destination), Some(error)) = (header.source.decode(), errno(&header)) {
            let error = io::Error::from_raw_os_error(error);
            tell(Undelivered { destination: destination.ip(), error, payload });
        }
        header = RxHeader::EMPTY;
    }
}

/// The first field of the accompanying `struct sock_extended_err`.
fn errno(header: &RxHeader) -> Option<i32> {
    let is_error = |level, kind| {
        (level, kind) == (libc::IPPROTO_IP, libc::IP_RECVERR)
            || (level, kind) == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
    };
    let message = header.control.iter().find(|message| is_error(message.level, message.kind))?;
    message.data.first_chunk().map(|errno| i32::from_ne_bytes(*errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, TxGroup};
    use std::time::{Duration, Instant};
    use wire::Flow;

    /// In a new network namespace no socket receives on the port of RoCE.
    #[test]
    fn a_packet_for_nobody_comes_back() {
        crate::testing::in_new_netns(|| {
            for address in ["127.0.0.1", "::1"] {
                let address: IpAddr = address.parse().unwrap();
                let pool = TxPool::reporting(0);
                let source_port = pool.source_port(0xd872, Family::of(&address)).unwrap();
                let flow = Flow { source: address, destination: address, source_port };
                let bytes = *b"is anybody there";
                let group = TxGroup {
                    flow,
                    traffic_class: 0,
                    hop_limit: 0,
                    interface: 0,
                    segment_bytes: bytes.len() as u16,
                    bytes: &bytes,
                };
                assert_eq!(pool.send(&[group], |_, error| panic!("{error}")), 1);
                let end = Instant::now() + Duration::from_secs(20);
                let mut back = None;
                while back.is_none() {
                    assert!(Instant::now() < end, "nothing came back from {address}");
                    pool.take_undelivered(|it| back = Some((it.destination, it.error.kind(), it.payload.to_vec())));
                }
                assert_eq!(back, Some((address, io::ErrorKind::ConnectionRefused, bytes.to_vec())));
            }
        });
    }
}
