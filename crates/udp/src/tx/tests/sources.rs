//! Tests that packets have the flow's source address, even if the system would choose another.

use super::*;
use crate::testing::{TestInterface, hosts};

/// Sends a packet on the flow and returns the source address with which it arrives.
fn source_seen(pool: &TxPool, receiver: &mut Receiver, group: TxGroup<'_>) -> IpAddr {
    send(pool, &[group]);
    receiver.packets(1);
    receiver.batch.iter().next().unwrap().source.ip()
}

#[test]
fn of_more_addresses_than_have_sockets_of_their_own() {
    in_new_netns(|| {
        let pool = TxPool::new(1000);
        let mut receiver = Receiver::new();
        // Twice, since the first send opens the sockets.
        for i in (1..=40).chain(1..=40) {
            let source = format!("127.0.1.{i}");
            let group = group(&pool, &source, "127.0.0.1", 8, &[0; 8]);
            assert_eq!(source_seen(&pool, &mut receiver, group), ip_address(&source));
        }
    });
}

#[test]
fn of_a_host_with_several_addresses() {
    in_new_netns(|| {
        let (left, right) = hosts(1500);
        let mut receiver = right.run(Receiver::new);
        left.run(|| {
            let veth = TestInterface::named("veth0");
            for (address, prefix_len) in [("192.0.2.77", 24), ("fd00:2::77", 64), ("fe80::77", 64)] {
                veth.add_address(ip_address(address), prefix_len);
            }
            let pool = TxPool::new(1000);
            let interface = veth.index();
            let flows = [
                ("192.0.2.1", "192.0.2.2", 0),
                ("192.0.2.77", "192.0.2.2", 0),
                ("192.0.2.77", "192.0.2.2", interface),
                ("fd00:2::1", "fd00:2::2", 0),
                ("fd00:2::77", "fd00:2::2", interface),
                ("fe80::77", "fd00:2::2", interface),
            ];
            for (source, destination, interface) in flows {
                let group = TxGroup { interface, ..group(&pool, source, destination, 8, &[0; 8]) };
                assert_eq!(source_seen(&pool, &mut receiver, group), ip_address(source));
            }
        });
    });
}

#[test]
fn link_local_addresses_reach_each_other() {
    in_new_netns(|| {
        let (left, right) = hosts(1500);
        right.run(|| TestInterface::named("veth0").add_address(ip_address("fe80::88"), 64));
        let mut receiver = right.run(Receiver::new);
        left.run(|| {
            let veth = TestInterface::named("veth0");
            veth.add_address(ip_address("fe80::77"), 64);
            let pool = TxPool::new(1000);
            let interface = veth.index();
            let group = group(&pool, "fe80::77", "fe80::88", 8, &[0; 24]);
            assert_eq!(pool.send(&[group], |_, _| {}), 0, "which link is not said");
            let group = TxGroup { interface, ..group };
            send(&pool, &[group]);
            assert_eq!(receiver.packets(3).len(), 3);
            let datagram = receiver.batch.iter().next().unwrap();
            assert_eq!((datagram.source.ip(), datagram.destination), (group.flow.source, group.flow.destination));
        });
    });
}

/// An address that is removed and added again while sockets are bound to it.
#[test]
fn that_come_and_go() {
    in_new_netns(|| {
        let pool = TxPool::new(1000);
        let mut receiver = Receiver::new();
        let lo = TestInterface::named("lo");
        for source in ["10.9.0.1", "fd00:9::1"] {
            let (destination, prefix_len) = if source.contains(':') { ("::1", 128) } else { ("127.0.0.1", 32) };
            let group = group(&pool, source, destination, 8, &[0; 8]);
            for _ in 0..2 {
                let mut errors = Vec::new();
                assert_eq!(pool.send(&[group], |_, error| errors.push(error)), 0);
                assert!(matches!(errors[0], SendError::SourceAddress), "{:?}", errors[0]);
                lo.add_address(ip_address(source), prefix_len);
                assert_eq!(source_seen(&pool, &mut receiver, group), ip_address(source));
                lo.remove_address(ip_address(source), prefix_len);
            }
        }
    });
}
