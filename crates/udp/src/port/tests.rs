//! Tests of the group with real sockets. Each test has its own network namespace, and in it UDP port 4791 for
//! itself.

use super::*;
use crate::testing::in_new_netns;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

const LOCALHOSTS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
/// Much longer than a packet takes from one socket of a machine to another.
const PATIENCE_MS: i32 = 5000;

/// A payload whose destination QPN has `slot` as its high byte, followed by `mark`.
fn packet(slot: usize, mark: u8) -> [u8; 13] {
    let mut packet = [0; 13];
    packet[SLOT_AT] = slot as u8;
    packet[12] = mark;
    packet
}

const SLOT_AT: usize = 5;

fn send(to: IpAddr, bytes: &[u8]) {
    let socket = UdpSocket::bind((Family::of(&to).unspecified(), 0)).unwrap();
    socket.send_to(bytes, SocketAddr::new(to, ROCE_PORT)).unwrap();
}

/// The next packet of a socket.
fn receive(fd: BorrowedFd<'_>) -> Vec<u8> {
    assert!(sys::wait(fd, libc::POLLIN, PATIENCE_MS).unwrap(), "nothing arrived");
    let mut room = [0; 64];
    let len_bytes = sys::recv(fd, &mut room, 0).unwrap();
    room[..len_bytes].to_vec()
}

fn is_silent(fd: BorrowedFd<'_>) -> bool {
    !sys::wait(fd, libc::POLLIN, 0).unwrap()
}

fn open_group(slots: usize) -> PortGroup {
    let group = PortGroup::bind(slots).unwrap();
    (0..slots).for_each(|slot| group.open_slot(slot).unwrap());
    group
}

#[test]
fn packets_go_to_the_slot_of_their_qpn() {
    in_new_netns(|| {
        let group = open_group(SLOTS);
        assert_eq!((group.len(), group.descriptors().len(), group.family()), (SLOTS, SLOTS, Family::V6));
        for (mark, to) in LOCALHOSTS.into_iter().enumerate() {
            (0..SLOTS).for_each(|slot| send(to, &packet(slot, mark as u8)));
            for (slot, fd) in group.descriptors().enumerate() {
                assert_eq!(receive(fd), packet(slot, mark as u8), "slot {slot} to {to}");
            }
        }
        assert!(group.descriptors().all(is_silent), "every packet arrived once");
    });
}

#[test]
fn an_index_past_the_end_arrives_somewhere() {
    in_new_netns(|| {
        let group = open_group(4);
        for to in LOCALHOSTS {
            for slot in 4..256 {
                send(to, &packet(slot, 0));
                let takers: Vec<_> = group.descriptors().filter(|fd| !is_silent(*fd)).collect();
                assert_eq!(takers.len(), 1, "slot {slot} to {to}");
                assert_eq!(receive(takers[0]), packet(slot, 0));
            }
        }
    });
}

#[test]
fn packets_too_short_for_a_qpn_arrive_at_slot_0() {
    in_new_netns(|| {
        let group = open_group(4);
        for to in LOCALHOSTS {
            for len_bytes in 0..=SLOT_AT {
                send(to, &[3; SLOT_AT][..len_bytes]);
                assert_eq!(receive(group.slot(0).unwrap()).len(), len_bytes);
            }
        }
    });
}

#[test]
fn closed_slots_drop_and_opening_begins_afresh() {
    in_new_netns(|| {
        let group = PortGroup::bind(3).unwrap();
        group.open_slot(2).unwrap();
        let (one, two) = (group.slot(1).unwrap(), group.slot(2).unwrap());
        for to in LOCALHOSTS {
            send(to, &packet(1, 0));
            send(to, &packet(2, 0));
            assert_eq!(receive(two), packet(2, 0));
            assert!(is_silent(one), "never opened");
        }
        group.open_slot(1).unwrap();
        send(LOCALHOSTS[0], &packet(1, 1));
        assert_eq!(receive(one), packet(1, 1));
        send(LOCALHOSTS[0], &packet(1, 2));
        group.close_slot(1).unwrap();
        assert!(is_silent(one), "closing empties the queue");
        send(LOCALHOSTS[0], &packet(1, 3));
        group.open_slot(1).unwrap();
        assert!(is_silent(one), "closed slots drop");
        send(LOCALHOSTS[0], &packet(1, 4));
        group.open_slot(1).unwrap();
        assert!(is_silent(one), "a new owner gets nothing of the old one");
        assert!(group.open_slot(3).is_err() && group.close_slot(3).is_err() && group.slot(3).is_none());
    });
}

#[test]
fn a_group_outlives_the_process_that_bound_it() {
    in_new_netns(|| {
        let group = open_group(5);
        let copies = group.descriptors().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
        drop(group);
        assert!(matches!(PortGroup::probe(), Err(BindError::Taken { .. })));
        let group = PortGroup::from_descriptors(copies).unwrap();
        for (slot, fd) in group.descriptors().enumerate() {
            send(LOCALHOSTS[0], &packet(slot, 7));
            assert_eq!(receive(fd), packet(slot, 7));
        }
        drop(group);
        PortGroup::probe().unwrap();
    });
}

#[test]
fn only_sockets_on_the_port_make_a_group() {
    in_new_netns(|| {
        let owned = |socket: UdpSocket| OwnedFd::from(socket);
        let foreign = |sockets| match PortGroup::from_descriptors(sockets) {
            Err(BindError::Foreign { index }) => index,
            other => panic!("{other:?}"),
        };
        let elsewhere = || owned(UdpSocket::bind("[::]:4790").unwrap());
        let tcp = OwnedFd::from(std::net::TcpListener::bind("[::]:4791").unwrap());
        let one_address = owned(UdpSocket::bind("127.0.0.1:4791").unwrap());
        assert_eq!(foreign(vec![elsewhere()]), 0);
        assert_eq!(foreign(vec![tcp]), 0);
        assert_eq!(foreign(vec![one_address]), 0);
        let group = PortGroup::bind(1).unwrap();
        let ours = group.slot(0).unwrap().try_clone_to_owned().unwrap();
        assert_eq!(foreign(vec![ours, elsewhere()]), 1);
    });
}

#[test]
fn the_number_of_slots_is_bounded() {
    for slots in [0, MAX_SLOTS + 1] {
        assert!(matches!(PortGroup::bind(slots), Err(BindError::Slots { slots: asked }) if asked == slots));
    }
    assert!(matches!(PortGroup::from_descriptors(vec![]), Err(BindError::Slots { slots: 0 })));
    in_new_netns(|| assert_eq!(PortGroup::bind(MAX_SLOTS).unwrap().len(), MAX_SLOTS));
}

#[test]
fn the_holder_of_the_port_is_named() {
    in_new_netns(|| {
        for address in ["0.0.0.0:4791", "127.0.0.1:4791", "[::]:4791", "[::1]:4791"] {
            PortGroup::probe().unwrap();
            let other = UdpSocket::bind(address).unwrap();
            let error = PortGroup::bind(2).unwrap_err();
            let BindError::Taken { holders, .. } = &error else { panic!("{error}") };
            assert_eq!(holders.len(), 1, "{error}");
            assert_eq!(holders[0].process.as_ref().unwrap().0, std::process::id());
            assert!(!holders[0].is_kernel());
            drop(other);
        }
    });
}

#[test]
fn a_second_group_is_refused_and_the_first_stays_whole() {
    in_new_netns(|| {
        let group = open_group(3);
        assert!(matches!(PortGroup::bind(3), Err(BindError::Taken { .. })));
        for (slot, fd) in group.descriptors().enumerate() {
            send(LOCALHOSTS[1], &packet(slot, 1));
            assert_eq!(receive(fd), packet(slot, 1));
        }
    });
}

#[test]
fn the_granted_receive_buffer_is_told() {
    in_new_netns(|| {
        let group = PortGroup::bind(1).unwrap();
        let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        let granted = group.receive_buffer_bytes();
        assert!(granted >= 2 * limit.min(RECEIVE_BUFFER_BYTES as usize), "{granted} of {limit}");
    });
}

#[test]
fn a_machine_without_ipv6_gets_ipv4() {
    in_new_netns(|| {
        let group = {
            let socket = closed_slot(Family::V4).unwrap();
            PortGroup::from_descriptors(vec![socket]).unwrap()
        };
        bpf::steer_by_slot(group.slot(0).unwrap()).unwrap();
        assert_eq!(group.family(), Family::V4);
        group.open_slot(0).unwrap();
        send(LOCALHOSTS[0], &packet(0, 9));
        assert_eq!(receive(group.slot(0).unwrap()), packet(0, 9));
        group.close_slot(0).unwrap();
    });
}
