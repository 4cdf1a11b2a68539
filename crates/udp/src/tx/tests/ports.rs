//! Tests of the source port that a flow gets.

use super::*;
use crate::address::RawAddress;
use std::net::UdpSocket;

#[test]
fn a_free_port_is_granted() {
    in_new_netns(|| {
        let pool = TxPool::new(0);
        for (wanted, family) in [(0xc000, Family::V4), (0xffff, Family::V4), (0xc123, Family::V6)] {
            assert_eq!(pool.source_port(wanted, family).unwrap(), wanted);
        }
    });
}

#[test]
fn ports_are_folded_into_a_bounded_set() {
    in_new_netns(|| {
        let pool = TxPool::new(0);
        let mut ports: Vec<_> = (0xc000..=0xffffu16).map(|w| pool.source_port(w, Family::V4).unwrap()).collect();
        for (wanted, port) in (0xc000..=0xffffu16).zip(&ports) {
            assert_eq!(wanted % 64, port % 64);
            assert_eq!(pool.source_port(wanted, Family::V4).unwrap(), *port, "always the same answer");
        }
        ports.sort();
        ports.dedup();
        assert_eq!(ports.len(), SOURCE_PORTS);
    });
}

#[test]
fn ports_below_the_customary_range_are_folded_into_it() {
    in_new_netns(|| {
        let pool = TxPool::new(0);
        let port = pool.source_port(77, Family::V4).unwrap();
        assert!(port >= 0xc000 && port % 64 == 77 % 64);
    });
}

#[test]
fn a_taken_port_is_replaced() {
    in_new_netns(|| {
        let taken: Vec<_> = [0xffc5, 0xc005].map(|port| UdpSocket::bind(("0.0.0.0", port)).unwrap()).into();
        let pool = TxPool::new(1000);
        let port = pool.source_port(0xffc5, Family::V4).unwrap();
        assert_eq!(port, 0xc045, "the next port with the same low bits");
        let mut receiver = Receiver::new();
        let mut group = group(&pool, "127.0.0.1", "127.0.0.1", 8, &[0; 8]);
        group.flow.source_port = port;
        send(&pool, &[group]);
        assert_eq!(receiver.packets(1)[0].0, port);
        drop(taken);
    });
}

#[test]
fn no_free_port_is_an_error() {
    in_new_netns(|| {
        let all: Vec<_> = (0xc009..=0xffff).step_by(64).map(|port| UdpSocket::bind(("::", port)).unwrap()).collect();
        assert_eq!(all.len(), 256);
        let pool = TxPool::new(0);
        for family in [Family::V4, Family::V6] {
            assert_eq!(pool.source_port(0xc009, family).unwrap_err().kind(), io::ErrorKind::AddrInUse);
            assert!(pool.source_port(0xc00a, family).is_ok());
        }
    });
}

#[test]
fn two_pools_may_have_the_same_port() {
    in_new_netns(|| {
        let pools = [TxPool::new(0), TxPool::new(0)];
        let ports = pools.each_ref().map(|pool| pool.source_port(0xc777, Family::V6).unwrap());
        assert_eq!(ports, [0xc777; 2]);
    });
}

#[test]
fn nothing_is_received_on_source_ports() {
    in_new_netns(|| {
        let socket = TxSocket::open(Family::V4, 0xc000, false).unwrap();
        let from = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
        sys::connect(from.as_fd(), RawAddress::new(ip_address("127.0.0.1"), 0xc000, 0).as_bytes()).unwrap();
        for _ in 0..3 {
            assert_eq!(sys::send(from.as_fd(), b"hello").unwrap(), 5);
        }
        assert!(!sys::wait(socket.fd.as_fd(), libc::POLLIN, 20).unwrap());
    });
}

#[test]
fn ports_toward_different_slots_differ() {
    let toward = |slot: u32| port_toward(Qpn::new(slot << 16 | 0x1234), 0xd5aa);
    assert_eq!((toward(0), toward(63), toward(64), toward(65)), (0xd580, 0xd5bf, 0xd580, 0xd581));
    in_new_netns(|| {
        let pool = TxPool::new(0);
        let ports = [1, 2].map(|slot| pool.source_port(toward(slot), Family::V4).unwrap());
        assert_eq!(ports, [0xd581, 0xd582]);
    });
}
