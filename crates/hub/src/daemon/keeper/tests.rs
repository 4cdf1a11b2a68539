//! The part that needs no port. Keepers of real groups are in the integration tests.

use super::*;
use std::net::UdpSocket;

fn borrowed(sockets: &[UdpSocket]) -> Vec<BorrowedFd<'_>> {
    sockets.iter().map(|socket| socket.as_fd()).collect()
}

fn sockets(count: usize) -> Vec<UdpSocket> {
    (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect()
}

fn keeper_with(text: &str, sockets: &[UdpSocket]) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let (socket, sender) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    channel::send(sender.as_fd(), text.as_bytes(), &borrowed(sockets)).unwrap();
    socket
}

fn error_of(socket: OwnedFd) -> String {
    Keeper::open(socket, 7).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn the_kernel_keeps_the_sockets_while_a_process_has_the_keeper() {
    let sockets = sockets(3);
    let addresses: Vec<_> = sockets.iter().map(|s| s.local_addr().unwrap()).collect();
    let keeper = Keeper::new(&borrowed(&sockets), 7).unwrap();
    drop(sockets);
    for address in &addresses {
        assert!(UdpSocket::bind(address).is_err(), "{address} is still in use");
    }
    drop(keeper);
    for address in addresses {
        assert!(UdpSocket::bind(address).is_ok(), "{address} is free again");
    }
}

#[test]
fn sockets_of_another_port_are_refused() {
    let sockets = sockets(2);
    let keeper = Keeper::new(&borrowed(&sockets), 7).unwrap();
    assert_eq!(error_of(keeper.socket), "socket 0 is not the one that was kept");
}

#[test]
fn a_keeper_of_another_namespace_is_refused() {
    let sockets = sockets(1);
    let keeper = Keeper::new(&borrowed(&sockets), 8).unwrap();
    assert_eq!(error_of(keeper.socket), "it belongs to network namespace 8");
}

#[test]
fn other_descriptors_are_refused() {
    let null = std::fs::File::open("/dev/null").unwrap();
    assert!(error_of(null.into()).contains("no Unix packet socket"));
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(error_of(udp.into()).contains("no Unix packet socket"));
    let (stream, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(error_of(stream.into()).contains("no Unix packet socket"));
    let empty = keeper_with("x", &[]);
    channel::receive(empty.as_fd(), 0).unwrap();
    assert!(error_of(empty).contains("not a keeper"));
    for text in ["{}", "[]", r#"{"longarm_keeper":1}"#, "\u{0}"] {
        assert!(error_of(keeper_with(text, &[])).contains("not a keeper"), "{text:?}");
    }
    let newer = r#"{"longarm_keeper":2,"namespace":7,"cookies":[]}"#;
    assert!(error_of(keeper_with(newer, &[])).contains("its format is 2"));
    let more = r#"{"longarm_keeper":1,"namespace":7,"cookies":[1,2]}"#;
    assert!(error_of(keeper_with(more, &sockets(1))).contains("1 sockets and tells of 2"));
    let none = r#"{"longarm_keeper":1,"namespace":7,"cookies":[]}"#;
    assert!(error_of(keeper_with(none, &[])).contains("it holds 0 of the"));
}

/// A group of sockets, with the cookies in order.
fn group(slots: usize) -> (udp::PortGroup, Vec<u64>) {
    let group = udp::PortGroup::bind(slots).unwrap();
    let cookies = group.descriptors().map(|fd| rustix::net::sockopt::socket_cookie(fd).unwrap());
    let cookies = cookies.collect();
    (group, cookies)
}

fn keeper_of(sockets: &[BorrowedFd<'_>], cookies: &[u64]) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let (socket, sender) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let note = KeeperNote { longarm_keeper: FORMAT, namespace: 7, cookies: cookies.to_vec() };
    channel::send(sender.as_fd(), &serde_json::to_vec(&note).unwrap(), sockets).unwrap();
    socket
}

#[test]
fn a_whole_group_comes_back_in_order() {
    udp::testing::in_new_netns(|| {
        let (group, cookies) = group(MAX_DESCRIPTORS);
        let sockets: Vec<BorrowedFd<'_>> = group.descriptors().collect();
        let keeper = Keeper::new(&sockets, 7).unwrap();
        drop(group);
        for _ in 0..2 {
            let copy = keeper.socket.try_clone().unwrap();
            let (_, sockets) = Keeper::open(copy, 7).unwrap();
            assert_eq!(sockets.len(), cookies.len());
            let same = |(socket, cookie): (&OwnedFd, &u64)| is_same_socket(socket.as_fd(), *cookie);
            assert!(sockets.iter().zip(&cookies).all(same));
        }
    });
}

#[test]
fn parts_of_a_group_and_other_orders_are_refused() {
    udp::testing::in_new_netns(|| {
        let (group, cookies) = group(4);
        let sockets: Vec<BorrowedFd<'_>> = group.descriptors().collect();
        let refused = |places: &[usize], told: &[usize]| {
            let sockets: Vec<_> = places.iter().map(|place| sockets[*place]).collect();
            let cookies: Vec<_> = told.iter().map(|place| cookies[*place]).collect();
            error_of(keeper_of(&sockets, &cookies))
        };
        assert_eq!(refused(&[0, 1, 2], &[0, 1, 2]), "it holds 3 of the 4 sockets on the port");
        assert_eq!(refused(&[0, 2, 1, 3], &[0, 1, 2, 3]), "socket 1 is not the one that was kept");
        assert_eq!(refused(&[0, 1, 1, 3], &[0, 1, 1, 3]), "socket 2 is not the one that was kept");
        assert!(Keeper::open(keeper_of(&sockets, &cookies), 7).is_ok());
    });
}

#[test]
fn sockets_of_another_namespace_are_refused() {
    udp::testing::in_new_netns(|| {
        let (group, cookies) = group(2);
        let sockets: Vec<BorrowedFd<'_>> = group.descriptors().collect();
        let keeper = keeper_of(&sockets, &cookies);
        let (other, _) = udp::testing::hosts(1500);
        let error = other.run(|| error_of(keeper));
        assert_eq!(error, "socket 0 is not the one that was kept");
    });
}
