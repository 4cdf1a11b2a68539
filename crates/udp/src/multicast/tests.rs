//! Tests of the tables as text, and of real sockets' membership.

use super::*;
use crate::testing::{NetHost, TestInterface, hosts, in_new_netns};
use crate::{PortGroup, RxBatch, RxSocket, TxGroup, TxPool, interfaces};
use std::os::fd::AsFd;
use wire::Flow;

const IGMP: &str = "\
Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter
1\tlo        :     1      V3
\t\t\t\t010000E0     1 0:00000000\t\t0
4\teth0      :     2      V3
\t\t\t\tFA0000EF     1 0:00000000\t\t1
\t\t\t\t010000E0     1 0:00000000\t\t0
";
const IGMP6: &str = "\
1    lo              ff020000000000000000000000000001     1 0000000C 0
4    eth0            ff020000000000000000000100000002     1 00000004 0
";

#[test]
#[cfg(target_endian = "little")]
fn ipv4_groups_are_read() {
    let all: IpAddr = "224.0.0.1".parse().unwrap();
    let own: IpAddr = "239.0.0.250".parse().unwrap();
    assert_eq!(igmp_groups(IGMP), [(1, all), (4, own), (4, all)]);
    assert_eq!(igmp_groups("h\n\t\tFA0000EF\nx y\n\tzz\n"), []);
}

#[test]
fn ipv6_groups_are_read() {
    let groups: Vec<(u32, IpAddr)> = vec![(1, "ff02::1".parse().unwrap()), (4, "ff02::1:0:2".parse().unwrap())];
    assert_eq!(igmp6_groups(IGMP6), groups);
    assert_eq!(igmp6_groups("1 lo\nx lo ff\n\n"), []);
}

#[test]
fn only_groups_of_the_socket_s_families_are_taken() {
    let check = |family, group: &str| checked(family, group.parse().unwrap()).is_ok();
    assert!(check(Family::V6, "239.1.1.1") && check(Family::V6, "ff05::1"));
    assert!(check(Family::V6, "::ffff:239.1.1.1") && check(Family::V4, "239.1.1.1"));
    assert!(!check(Family::V4, "ff05::1") && !check(Family::V6, "10.0.0.1"));
}

/// Much longer than a packet takes from one socket of a machine to another.
const PATIENCE_MS: i32 = 5000;

/// Four slots of a machine, all open.
struct Machine {
    group: PortGroup,
    slots: Vec<RxSocket>,
    interface: u32,
}

impl Machine {
    fn new(interface: &str) -> Machine {
        let group = PortGroup::bind(4).unwrap();
        let open = |slot| {
            group.open_slot(slot).unwrap();
            RxSocket::new(group.slot(slot).unwrap().try_clone_to_owned().unwrap()).unwrap()
        };
        let slots = (0..4).map(open).collect();
        let interfaces = interfaces().unwrap();
        let interface = interfaces.iter().find(|i| i.name == interface).unwrap().index;
        Machine { group, slots, interface }
    }

    /// Sends a packet whose destination QPN, as in all multicasts, belongs to no slot.
    fn send(&self, source: IpAddr, group: IpAddr, mark: u8) {
        let pool = TxPool::new(1000);
        let source_port = pool.source_port(0xc000, Family::of(&group)).unwrap();
        let flow = Flow { source, destination: group, source_port };
        let bytes = [mark, 0, 0, 0, 0, 0xff, 0xff, 0xff];
        let (traffic_class, hop_limit, interface) = (0, 0, self.interface);
        let group = TxGroup { flow, traffic_class, hop_limit, interface, segment_bytes: 8, bytes: &bytes };
        assert_eq!(pool.send(&[group], |_, error| panic!("{error}")), 1);
    }

    /// Waits until each slot in `joined` has received one packet for `group` with this mark. Checks that the
    /// others have received none.
    fn expect(&self, joined: &[usize], group: IpAddr, mark: u8) {
        let mut batch = RxBatch::new(4);
        for slot in joined {
            assert!(sys::wait(self.slots[*slot].as_fd(), libc::POLLIN, PATIENCE_MS).unwrap(), "slot {slot}");
            assert_eq!(self.slots[*slot].recv(&mut batch).unwrap(), 1);
            let datagram = batch.iter().next().unwrap();
            assert_eq!((datagram.destination, datagram.interface), (group, self.interface));
            assert_eq!((datagram.bytes[0], datagram.hop_limit), (mark, 64));
        }
        assert!(self.slots.iter().all(|slot| slot.recv(&mut batch).unwrap() == 0), "one copy for each that joined");
    }
}

fn members_get_copies(machine: &Machine, source: IpAddr, group: IpAddr) {
    let interface = machine.interface;
    machine.send(source, group, 0);
    machine.expect(&[], group, 0);
    machine.slots[1].join_multicast(group, interface).unwrap();
    machine.slots[3].join_multicast(group, interface).unwrap();
    let twice = machine.slots[3].join_multicast(group, interface).unwrap_err();
    assert_eq!(twice.kind(), io::ErrorKind::AddrInUse);
    machine.send(source, group, 1);
    machine.expect(&[1, 3], group, 1);
    machine.slots[1].leave_multicast(group, interface).unwrap();
    machine.send(source, group, 2);
    machine.expect(&[3], group, 2);
    machine.group.close_slot(3).unwrap();
    let left = machine.slots[3].leave_multicast(group, interface).unwrap_err();
    assert_eq!(left.kind(), io::ErrorKind::AddrNotAvailable, "closing a slot leaves its groups");
    machine.group.open_slot(3).unwrap();
    machine.send(source, group, 3);
    machine.expect(&[], group, 3);
}

#[test]
fn members_on_loopback_get_copies() {
    in_new_netns(|| {
        let machine = Machine::new("lo");
        members_get_copies(&machine, "127.0.0.1".parse().unwrap(), "239.1.2.3".parse().unwrap());
        TestInterface::named("lo").add_local_route("ff00::".parse().unwrap(), 8);
        members_get_copies(&machine, "::1".parse().unwrap(), "ff15::1234".parse().unwrap());
    });
}

fn all_members_get_copies(left: &NetHost, right: &NetHost, group: IpAddr) {
    let source = if group.is_ipv4() { IpAddr::from(left.v4) } else { IpAddr::from(left.v6) };
    let (ours, theirs) = (left.run(|| Machine::new("veth0")), right.run(|| Machine::new("veth0")));
    left.run(|| members_get_copies(&ours, source, group));
    theirs.slots[0].join_multicast(group, theirs.interface).unwrap();
    theirs.slots[2].join_multicast(group, theirs.interface).unwrap();
    ours.slots[1].join_multicast(group, ours.interface).unwrap();
    left.run(|| ours.send(source, group, 9));
    ours.expect(&[1], group, 9);
    theirs.expect(&[0, 2], group, 9);
}

#[test]
fn members_on_both_ends_of_a_link_get_copies() {
    in_new_netns(|| {
        let (left, right) = hosts(1500);
        all_members_get_copies(&left, &right, "239.1.2.3".parse().unwrap());
        all_members_get_copies(&left, &right, "ff15::1234".parse().unwrap());
        all_members_get_copies(&left, &right, "ff12::1234".parse().unwrap());
    });
}

#[test]
fn impossible_groups_are_refused() {
    in_new_netns(|| {
        let machine = Machine::new("lo");
        let kind =
            |group: &str, interface| machine.slots[0].join_multicast(group.parse().unwrap(), interface).unwrap_err();
        assert_eq!(kind("10.0.0.1", 1).kind(), io::ErrorKind::InvalidInput);
        assert_eq!(kind("239.1.1.1", 77).raw_os_error(), Some(libc::ENODEV));
        assert_eq!(kind("ff15::1", 77).raw_os_error(), Some(libc::ENODEV));
    });
}
