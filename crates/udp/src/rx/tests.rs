//! Tests of receiving with real sockets, each in its own network namespace.

mod coalescing;

use super::*;
use crate::testing::in_new_netns;
use crate::{PortGroup, TxGroup, TxPool};
use std::net::UdpSocket;
use wire::{Flow, ROCE_PORT};

/// Much longer than a packet takes from one socket of a machine to another.
const PATIENCE_MS: i32 = 5000;

/// A group with some open slots, and handles to them.
fn slots(count: usize) -> (PortGroup, Vec<RxSocket>) {
    let group = PortGroup::bind(count).unwrap();
    let open = |slot| {
        group.open_slot(slot).unwrap();
        RxSocket::new(group.slot(slot).unwrap().try_clone_to_owned().unwrap()).unwrap()
    };
    let sockets = (0..count).map(open).collect();
    (group, sockets)
}

/// Waits for a datagram and receives.
fn receive(socket: &RxSocket, batch: &mut RxBatch) -> usize {
    assert!(sys::wait(socket.as_fd(), libc::POLLIN, PATIENCE_MS).unwrap(), "nothing arrived");
    socket.recv(batch).unwrap()
}

/// A packet of `len` bytes for a slot; all other bytes are `mark`.
fn packet(slot: u8, mark: u8, len: usize) -> Vec<u8> {
    let mut packet = vec![mark; len];
    packet[5] = slot;
    packet
}

#[test]
fn a_datagram_comes_with_its_addresses() {
    in_new_netns(|| {
        let (_group, slots) = slots(1);
        let mut batch = RxBatch::new(4);
        assert_eq!(slots[0].recv(&mut batch).unwrap(), 0);
        assert!(batch.is_empty() && !batch.is_full());
        // For IPv4 the destination is not the default source address of this machine.
        for (from, to) in [("127.0.0.1:0", "127.0.0.5"), ("[::1]:0", "::1")] {
            let sender = UdpSocket::bind(from).unwrap();
            let to: IpAddr = to.parse().unwrap();
            sender.send_to(&packet(0, 7, 32), (to, ROCE_PORT)).unwrap();
            assert_eq!(receive(&slots[0], &mut batch), 1);
            let datagram = batch.iter().next().unwrap();
            let source = sender.local_addr().unwrap();
            assert_eq!((datagram.source, datagram.destination, datagram.interface), (source, to, 1));
            assert_eq!((datagram.traffic_class, datagram.hop_limit), (0, 64));
            assert_eq!((datagram.segment_bytes, datagram.bytes), (32, packet(0, 7, 32).as_slice()));
            let flow = Flow { source: source.ip(), destination: to, source_port: source.port() };
            assert_eq!(datagram.flow(), flow);
        }
    });
}

#[test]
fn header_fields_are_told_if_wanted() {
    in_new_netns(|| {
        let (_group, slots) = slots(1);
        let mut batch = RxBatch::new(1);
        for (tell, hop_limit) in [(false, 0), (true, 64)] {
            slots[0].tell_header_fields(tell).unwrap();
            for local in ["127.0.0.1", "::1"] {
                UdpSocket::bind((local, 0)).unwrap().send_to(&packet(0, 1, 16), (local, ROCE_PORT)).unwrap();
                assert_eq!(receive(&slots[0], &mut batch), 1);
                let datagram = batch.iter().next().unwrap();
                assert_eq!((datagram.hop_limit, datagram.destination), (hop_limit, local.parse().unwrap()));
            }
        }
    });
}

#[test]
fn sockets_for_ipv4_only_work_alike() {
    in_new_netns(|| {
        let socket = UdpSocket::bind(("0.0.0.0", ROCE_PORT)).unwrap();
        let socket = RxSocket::new(socket.into()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.set_ttl(9).unwrap();
        sender.send_to(&[1; 8], ("127.0.0.5", ROCE_PORT)).unwrap();
        let mut batch = RxBatch::new(1);
        assert_eq!(receive(&socket, &mut batch), 1);
        let datagram = batch.iter().next().unwrap();
        assert_eq!((datagram.source, datagram.hop_limit), (sender.local_addr().unwrap(), 9));
        assert_eq!((datagram.destination, datagram.interface), ("127.0.0.5".parse().unwrap(), 1));
        assert!(socket.join_multicast("ff15::1".parse().unwrap(), 1).is_err());
    });
}

#[test]
fn segmented_sends_arrive_coalesced() {
    in_new_netns(|| {
        let (_group, slots) = slots(1);
        let pool = TxPool::new(1000);
        let mut batch = RxBatch::new(4);
        for address in ["127.0.0.1", "::1"] {
            let address: IpAddr = address.parse().unwrap();
            let source_port = pool.source_port(0xc000, Family::of(&address)).unwrap();
            let flow = Flow { source: address, destination: address, source_port };
            let bytes = packet(0, 3, 60_000);
            let (traffic_class, hop_limit, interface, segment_bytes) = (2, 0, 0, 4124);
            let group = TxGroup { flow, traffic_class, hop_limit, interface, segment_bytes, bytes: &bytes };
            assert_eq!(pool.send(&[group], |_, error| panic!("{error}")), 1);
            assert_eq!(receive(&slots[0], &mut batch), 1, "one datagram");
            let datagram = batch.iter().next().unwrap();
            assert_eq!((datagram.segment_bytes, datagram.bytes), (4124, bytes.as_slice()));
            assert_eq!((datagram.flow(), datagram.traffic_class), (flow, 2));
            let lens: Vec<_> = datagram.segments().map(<[u8]>::len).collect();
            assert_eq!((lens.len(), lens[0], lens[14]), (15, 4124, 60_000 - 14 * 4124));
        }
    });
}

#[test]
fn the_batch_grows_with_the_queue_and_shrinks_again() {
    in_new_netns(|| {
        let (_group, slots) = slots(1);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..100).for_each(|i| drop(sender.send_to(&packet(0, i, 8 + usize::from(i)), ("127.0.0.1", ROCE_PORT))));
        let mut batch = RxBatch::new(16);
        let (mut sizes, mut marks) = (Vec::new(), Vec::new());
        while marks.len() < 100 {
            sizes.push(receive(&slots[0], &mut batch));
            marks.extend(batch.iter().map(|d| (d.bytes[0], d.bytes.len())));
            assert_eq!(batch.is_full(), marks.len() < 100);
        }
        assert_eq!(marks, (0..100).map(|i| (i, 8 + usize::from(i))).collect::<Vec<_>>());
        assert_eq!(sizes, [1, 1, 2, 4, 8, 16, 16, 16, 16, 16, 4]);
        assert_eq!(slots[0].recv(&mut batch).unwrap(), 0);
        sender.send_to(&packet(0, 1, 8), ("127.0.0.1", ROCE_PORT)).unwrap();
        assert_eq!((receive(&slots[0], &mut batch), batch.is_full()), (1, true), "asks for one after silence");
    });
}

#[test]
fn empty_datagrams_have_no_segments() {
    in_new_netns(|| {
        let (_group, slots) = slots(1);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(&[], ("127.0.0.1", ROCE_PORT)).unwrap();
        let mut batch = RxBatch::new(1);
        assert_eq!(receive(&slots[0], &mut batch), 1);
        let datagram = batch.iter().next().unwrap();
        assert_eq!((datagram.bytes.len(), datagram.segment_bytes, datagram.segments().len()), (0, 1, 0));
    });
}

#[test]
fn packets_without_udp_checksum_are_accepted() {
    in_new_netns(|| {
        let (_group, slots) = slots(1);
        let mut batch = RxBatch::new(1);
        for local in ["127.0.0.1", "::1"] {
            let sender = UdpSocket::bind((local, 0)).unwrap();
            sys::set(sender.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
            sys::set(sender.as_fd(), libc::SOL_UDP, libc::UDP_NO_CHECK6_TX, 1).unwrap();
            sender.send_to(&packet(0, 1, 16), (local, ROCE_PORT)).unwrap();
            assert_eq!(receive(&slots[0], &mut batch), 1);
        }
    });
}

#[test]
fn datagrams_cut_short_are_told_from_others() {
    in_new_netns(|| {
        let (_group, slots) = slots(1);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..2).for_each(|_| drop(sender.send_to(&packet(0, 1, 40), ("127.0.0.1", ROCE_PORT))));
        let mut headers = [crate::sys::mmsg::RxHeader::EMPTY; 2];
        let mut data = [0xee; 64];
        let count = crate::sys::mmsg::receive(slots[0].as_fd(), &mut headers, &mut data, 30).unwrap();
        assert_eq!(count, 2);
        assert!(headers.iter().all(|header| header.flags & libc::MSG_TRUNC != 0));
        assert_eq!(data[60..], [0xee; 4], "nothing is written past the room");
    });
}

#[test]
fn other_sockets_are_refused() {
    let (unix, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
    assert_eq!(RxSocket::new(unix.into()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}
