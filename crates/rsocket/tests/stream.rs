//! Stream sockets of one process, over the device.

mod support;

use std::io::{IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::RawFd;

use longarm_rsocket::{self as rsocket, Errno};
use support::with_hub;

const HERE: &str = "127.0.0.1:7471";

fn stream() -> RawFd {
    rsocket::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap()
}

fn listener() -> RawFd {
    let fd = stream();
    rsocket::bind(fd, HERE.parse().unwrap()).unwrap();
    rsocket::listen(fd, 0).unwrap();
    fd
}

/// Two ends of a connection, made by one thread.
fn connected(prepare: impl Fn(RawFd)) -> (RawFd, RawFd) {
    let (listener, client) = (listener(), stream());
    prepare(listener);
    prepare(client);
    rsocket::set_status_flags(client, libc::O_NONBLOCK).unwrap();
    assert_eq!(rsocket::connect(client, HERE.parse().unwrap()), Err(Errno(libc::EINPROGRESS)));
    let mut server = None;
    testkit::wait_for("a connection", || {
        if revents(client, libc::POLLOUT, 10) & libc::POLLOUT != 0 {
            return Some(());
        }
        if server.is_none() && revents(listener, libc::POLLIN, 10) != 0 {
            server = Some(rsocket::accept(listener).unwrap());
        }
        None
    });
    assert_eq!(rsocket::option(client, libc::SOL_SOCKET, libc::SO_ERROR, 4), Ok(vec![0; 4]));
    rsocket::set_status_flags(client, 0).unwrap();
    rsocket::close(listener).unwrap();
    (client, server.expect("the listener was told"))
}

fn revents(fd: RawFd, events: i16, timeout: i32) -> i16 {
    let mut fds = [libc::pollfd { fd, events, revents: 0 }];
    rsocket::poll(&mut fds, timeout).unwrap();
    fds[0].revents
}

fn send(fd: RawFd, bytes: &[u8]) -> rsocket::Result<usize> {
    rsocket::send(fd, &[IoSlice::new(bytes)], 0, None)
}

fn recv(fd: RawFd, len: usize, flags: i32) -> rsocket::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let (received, _) = rsocket::recv(fd, &mut [IoSliceMut::new(&mut bytes)], flags)?;
    bytes.truncate(received);
    Ok(bytes)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn data_flows_both_ways_and_ends() {
    with_hub("data_flows_both_ways_and_ends", || {
        let (client, server) = connected(|_| {});
        let there: SocketAddr = HERE.parse().unwrap();
        assert_eq!(rsocket::peer_addr(client), Ok(there));
        assert_eq!(rsocket::local_addr(server), Ok(Some(there)));
        assert_eq!(rsocket::peer_addr(server).ok(), rsocket::local_addr(client).unwrap());
        assert_eq!(send(client, b"hello"), Ok(5));
        assert_eq!(recv(server, 100, libc::MSG_PEEK), Ok(b"hello".to_vec()));
        assert_eq!(recv(server, 2, 0), Ok(b"he".to_vec()));
        assert_eq!(recv(server, 100, 0), Ok(b"llo".to_vec()));
        assert_eq!(recv(server, 1, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)));
        assert_eq!(revents(server, libc::POLLIN | libc::POLLOUT, 0), libc::POLLOUT);
        send(server, b"bye").unwrap();
        assert_eq!(recv(client, 3, libc::MSG_WAITALL), Ok(b"bye".to_vec()));

        rsocket::shutdown(client, Shutdown::Write).unwrap();
        assert_eq!(send(client, b"more"), Err(Errno(libc::EPIPE)));
        assert_eq!(recv(server, 1, 0), Ok(vec![]));
        send(server, b"late").unwrap();
        assert_eq!(recv(client, 4, libc::MSG_WAITALL), Ok(b"late".to_vec()));
        rsocket::close(server).unwrap();
        assert_eq!(recv(client, 1, 0), Ok(vec![]));
        assert_ne!(revents(client, libc::POLLIN, 0) & libc::POLLHUP, 0);
        rsocket::close(client).unwrap();
        assert_eq!(rsocket::close(client), Err(Errno(libc::EBADF)));
    });
}

#[test]
fn long_transfers_through_small_buffers() {
    with_hub("long_transfers_through_small_buffers", || {
        let int = |value: i32| value.to_ne_bytes();
        let (client, server) = connected(|fd| {
            rsocket::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &int(3001)).unwrap();
            rsocket::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &int(5000)).unwrap();
            rsocket::set_option(fd, rsocket::SOL_RDMA, rsocket::RDMA_RQSIZE, &int(16)).unwrap();
            rsocket::set_option(fd, rsocket::SOL_RDMA, rsocket::RDMA_INLINE, &int(0)).unwrap();
        });
        let data = pattern(1_000_000);
        std::thread::scope(|scope| {
            for (from, to) in [(client, server), (server, client)] {
                let data = &data;
                scope.spawn(move || {
                    let mut sent = 0;
                    while sent < data.len() {
                        let next = &data[sent..data.len().min(sent + 77_777)];
                        let (first, rest) = next.split_at(next.len() / 3);
                        let parts = [IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(rest)];
                        sent += rsocket::send(from, &parts, 0, None).unwrap();
                    }
                });
                scope.spawn(move || {
                    let mut got = Vec::new();
                    while got.len() < data.len() {
                        let some = recv(to, 10_007, 0).unwrap();
                        assert!(!some.is_empty());
                        got.extend(some);
                    }
                    assert!(got == *data, "bytes differ");
                });
            }
        });
        rsocket::close(client).unwrap();
        rsocket::close(server).unwrap();
    });
}

#[test]
fn nobody_listens() {
    with_hub("nobody_listens", || {
        let fd = stream();
        assert_eq!(rsocket::connect(fd, HERE.parse().unwrap()), Err(Errno(libc::ECONNREFUSED)));
        assert_eq!(send(fd, b"x"), Err(Errno(libc::ECONNREFUSED)));
        rsocket::close(fd).unwrap();
        let fd = stream();
        assert_eq!(send(fd, b"x"), Err(Errno(libc::ENOTCONN)));
        assert_eq!(rsocket::accept(fd), Err(Errno(libc::EINVAL)));
        rsocket::close(fd).unwrap();
    });
}

#[test]
fn a_thread_that_waits_hears_of_the_end() {
    with_hub("a_thread_that_waits_hears_of_the_end", || {
        let (client, server) = connected(|_| {});
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| recv(server, 1, 0));
            let poller = scope.spawn(|| revents(server, libc::POLLIN, -1));
            rsocket::shutdown(server, Shutdown::Both).unwrap();
            assert_eq!(reader.join().unwrap(), Ok(vec![]));
            assert_ne!(poller.join().unwrap() & libc::POLLIN, 0);
        });
        assert_eq!(recv(client, 1, 0), Ok(vec![]));
        rsocket::close(client).unwrap();
        rsocket::close(server).unwrap();
    });
}

#[test]
fn timeouts_are_heeded() {
    with_hub("timeouts_are_heeded", || {
        let (client, server) = connected(|_| {});
        let time: Vec<u8> = [0i64, 5000].iter().flat_map(|part| part.to_ne_bytes()).collect();
        rsocket::set_option(client, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time).unwrap();
        assert_eq!(recv(client, 1, 0), Err(Errno(libc::EAGAIN)));
        assert_eq!(rsocket::option(client, libc::SOL_SOCKET, libc::SO_RCVTIMEO, 16), Ok(time));
        rsocket::close(server).unwrap();
        rsocket::close(client).unwrap();
    });
}
