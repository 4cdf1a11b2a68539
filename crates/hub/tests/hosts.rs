//! Two hosts, each with its own hub, and the wire between them.

mod common;

use common::mads::{Manager, UDP, id, message, sidr_req};
use common::{TestHub, play_role_if_asked};
use longarm_hub::AddressedMad;
use longarm_hub::client::manager::ManagerEvent;
use std::net::IpAddr;
use testkit::wait_until;
use udp::testing::{Capture, NetHost, hosts, in_new_netns};
use wire::mad::CmMessage;
use wire::{Bth, Deth, PKey, Packet, QKey, Qpn, icrc};

#[test]
fn role() {
    play_role_if_asked();
}

/// A host's interface that is not loop-back: its index and an address that `fits`.
fn interface(host: &NetHost, fits: fn(&IpAddr) -> bool) -> Option<(u32, String)> {
    host.run(|| {
        let interfaces = udp::interfaces().unwrap();
        let veth = interfaces.iter().find(|interface| interface.name == "veth0").unwrap();
        let address = veth.addresses.iter().map(|a| a.address).find(fits)?;
        Some((veth.index, address.to_string()))
    })
}

fn link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

#[test]
fn mads_cross_the_wire_over_all_kinds_of_addresses() {
    in_new_netns(|| {
        let (left, right) = hosts(1500);
        let (left_place, right_place) = (TestHub::new("left"), TestHub::new("right"));
        let mut a = left.run(|| Manager::new(&left_place));
        let mut b = right.run(|| Manager::new(&right_place));
        let local = || Some((interface(&left, link_local)?, interface(&right, link_local)?));
        wait_until("link-local addresses can be used", || local().is_some());
        let ((left_index, left_link), (right_index, right_link)) = local().unwrap();
        let pairs = [
            (left.v4.to_string(), right.v4.to_string()),
            (left.v6.to_string(), right.v6.to_string()),
            (left_link, right_link),
        ];
        let mut neighbour = left.run(|| Manager::new(&left_place));
        for (ours, theirs) in pairs {
            // The hubs may not know so new an address yet.
            wait_until("the hubs know the addresses", || {
                let knows = |manager: &mut Manager, text: &str| {
                    manager.step();
                    let ip: IpAddr = text.parse().unwrap();
                    manager.session.devices().iter().any(|d| d.valid_gids().any(|(_, gid)| gid.ip() == ip))
                };
                left.run(|| knows(&mut a, &ours)) && right.run(|| knows(&mut b, &theirs))
            });
            let got = a.exchange(&mut b, &ours, &theirs, left_index);
            assert_eq!(got.interface, right_index, "{ours}");
            let back = b.exchange(&mut a, &theirs, &ours, got.interface);
            assert_eq!(back.interface, left_index, "{theirs}");
            // To another process of this host, by loop-back.
            let near = a.exchange(&mut neighbour, &ours, &ours, left_index);
            assert_eq!(near.interface, left_index, "{ours} to itself");
        }
        left.run(|| drop(left_place));
        right.run(|| drop(right_place));
    });
}

#[test]
fn a_request_to_a_host_without_rdma_is_undelivered() {
    in_new_netns(|| {
        let (left, right) = hosts(1500);
        let place = TestHub::new("refused");
        let mut a = left.run(|| Manager::new(&place));
        let pairs = [(left.v4.to_string(), right.v4.to_string()), (left.v6.to_string(), right.v6.to_string())];
        for (ours, theirs) in pairs {
            let request = sidr_req(id(a.session.number(), 1), UDP, 7);
            let sent = common::mads::packet(&ours, &theirs, 9, request);
            let (returned, errno) = a.send_until("the packet's return", &sent, |event| match event {
                ManagerEvent::Undelivered { packet, errno } => Some((packet.clone(), *errno)),
                _ => None,
            });
            assert_eq!((returned.remote, errno), (sent.remote, libc::ECONNREFUSED));
            assert_eq!(returned.mad, sent.mad);
        }
        left.run(|| drop(place));
    });
}

#[test]
fn packets_look_as_linux_sends_them() {
    in_new_netns(|| {
        let (left, right) = hosts(1500);
        let (left_place, right_place) = (TestHub::new("wire-left"), TestHub::new("wire-right"));
        let mut a = left.run(|| Manager::new(&left_place));
        let mut b = right.run(|| Manager::new(&right_place));
        let (index, _) = interface(&right, |_| true).unwrap();
        let capture = right.run(|| Capture::new(index));
        b.listen(UDP, "0.0.0.0:7");
        let (ours, theirs) = (left.v4.to_string(), right.v4.to_string());
        for (port, listens) in [(7, true), (8, false)] {
            let request = sidr_req(id(a.session.number(), 1), UDP, port);
            let sent = AddressedMad { traffic_class: 0x68, ..common::mads::packet(&ours, &theirs, 9, request) };
            a.session.send_mad(&sent);
            if listens {
                assert_eq!(b.expect_mad().traffic_class, 0x68);
            } else {
                assert!(matches!(message(&a.expect_mad()), CmMessage::SidrRep(_)));
            }
        }
        let captured = capture.take(1000);
        assert_eq!(captured.len(), 3, "two requests and a refusal");
        for (i, captured) in captured.iter().enumerate() {
            let frame = captured.frame();
            assert!(captured.is_unfragmentable());
            assert_eq!((frame.identification, frame.ttl, frame.tos), (0, 64, 0x68));
            assert_eq!(frame.flow.source_port, 55410);
            assert_eq!(icrc::check(&frame.flow, frame.payload, 0), icrc::Check::Good);
            let packet = Packet::parse(&frame.payload[..frame.payload.len() - wire::ICRC_LEN]).unwrap();
            let (bth, deth): (Bth, Deth) = (packet.bth(), packet.deth().unwrap());
            assert_eq!((bth.ack_req, bth.solicited, bth.migrated), (true, false, false));
            assert_eq!((bth.pkey, bth.dest_qpn), (PKey::DEFAULT, Qpn::GSI));
            assert_eq!((deth.qkey, deth.src_qpn), (QKey(0x8001_0000), Qpn::GSI));
            assert_eq!(packet.payload().len(), 256);
            // Each host counts its own.
            assert_eq!(bth.psn.get(), [0, 1, 0][i]);
        }
        left.run(|| drop(left_place));
        right.run(|| drop(right_place));
    });
}
