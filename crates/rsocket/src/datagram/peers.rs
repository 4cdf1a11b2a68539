//! Addresses, as the system's UDP sockets know them.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use rustix::net::{AddressFamily, RecvFlags, SocketAddrAny, SocketFlags, SocketType};

use crate::errno::{Errno, Result};

/// The socket's own address.
pub(super) fn local_addr(udp: BorrowedFd<'_>) -> Result<SocketAddr> {
    internet(rustix::net::getsockname(udp)?).ok_or(Errno::INVAL)
}

/// Takes a datagram, if there is one.
pub(super) fn receive(udp: BorrowedFd<'_>, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    let (len, _, from) = rustix::net::recvfrom(udp, buffer, RecvFlags::DONTWAIT).ok()?;
    Some((len, internet(from?)?))
}

/// The local address that datagrams to `to` leave from: the socket's own, or if that is a wildcard, the one that
/// the system chooses.
pub(super) fn source_for(udp: BorrowedFd<'_>, to: SocketAddr) -> Result<SocketAddr> {
    let mut own = local_addr(udp)?;
    if own.ip().is_unspecified() {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let probe = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&probe, &to)?;
        let port = own.port();
        own = internet(rustix::net::getsockname(&probe)?).ok_or(Errno::INVAL)?;
        own.set_port(port);
    }
    Ok(own)
}

fn internet(address: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(address).ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_system_chooses_the_source() {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let source = source_for(socket.as_fd(), "127.0.0.1:9".parse().unwrap());
        assert_eq!(source, Ok(SocketAddr::from(([127, 0, 0, 1], port))));
    }
}
