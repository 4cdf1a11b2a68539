//! Packets that the network could not deliver, as ICMP and the neighbour tables tell.

use super::TxPool;
use super::socket::TxSocket;
use crate::sys::mmsg::{RxHeader, receive_error};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// Longest part of a packet that comes back.
const MAX_BYTES: usize = 2048;

/// A packet that did not arrive. Whoever is on the way may make one up, so it is a hint.
#[derive(Debug)]
pub struct Undelivered<'a> {
    /// Where it was sent.
    pub destination: IpAddr,
    /// Why: `ConnectionRefused` if nobody there has the port, `HostUnreachable` if nobody has the
    /// address.
    pub error: io::Error,
    /// Its UDP payload, from the start, as far as it came back.
    pub payload: &'a [u8],
}

impl TxPool {
    /// Takes what has come back so far, for a pool made by [`reporting`](TxPool::reporting). An
    /// error belongs to the sockets of one port and address, and other processes may have such
    /// ones: it may go to any of them.
    pub fn take_undelivered(&self, mut tell: impl FnMut(Undelivered<'_>)) {
        for socket in self.sockets.all() {
            take(socket, &mut tell);
        }
    }

    /// The sockets, which become readable in error (`EPOLLERR`) when something has come back.
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

/// The first field of the `struct sock_extended_err` that comes along.
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

    /// Nobody receives on the port of RoCE in a new network namespace.
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
