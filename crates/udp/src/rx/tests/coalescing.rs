//! Tests of coalescing by a receiving interface. The virtual link segments on one side and coalesces on the
//! other, like a wire between two network cards.

use super::*;
use crate::testing::{NetHost, hosts, with_receive_coalescing, without_segmentation_offload};

/// The number of packets of one send.
const PACKETS: u8 = 6;

fn wired_hosts() -> (NetHost, NetHost) {
    let (left, right) = hosts(1500);
    left.run(|| without_segmentation_offload("veth0"));
    right.run(|| with_receive_coalescing("veth0"));
    (left, right)
}

/// Sends packets numbered from 0 from one host to the other, packet `i` for slot `i % slots`.
fn send(left: &NetHost, right: &NetHost, wanted_port: u16, slots: u8) {
    left.run(|| {
        let pool = TxPool::new(1000);
        let source_port = pool.source_port(wanted_port, Family::V4).unwrap();
        let flow = Flow { source: left.v4.into(), destination: right.v4.into(), source_port };
        let bytes: Vec<u8> = (0..PACKETS).flat_map(|i| packet(i % slots, i, 100)).collect();
        let (traffic_class, hop_limit, interface, segment_bytes) = (0, 0, 0, 100);
        let group = TxGroup { flow, traffic_class, hop_limit, interface, segment_bytes, bytes: &bytes };
        assert_eq!(pool.send(&[group], |_, error| panic!("{error}")), 1);
    });
}

/// The numbers of the packets of the next datagram.
fn next_datagram(slot: &RxSocket) -> Vec<u8> {
    let mut batch = RxBatch::new(1);
    receive(slot, &mut batch);
    batch.iter().flat_map(|datagram| datagram.segments()).map(|packet| packet[0]).collect()
}

/// The kernel decides on coalescing before it knows the slot, by the options of the socket that its hash
/// finds. So all sockets of the group must agree, including the unused ones.
#[test]
fn does_not_depend_on_the_flow() {
    in_new_netns(|| {
        let (left, right) = wired_hosts();
        let group = right.run(|| PortGroup::bind(64).unwrap());
        group.open_slot(0).unwrap();
        let slot = RxSocket::new(group.slot(0).unwrap().try_clone_to_owned().unwrap()).unwrap();
        for port in 0xc000..0xc010 {
            send(&left, &right, port, 1);
            assert_eq!(next_datagram(&slot), (0..PACKETS).collect::<Vec<_>>(), "source port {port}");
        }
    });
}

/// The reason why packets for different slots should not share a flow.
#[test]
fn mixes_slots_that_share_a_flow() {
    in_new_netns(|| {
        let (left, right) = wired_hosts();
        let (_group, slots) = right.run(|| slots(2));
        send(&left, &right, 0xc000, 2);
        assert_eq!(next_datagram(&slots[0]), (0..PACKETS).collect::<Vec<_>>());
        assert_eq!(slots[1].recv(&mut RxBatch::new(1)).unwrap(), 0);
    });
}

/// After a while lone packets arrive without coalescing, even if some have company; a stream switches it on
/// again.
#[test]
fn rests_during_a_conversation() {
    in_new_netns(|| {
        let (group, slots) = slots(1);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut batch = RxBatch::new(4);
        let mut exchange = |packets: usize| {
            for _ in 0..packets {
                sender.send_to(&packet(0, 1, 32), ("127.0.0.1", ROCE_PORT)).unwrap();
            }
            let received = |_: &usize| slots[0].recv(&mut batch).unwrap() > 0;
            (0..=packets).take_while(received).count()
        };
        let is_on = || sys::get(slots[0].as_fd(), libc::SOL_UDP, libc::UDP_GRO).unwrap() != 0;
        let mut exchanges = 0;
        while is_on() {
            assert_eq!(exchange(1 + usize::from(exchanges % 16 == 0)), 1 + usize::from(exchanges % 16 == 0));
            exchanges += 1;
            assert!(exchanges < 2000);
        }
        assert!(exchanges > 100, "not after a few, which may be the beginning of many");
        for i in 0..100 {
            exchange(1 + usize::from(i % 16 == 0));
        }
        assert!(!is_on());
        exchange(64);
        assert!(is_on());
        group.close_slot(0).unwrap();
        assert!(is_on());
    });
}
