//! UD: single datagrams, queue keys, and multicast on one host.

use std::net::IpAddr;

use transport::{CompletionOp, Mtu, QpType, SendFlags, SendOp, Status, UdDestination};
use wire::{Gid, Grh, Qpn};

use super::rig::*;
use crate::testing;

const GROUP: [u8; 4] = [239, 1, 2, 3];

pub(super) fn group_gid() -> Gid {
    Gid::from(IpAddr::from(GROUP))
}

pub(super) fn send_datagram(from: &Node, to: UdDestination, op: SendOp, data: &[u8]) {
    from.write(0, data);
    let mut wr = from.send_wr(1, op, 0, data.len());
    wr.datagram = Some(Box::new(to));
    from.qp.post_send([wr]).unwrap();
    assert_eq!(from.sent().op, CompletionOp::Send);
}

fn check_datagram(at: &Node, from: &Node, data: &[u8]) {
    let completion = at.received();
    assert_eq!(completion.status, Status::Success);
    assert_eq!(completion.byte_len as usize, GRH_BYTES + data.len());
    assert_eq!((completion.src_qpn, completion.grh), (from.qp.qpn(), true));
    assert_eq!(at.read(GRH_BYTES, data.len()), data);
}

#[test]
pub(super) fn datagrams_arrive_with_their_sender() {
    for ipv6 in [false, true] {
        on_loopback(move |group| {
            let (a, b) = pair(group, Setup { ipv6, ..Setup::new(QpType::Ud) });
            for len in [0, 1, 700, 4096] {
                b.post_recv(7, 0, GRH_BYTES + 4096);
                let data = pattern(len, len);
                send_datagram(&a, a.datagram_to(b.gid, b.qp.qpn()), SendOp::SendImm(len as u32), &data);
                check_datagram(&b, &a, &data);
            }
        });
    }
}

#[test]
pub(super) fn the_grh_tells_the_addresses() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup { ipv6: true, ..Setup::new(QpType::Ud) });
        b.post_recv(7, 0, 200);
        send_datagram(&a, a.datagram_to(b.gid, b.qp.qpn()), SendOp::Send, b"hello");
        b.received();
        let grh = b.read(0, GRH_BYTES);
        let grh = Grh::decode(grh.as_slice().try_into().unwrap()).expect("a header of IPv6");
        assert_eq!((grh.source, grh.destination), (a.gid, b.gid));
    });
}

#[test]
pub(super) fn a_wrong_queue_key_is_dropped_and_counted() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Ud));
        b.post_recv(7, 0, 200);
        let wrong = UdDestination { remote_qkey: wire::QKey(1), ..a.datagram_to(b.gid, b.qp.qpn()) };
        send_datagram(&a, wrong, SendOp::Send, b"nobody reads this");
        wait_until("the drop", || b.device.counters().get("drop_qkey") == 1);
        send_datagram(&a, a.datagram_to(b.gid, b.qp.qpn()), SendOp::Send, b"but this");
        check_datagram(&b, &a, b"but this");
    });
}

#[test]
pub(super) fn without_a_receive_a_datagram_is_lost_and_counted() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Ud));
        send_datagram(&a, a.datagram_to(b.gid, b.qp.qpn()), SendOp::Send, b"lost");
        wait_until("the drop", || b.device.counters().get("drop_no_recv_wqe") == 1);
    });
}

/// UD has no segments: a datagram beyond the port's MTU fails at the sender, on every path.
#[test]
pub(super) fn a_datagram_longer_than_the_path_mtu_of_the_port_fails() {
    on_loopback(|group| {
        let set = ["link", "set", "lo", "mtu", "1500"];
        assert!(std::process::Command::new("ip").args(set).status().unwrap().success());
        let (a, b) = pair(group, Setup::new(QpType::Ud));
        assert_eq!(a.device.port().active_mtu, Mtu::B1024);
        b.post_recv(7, 0, GRH_BYTES + 4096);
        send_datagram(&a, a.datagram_to(b.gid, b.qp.qpn()), SendOp::Send, &pattern(3, 1024));
        check_datagram(&b, &a, &pattern(3, 1024));
        let mut wr = a.send_wr(1, SendOp::Send, 0, 1025);
        wr.datagram = Some(Box::new(a.datagram_to(b.gid, b.qp.qpn())));
        a.qp.post_send([wr]).unwrap();
        assert_eq!(next(&a.send_cq).status, Status::LocalLength);
    });
}

/// Three nodes: two on one engine, one on another.
fn three(group: &udp::PortGroup) -> [Node; 3] {
    let (one, two) = (testing::open(group, 1, "lo"), testing::open(group, 2, "lo"));
    let nodes = [one.clone(), one, two].map(|device| Node::new(device, Setup::new(QpType::Ud)));
    nodes.iter().for_each(Node::ready);
    nodes
}

#[test]
fn a_group_reaches_every_member_and_the_sender_if_it_is_one() {
    on_loopback(|group| {
        let nodes = three(group);
        for node in &nodes {
            node.qp.attach_multicast(group_gid()).unwrap();
            node.post_recv(1, 0, 200);
        }
        let to = nodes[0].datagram_to(group_gid(), Qpn::MULTICAST);
        nodes[0].write(512, b"to all");
        let mut wr = nodes[0].send_wr(1, SendOp::Send, 512, 6);
        wr.datagram = Some(Box::new(to));
        nodes[0].qp.post_send([wr]).unwrap();
        for node in &nodes {
            check_datagram(node, &nodes[0], b"to all");
        }
        let copies: u64 = [0, 2].map(|i| nodes[i].device.counters().get("rx_multicast_copies")).iter().sum();
        assert_eq!(copies, 3);
    });
}

#[test]
fn a_queue_pair_may_block_its_own_multicast() {
    on_loopback(|group| {
        let nodes = three(group);
        for node in &nodes {
            node.qp.attach_multicast(group_gid()).unwrap();
            node.post_recv(1, 0, 200);
        }
        let [a, b, c] = &nodes;
        a.qp.block_own_multicast();
        for from in [a, b] {
            let to = from.datagram_to(group_gid(), Qpn::MULTICAST);
            send_datagram(from, to, SendOp::Send, b"to others");
            for node in nodes.iter().filter(|node| !std::ptr::eq(*node, a) || !std::ptr::eq(from, a)) {
                check_datagram(node, from, b"to others");
                node.post_recv(1, 0, 200);
            }
        }
        assert!(a.recv_cq.is_empty() && b.recv_cq.is_empty() && c.recv_cq.is_empty());
    });
}

#[test]
fn a_queue_pair_that_left_a_group_gets_none_of_its_packets() {
    on_loopback(|group| {
        let [a, b, c] = three(group);
        for node in [&b, &c] {
            node.qp.attach_multicast(group_gid()).unwrap();
            node.post_recv(1, 0, 200);
        }
        b.qp.detach_multicast(group_gid()).unwrap();
        assert!(b.qp.detach_multicast(group_gid()).is_err(), "it is no member any more");
        send_datagram(&a, a.datagram_to(group_gid(), Qpn::MULTICAST), SendOp::Send, b"one");
        check_datagram(&c, &a, b"one");
        assert_eq!(b.recv_cq.len(), 0);
        drop(c);
        b.qp.attach_multicast(group_gid()).unwrap();
        send_datagram(&a, a.datagram_to(group_gid(), Qpn::MULTICAST), SendOp::Send, b"two");
        check_datagram(&b, &a, b"two");
    });
}

#[test]
fn only_datagram_queue_pairs_join_and_only_groups() {
    on_loopback(|group| {
        let (a, _b) = pair(group, Setup::new(QpType::Rc));
        assert_eq!(a.qp.attach_multicast(group_gid()).unwrap_err().errno(), libc::EINVAL);
        let ud = Node::new(a.device.clone(), Setup::new(QpType::Ud));
        assert_eq!(ud.qp.attach_multicast(ud.gid).unwrap_err().errno(), libc::EINVAL);
        ud.qp.attach_multicast(group_gid()).unwrap();
        ud.qp.attach_multicast(group_gid()).unwrap();
    });
}

/// While peers are on this host a poll looks at its sockets only now and then. Requests that wait for others must not wait
/// for that.
#[test]
fn a_datagram_that_waits_for_more_leaves_with_the_next_poll() {
    by(testing::EnginePath::OneHost, || {
        on_loopback(|group| {
            let (a, b) = pair(group, Setup::new(QpType::Ud));
            let to = a.datagram_to(b.gid, b.qp.qpn());
            for _ in 0..200 {
                b.post_recv(7, 0, GRH_BYTES + 100);
                send_datagram(&a, to, SendOp::Send, b"first");
                check_datagram(&b, &a, b"first");
            }
            for round in 0..200 {
                b.post_recv(7, 0, GRH_BYTES + 100);
                let mut wr = a.send_wr(1, SendOp::Send, 0, 5);
                wr.flags |= SendFlags::MORE;
                wr.datagram = Some(Box::new(to));
                a.qp.post_send([wr]).unwrap();
                let mut sent = Vec::new();
                for _ in 0..2 {
                    a.send_cq.poll(&mut sent, 8).unwrap();
                }
                assert_eq!(sent.len(), 1, "round {round}: it has left");
                check_datagram(&b, &a, b"first");
            }
        });
    });
}
