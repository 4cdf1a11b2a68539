//! Tests with interfaces that they make themselves.

use super::*;
use crate::testing::{TestInterface, hosts, in_new_netns};
use testkit::wait_until;

const PATIENCE_MS: i32 = 5000;

fn find(name: &str) -> Option<Interface> {
    interfaces().unwrap().into_iter().find(|interface| interface.name == name)
}

fn addresses(interface: &Interface) -> Vec<(String, u8)> {
    interface.addresses.iter().map(|a| (a.address.to_string(), a.prefix_len)).collect()
}

fn ip_address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn loopback_is_found() {
    in_new_netns(|| {
        let interfaces = interfaces().unwrap();
        let lo = interfaces.iter().find(|interface| interface.loopback).unwrap();
        assert_eq!((lo.name.as_str(), lo.index, lo.mac), ("lo", 1, Some([0; 6])));
        assert!(lo.up && lo.running && !lo.multicast && lo.mtu >= 1500 && lo.speed_mbps.is_none());
        assert_eq!(addresses(lo), [("127.0.0.1".into(), 8), ("::1".into(), 128)]);
    });
}

#[test]
fn an_ethernet_link_is_found_with_what_it_has() {
    in_new_netns(|| {
        let (left, _right) = hosts(4200);
        left.run(|| {
            let link = TestInterface::named("veth0");
            link.set_mac([2, 0, 0x5e, 0x10, 0, 0xff]);
            link.add_address(ip_address("10.9.0.1"), 16);
            let veth = find("veth0").unwrap();
            assert!(veth.up && veth.running && veth.multicast && !veth.loopback);
            assert_eq!((veth.mtu, veth.mac), (4200, Some([2, 0, 0x5e, 0x10, 0, 0xff])));
            assert_eq!(veth.speed_mbps, Some(10_000), "what virtual links claim");
            let addresses = addresses(&veth);
            for (address, prefix_len) in [("192.0.2.1", 24), ("10.9.0.1", 16), ("fd00:2::1", 64)] {
                assert!(addresses.contains(&(address.into(), prefix_len)), "{address} in {addresses:?}");
            }
        });
    });
}

#[test]
fn a_link_without_the_other_end_does_not_run() {
    in_new_netns(|| {
        let (left, right) = hosts(1500);
        right.run(|| TestInterface::named("veth0").set_up(false));
        left.run(|| {
            // The kernel notices the loss of a link a little later.
            wait_until("the link is lost", || !find("veth0").unwrap().running);
            assert!(find("veth0").unwrap().up);
            TestInterface::named("veth0").set_up(false);
            assert!(!find("veth0").unwrap().up);
        });
    });
}

#[test]
fn addresses_that_may_be_duplicates_are_left_out() {
    in_new_netns(|| {
        let (left, _right) = hosts(1500);
        left.run(|| {
            // The check of this address for duplicates cannot end while the link is down.
            let link = TestInterface::named("veth0");
            link.set_up(false);
            link.add_address_to_check(ip_address("fd00:9::1"), 64);
            link.add_address(ip_address("fd00:9::2"), 64);
            let addresses = addresses(&find("veth0").unwrap());
            assert!(!addresses.contains(&("fd00:9::1".into(), 64)), "{addresses:?}");
            assert!(addresses.contains(&("fd00:9::2".into(), 64)), "{addresses:?}");
        });
    });
}

#[test]
fn point_to_point_links_have_their_own_address() {
    in_new_netns(|| {
        let (left, _right) = hosts(1500);
        left.run(|| {
            TestInterface::named("veth0").add_address_with_peer(ip_address("10.9.0.1"), ip_address("10.9.0.2"));
            assert!(addresses(&find("veth0").unwrap()).contains(&("10.9.0.1".into(), 32)));
        });
    });
}

#[test]
fn changes_are_told() {
    in_new_netns(|| {
        let monitor = InterfaceMonitor::new().unwrap();
        assert!(!monitor.take_changes().unwrap());
        let lo = TestInterface::named("lo");
        let changes: [&dyn Fn(); 3] =
            [&|| lo.add_address(ip_address("10.9.0.1"), 8), &|| lo.add_address(ip_address("fd00:9::1"), 64), &|| {
                lo.set_mtu(9000)
            }];
        for change in changes {
            change();
            assert!(sys::wait(monitor.as_fd(), libc::POLLIN, PATIENCE_MS).unwrap());
            assert!(monitor.take_changes().unwrap());
        }
        wait_until("all changes were taken", || !monitor.take_changes().unwrap());
    });
}
