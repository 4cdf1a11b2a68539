//! Datagram sockets of one process, over the device.

mod support;

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::RawFd;

use longarm_rsocket::{self as rsocket, Errno};
use support::with_hub;

fn datagram(address: &str) -> RawFd {
    let domain = if address.starts_with('[') { libc::AF_INET6 } else { libc::AF_INET };
    let fd = rsocket::socket(domain, libc::SOCK_DGRAM, 0).unwrap();
    rsocket::bind(fd, address.parse().unwrap()).unwrap();
    fd
}

fn send(fd: RawFd, bytes: &[u8], to: Option<SocketAddr>) -> rsocket::Result<usize> {
    rsocket::send(fd, &[IoSlice::new(bytes)], 0, to)
}

fn recv(fd: RawFd, len: usize) -> (Vec<u8>, SocketAddr) {
    let mut fds = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    assert_eq!(rsocket::poll(&mut fds, 20_000), Ok(1));
    let mut bytes = vec![0; len];
    let (received, from) = rsocket::recv(fd, &mut [IoSliceMut::new(&mut bytes)], 0).unwrap();
    bytes.truncate(received);
    (bytes, from.unwrap())
}

fn to_and_fro(any: &str, server: &str) {
    let (server_fd, client) = (datagram(any), datagram(&any.replace(":7000", ":0")));
    let server: SocketAddr = server.parse().unwrap();
    let port = rsocket::local_addr(client).unwrap().unwrap().port();
    let here = SocketAddr::new(server.ip(), port);
    for round in 0..50u8 {
        let data = vec![round; usize::from(round) * 20 + 1];
        send(client, &data, Some(server)).unwrap();
        let (got, from) = recv(server_fd, 2000);
        assert_eq!((got, from), (data, here));
        send(server_fd, &[round, 7], Some(from)).unwrap();
        assert_eq!(recv(client, 2000), (vec![round, 7], server));
    }
    rsocket::close(client).unwrap();
    rsocket::close(server_fd).unwrap();
}

#[test]
fn ipv4() {
    with_hub("ipv4", || to_and_fro("0.0.0.0:7000", "127.0.0.1:7000"));
}

#[test]
fn ipv6() {
    with_hub("ipv6", || to_and_fro("[::]:7000", "[::1]:7000"));
}

#[test]
fn connected_and_long_ones() {
    with_hub("connected_and_long_ones", || {
        let server = datagram("127.0.0.1:7001");
        let client = rsocket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
        assert_eq!(send(client, b"x", None), Err(Errno(libc::EDESTADDRREQ)));
        rsocket::connect(client, "127.0.0.1:7001".parse().unwrap()).unwrap();
        assert_eq!(rsocket::peer_addr(client), Ok("127.0.0.1:7001".parse().unwrap()));
        for len in [0, 1, 1000, 2010, 2020] {
            assert_eq!(send(client, &vec![5; len], None), Ok(len));
            assert_eq!(recv(server, 4096).0, vec![5; len]);
        }
        assert_eq!(send(client, &[0; 4096], None), Err(Errno(libc::EMSGSIZE)));
        send(client, &[1, 2, 3], None).unwrap();
        assert_eq!(recv(server, 2).0, [1, 2]);
        rsocket::set_status_flags(server, libc::O_NONBLOCK).unwrap();
        assert_eq!(rsocket::recv(server, &mut [], 0).err(), Some(Errno(libc::EAGAIN)));
        rsocket::close(client).unwrap();
        rsocket::close(server).unwrap();
    });
}

/// Datagrams that a receiver has not read are kept as far as its receive buffer goes, also beyond its queue pair's receives.
#[test]
fn unread_datagrams_wait() {
    const COUNT: u32 = 1000;
    with_hub("unread_datagrams_wait", || {
        let sized = || {
            let fd = rsocket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
            let buffer_bytes: i32 = 1 << 19;
            rsocket::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &buffer_bytes.to_ne_bytes()).unwrap();
            fd
        };
        let (server, client) = (sized(), sized());
        rsocket::bind(server, "127.0.0.1:7002".parse().unwrap()).unwrap();
        rsocket::connect(client, "127.0.0.1:7002".parse().unwrap()).unwrap();
        send(client, &[], None).unwrap();
        recv(server, 1);
        for at in 0..COUNT {
            send(client, &at.to_ne_bytes(), None).unwrap();
            // Between two of these looks there are more than the 64 receives that a socket has by default.
            if at % 300 == 299 {
                testkit::wait_until("datagrams have come", || readable(server) == 1);
            }
        }
        // The first datagrams go over UDP until the peer's queue pair is known, and may be overtaken.
        let mut got: Vec<Vec<u8>> = (0..COUNT).map(|_| recv(server, 8).0).collect();
        got.sort_by_key(|bytes| u32::from_ne_bytes(bytes[..].try_into().unwrap()));
        assert!(got.iter().zip(0..COUNT).all(|(bytes, at)| bytes[..] == at.to_ne_bytes()));
        rsocket::close(client).unwrap();
        rsocket::close(server).unwrap();
    });
}

/// Polls once, which takes the datagrams that have come.
fn readable(fd: RawFd) -> usize {
    rsocket::poll(&mut [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }], 0).unwrap()
}
