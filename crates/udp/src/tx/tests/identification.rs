//! The ICRC's assumptions: segment `i` of a group has the IPv4 identification `i` on the wire, and no packet
//! may be fragmented. Checked on captures of packets that the kernel segments.

use super::*;
use crate::interfaces;
use crate::testing::{Capture, Captured, hosts, without_segmentation_offload};

/// Segment size and length of three groups: segmented, single, segmented with a short end.
const GROUPS: [(u16, usize); 3] = [(400, 4000), (400, 400), (100, 1234)];

fn capture(interface: &str) -> Capture {
    let interfaces = interfaces().unwrap();
    Capture::new(interfaces.iter().find(|i| i.name == interface).unwrap().index)
}

/// Sends the groups twice: as a batch and one by one.
fn send_groups(pool: &TxPool, source: &str, destination: &str) {
    let bytes = vec![7; 4000];
    let groups = GROUPS.map(|(segment, len)| group(pool, source, destination, segment, &bytes[..len]));
    send(pool, &groups);
    groups.iter().for_each(|group| send(pool, &[*group]));
}

/// The next `count` captured packets of one direction.
fn captured(capture: &Capture, outgoing: bool, count: usize) -> Vec<Captured> {
    let mut packets = Vec::new();
    while packets.len() < count {
        let more = capture.take(PATIENCE_MS);
        assert!(!more.is_empty(), "{} of {count} packets", packets.len());
        packets.extend(more.into_iter().filter(|packet| packet.outgoing == outgoing));
    }
    packets
}

/// Checks the packets of one [`send_groups`] against the ICRC's assumptions.
fn check(packets: &[Captured]) {
    let twice = GROUPS.iter().chain(&GROUPS);
    let expected: Vec<(u16, usize)> = twice
        .flat_map(|(segment, len)| {
            let lens = vec![7; *len];
            let lens: Vec<_> = lens.chunks(usize::from(*segment)).map(<[u8]>::len).collect();
            lens.into_iter().enumerate().map(|(i, len)| (i as u16, len))
        })
        .collect();
    let ipv4 = packets[0].family() == Family::V4;
    let seen: Vec<_> = packets.iter().map(|p| (p.frame().identification, p.frame().payload.len())).collect();
    let expected: Vec<_> = expected.into_iter().map(|(id, len)| (if ipv4 { id } else { 0 }, len)).collect();
    assert_eq!(seen, expected);
    assert!(packets.iter().all(Captured::is_unfragmentable));
}

fn count() -> usize {
    2 * GROUPS.iter().map(|(segment, len)| len.div_ceil(usize::from(*segment))).sum::<usize>()
}

#[test]
fn on_loopback() {
    in_new_netns(|| {
        without_segmentation_offload("lo");
        let capture = capture("lo");
        for address in LOCALHOSTS {
            send_groups(&TxPool::new(1000), address, address);
            check(&captured(&capture, true, count()));
        }
    });
}

#[test]
fn on_ethernet() {
    in_new_netns(|| {
        let (left, right) = hosts(1500);
        left.run(|| without_segmentation_offload("veth0"));
        let capture = right.run(|| capture("veth0"));
        for (source, destination) in [("192.0.2.1", "192.0.2.2"), ("fd00:2::1", "fd00:2::2")] {
            left.run(|| send_groups(&TxPool::new(1000), source, destination));
            check(&captured(&capture, false, count()));
        }
    });
}

/// Uses the sockets for all addresses, where each send names its source to the kernel.
#[test]
fn from_more_addresses_than_have_sockets_of_their_own() {
    in_new_netns(|| {
        without_segmentation_offload("lo");
        let capture = capture("lo");
        let pool = TxPool::new(1000);
        for i in 1..=20 {
            send_groups(&pool, &format!("127.0.1.{i}"), "127.0.0.1");
            check(&captured(&capture, true, count()));
        }
    });
}

/// The sockets of slots do not send, but they could: with fragmentation forbidden they behave like the
/// pool's.
#[test]
fn from_dual_stack_sockets() {
    in_new_netns(|| {
        without_segmentation_offload("lo");
        let capture = capture("lo");
        let socket = sys::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0).unwrap();
        sys::set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO).unwrap();
        sys::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 100).unwrap();
        let mapped = ip_address("::ffff:127.0.0.1");
        let message = sys::mmsg::TxMessage {
            destination: crate::address::RawAddress::new(mapped, wire::ROCE_PORT, 0),
            bytes: &[0; 350],
            ..sys::mmsg::TxMessage::EMPTY
        };
        sys::mmsg::transmit(socket.as_fd(), &[message]).unwrap();
        let packets = captured(&capture, true, 4);
        let seen: Vec<_> = packets.iter().map(|p| (p.frame().identification, p.frame().payload.len())).collect();
        assert_eq!(seen, [(0, 100), (1, 100), (2, 100), (3, 50)]);
        assert!(packets.iter().all(|packet| packet.family() == Family::V4 && packet.is_unfragmentable()));
    });
}
