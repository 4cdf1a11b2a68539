//! Tests of sending with real sockets, each in its own network namespace.

mod failures;
mod identification;
mod ports;
mod sources;

use super::*;
use crate::testing::in_new_netns;
use crate::{PortGroup, RxBatch, RxSocket, sys};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::thread;

/// Much longer than a packet takes from one socket of a machine to another.
const PATIENCE_MS: i32 = 5000;
const LOCALHOSTS: [&str; 2] = ["127.0.0.1", "::1"];

fn ip_address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A group on a flow between two addresses (or one), with defaults for the rest.
fn group<'a>(pool: &TxPool, source: &str, destination: &str, segment_bytes: u16, bytes: &'a [u8]) -> TxGroup<'a> {
    let (source, destination) = (ip_address(source), ip_address(destination));
    let source_port = pool.source_port(0xc000, Family::of(&source)).unwrap();
    let flow = Flow { source, destination, source_port };
    TxGroup { flow, traffic_class: 0, hop_limit: 0, interface: 0, segment_bytes, bytes }
}

/// Sends groups; the system must take all of them.
fn send(pool: &TxPool, groups: &[TxGroup<'_>]) {
    let taken = pool.send(groups, |i, error| panic!("group {i}: {error}"));
    assert_eq!(taken, groups.len());
}

/// A port group with one slot, which receives all packets.
struct Receiver {
    _group: PortGroup,
    socket: RxSocket,
    batch: RxBatch,
}

impl Receiver {
    fn new() -> Receiver {
        let group = PortGroup::bind(1).unwrap();
        group.open_slot(0).unwrap();
        let socket = RxSocket::new(group.slot(0).unwrap().try_clone_to_owned().unwrap()).unwrap();
        Receiver { _group: group, socket, batch: RxBatch::new(8) }
    }

    /// Source port and payload of the next `count` packets, coalesced or not.
    fn packets(&mut self, count: usize) -> Vec<(u16, Vec<u8>)> {
        let mut packets = Vec::new();
        while packets.len() < count {
            assert!(sys::wait(self.socket.as_fd(), libc::POLLIN, PATIENCE_MS).unwrap(), "{}", packets.len());
            self.socket.recv(&mut self.batch).unwrap();
            for datagram in self.batch.iter() {
                packets.extend(datagram.segments().map(|s| (datagram.source.port(), s.to_vec())));
            }
        }
        packets
    }
}

/// Consecutive packets of 8 bytes, numbered from `first`.
fn numbered(first: u32, count: u32) -> Vec<u8> {
    (first..first + count).flat_map(|n| [[0; 4], n.to_be_bytes()].concat()).collect()
}

#[test]
fn segments_arrive_as_packets() {
    in_new_netns(|| {
        let pool = TxPool::new(1000);
        let mut receiver = Receiver::new();
        let bytes: Vec<u8> = (0..10_000u32).map(|i| i as u8 & 0xf8).collect();
        for address in LOCALHOSTS {
            let group = group(&pool, address, address, 1000 - 1, &bytes);
            assert_eq!(group.segments(), 11);
            send(&pool, &[group]);
            let packets = receiver.packets(11);
            let expected: Vec<_> = bytes.chunks(999).map(|s| (group.flow.source_port, s.to_vec())).collect();
            assert_eq!(packets, expected);
        }
    });
}

#[test]
fn the_largest_group_arrives() {
    in_new_netns(|| {
        let pool = TxPool::new(1000);
        let mut receiver = Receiver::new();
        let bytes = vec![0; MAX_GSO_BYTES];
        for address in LOCALHOSTS {
            let segment_bytes = MAX_GSO_BYTES.div_ceil(MAX_SEGMENTS) as u16;
            send(&pool, &[group(&pool, address, address, segment_bytes, &bytes)]);
            let packets = receiver.packets(MAX_SEGMENTS);
            assert_eq!(packets.iter().map(|(_, packet)| packet.len()).sum::<usize>(), MAX_GSO_BYTES);
            send(&pool, &[group(&pool, address, address, u16::MAX, &bytes)]);
            assert_eq!(receiver.packets(1)[0].1.len(), MAX_GSO_BYTES);
        }
    });
}

#[test]
fn batches_of_many_flows_keep_the_order_of_each() {
    in_new_netns(|| {
        let pool = TxPool::new(1000);
        let mut receiver = Receiver::new();
        let ports: Vec<u16> = (0..7).map(|i| pool.source_port(0xc100 + i, Family::V4).unwrap()).collect();
        let payloads: Vec<_> = (0..100).map(|i| numbered(10 * i, 1 + i % 3)).collect();
        let groups: Vec<_> = payloads
            .iter()
            .enumerate()
            .map(|(i, bytes)| {
                let mut group = group(&pool, LOCALHOSTS[0], LOCALHOSTS[0], 8, bytes);
                group.flow.source_port = ports[i * i % 7];
                group
            })
            .collect();
        let mut expected: Vec<_> =
            groups.iter().flat_map(|g| g.bytes.chunks(8).map(|s| (g.flow.source_port, s.to_vec()))).collect();
        send(&pool, &groups);
        let mut packets = receiver.packets(expected.len());
        packets.sort_by_key(|(port, _)| *port);
        expected.sort_by_key(|(port, _)| *port);
        assert_eq!(packets, expected);
    });
}

#[test]
fn threads_share_a_pool() {
    const THREADS: u16 = 4;
    const EACH: u32 = 200;
    in_new_netns(|| {
        let pool = TxPool::new(1000);
        let mut receiver = Receiver::new();
        let sender = |wanted: u16| {
            let port = pool.source_port(wanted, Family::V6).unwrap();
            for n in 0..EACH {
                let bytes = numbered(n, 1);
                let mut group = group(&pool, "::1", "::1", 8, &bytes);
                group.flow.source_port = port;
                send(&pool, &[group]);
            }
        };
        let packets = thread::scope(|scope| {
            (0..THREADS).for_each(|i| drop(scope.spawn(move || sender(0xd001 + i / 2))));
            receiver.packets(usize::from(THREADS) * EACH as usize)
        });
        for port in [0xd001, 0xd002] {
            let mut numbers: Vec<_> = packets.iter().filter(|p| p.0 == port).map(|p| p.1.clone()).collect();
            numbers.sort();
            let twice: Vec<_> = (0..EACH).flat_map(|n| [numbered(n, 1), numbered(n, 1)]).collect();
            assert_eq!(numbers, twice);
        }
    });
}

#[test]
fn traffic_class_and_hop_limit_are_sent() {
    in_new_netns(|| {
        let pool = TxPool::new(1000);
        let mut receiver = Receiver::new();
        for address in LOCALHOSTS {
            for (traffic_class, hop_limit, arrives) in [(0, 0, 64), (0, 64, 64), (0x6a, 1, 1), (3, 255, 255)] {
                let group = group(&pool, address, address, 8, &[0; 16]);
                send(&pool, &[TxGroup { traffic_class, hop_limit, ..group }]);
                receiver.packets(2);
                let datagram = receiver.batch.iter().next().unwrap();
                assert_eq!((datagram.traffic_class, datagram.hop_limit), (traffic_class, arrives));
                assert_eq!(datagram.ecn_ce(), traffic_class == 3);
            }
        }
    });
}

#[test]
fn nothing_is_a_batch_too() {
    assert_eq!(TxPool::new(0).send(&[], |_, error| panic!("{error}")), 0);
}
