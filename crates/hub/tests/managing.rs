//! Managing connections with one hub: ports and the delivery of MADs.

mod common;

use common::mads::{Manager, TCP, UDP, address, drep, dreq, id, message, packet, rtu, sidr_req, transaction};
use common::{TestHub, play_role_if_asked};
use longarm_hub::AddressedMad;
use longarm_hub::client::manager::{BindOptions, PortBindError};
use longarm_hub::client::{self, attach};
use rustix::event::{PollFd, PollFlags, Timespec};
use testkit::wait_until;
use udp::testing::in_new_netns;
use wire::mad::{CmMessage, reason, sidr_status};

#[test]
fn role() {
    play_role_if_asked();
}

fn bind(manager: &mut Manager, address: &str) -> Result<u16, PortBindError> {
    manager.session.bind(TCP, address.parse().unwrap(), BindOptions::default()).map(|binding| binding.port)
}

#[test]
fn ports_belong_to_processes() {
    in_new_netns(|| {
        let place = TestHub::new("ports");
        let (mut a, mut b) = (Manager::new(&place), Manager::new(&place));
        assert_ne!(a.session.number(), b.session.number());
        assert!((1..=4095).contains(&a.session.number()));
        assert!(a.session.devices().iter().any(|device| device.loopback));
        assert_eq!(bind(&mut a, "127.0.0.1:7471").unwrap(), 7471);
        let in_use = bind(&mut b, "0.0.0.0:7471").unwrap_err();
        assert!(matches!(in_use, PortBindError::InUse) && in_use.errno() == libc::EADDRINUSE);
        assert_eq!(bind(&mut b, "[::1]:7471").unwrap(), 7471);
        let elsewhere = bind(&mut b, "198.51.100.7:1").unwrap_err();
        assert!(matches!(elsewhere, PortBindError::NotAvailable) && elsewhere.errno() == libc::EADDRNOTAVAIL);
        assert!(matches!(bind(&mut b, "[fe80::1]:1"), Err(PortBindError::InvalidAddress)));
        assert!(matches!(bind(&mut b, "[fe80::1%1]:1"), Err(PortBindError::NotAvailable)));
        assert!(matches!(b.session.listen(99), Err(PortBindError::UnknownToken)));
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let range: Vec<u16> = range.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let port = bind(&mut b, "0.0.0.0:0").unwrap();
        assert!((range[0]..=range[1]).contains(&port), "{port}");
        drop(a);
        wait_until("the port is free", || bind(&mut b, "0.0.0.0:7471").is_ok());
        assert_eq!(place.status().managers.len(), 1);
    });
}

#[test]
fn reuse_and_listening() {
    in_new_netns(|| {
        let place = TestHub::new("reuse");
        let (mut a, mut b) = (Manager::new(&place), Manager::new(&place));
        let reuse = BindOptions { reuse: true, afonly: false };
        let wish = "127.0.0.1:7".parse().unwrap();
        let one = a.session.bind(TCP, wish, reuse).unwrap();
        let two = b.session.bind(TCP, wish, reuse).unwrap();
        assert!(matches!(a.session.listen(one.token), Err(PortBindError::InUse)));
        b.session.unbind(two.token);
        wait_until("it is alone", || a.session.listen(one.token).is_ok());
        assert!(matches!(b.session.bind(TCP, wish, reuse), Err(PortBindError::InUse)));
        assert!(b.session.bind(UDP, wish, reuse).is_ok());
        let afonly = BindOptions { reuse: false, afonly: true };
        assert!(b.session.bind(TCP, "[::]:7".parse().unwrap(), BindOptions::default()).is_err());
        assert!(b.session.bind(TCP, "[::]:7".parse().unwrap(), afonly).is_ok());
        let status = place.status();
        let shown = &status.managers[0].ports[0];
        assert_eq!((shown.space_name(), shown.address, shown.listening), ("tcp", wish, true));
        assert_eq!(status.managers[1].ports_total, 2);
    });
}

#[test]
fn mads_go_by_number() {
    in_new_netns(|| {
        let place = TestHub::new("number");
        let (mut a, mut b) = (Manager::new(&place), Manager::new(&place));
        for own in ["127.0.0.1", "::1"] {
            let got = a.exchange(&mut b, own, own, 0);
            assert_eq!(got.interface, 1, "loop-back");
            b.exchange(&mut a, own, own, 1);
        }
        let message = rtu(id(a.session.number(), 1), id(b.session.number(), 2));
        a.session.send_mad(&AddressedMad { traffic_class: 0xb8, ..packet("::1", "::1", 1, message) });
        assert_eq!(b.expect_mad().traffic_class, 0xb8);
        let mads = place.status().mads;
        assert_eq!((mads.received, mads.delivered, mads.sent, mads.refused), (5, 5, 5, 0));
    });
}

#[test]
fn requests_go_to_the_listener() {
    in_new_netns(|| {
        let place = TestHub::new("listen");
        let (mut a, mut b, mut c) = (Manager::new(&place), Manager::new(&place), Manager::new(&place));
        let request = |address: &str, port| packet(address, address, 5, sidr_req(id(1, 1), UDP, port));
        b.session.bind(UDP, "127.0.0.1:7".parse().unwrap(), BindOptions::default()).unwrap();
        c.listen(UDP, "[::]:8");
        let d = b.listen(UDP, "127.0.0.1:9");
        for (address, port) in [("127.0.0.1", 8), ("::1", 8)] {
            a.session.send_mad(&request(address, port));
            let CmMessage::SidrReq(got) = message(&c.expect_mad()) else { panic!("no request") };
            assert_eq!(got.service_id, 0x0111_0008);
        }
        a.session.send_mad(&request("127.0.0.1", 9));
        assert_eq!(b.expect_mad().local, address("127.0.0.1"));
        b.session.unbind(d.token);
        wait_until("it is free", || place.status().managers[1].ports_total == 1);
        // Only bound, given back, and never bound.
        let number = a.session.number();
        for port in [7, 9, 10] {
            a.session.send_mad(&packet("127.0.0.1", "127.0.0.1", 6, sidr_req(id(number, port.into()), UDP, port)));
            let refusal = a.expect_mad();
            let CmMessage::SidrRep(rep) = message(&refusal) else { panic!("{:?}", message(&refusal)) };
            assert_eq!((rep.request_id, rep.status), (id(number, port.into()), sidr_status::UNSUPPORTED));
            assert_eq!(transaction(&refusal), 6);
        }
        assert_eq!(place.status().mads.refused, 3);
    });
}

#[test]
fn the_hub_answers_for_dead_processes() {
    in_new_netns(|| {
        let place = TestHub::new("gone");
        let mut a = Manager::new(&place);
        let own = id(a.session.number(), 1);
        let nobody = id(a.session.number() % 4095 + 1, 9);
        let send = |a: &mut Manager, message| a.session.send_mad(&packet("127.0.0.1", "127.0.0.1", 3, message));
        send(&mut a, dreq(own, nobody));
        let answer = a.expect_mad();
        let CmMessage::Drep(drep_got) = message(&answer) else { panic!("{:?}", message(&answer)) };
        assert_eq!((drep_got.local_id, drep_got.remote_id, transaction(&answer)), (nobody, own, 3));
        // These get no answer.
        send(&mut a, drep(own, nobody));
        send(&mut a, drep(own, 5));
        wait_until("they have arrived", || place.status().mads.drop_nobody == 2);
        // A peer that gave up before it got an answer does not know the receiver's id.
        let mut b = Manager::new(&place);
        let rej = wire::mad::Rej {
            local_id: nobody,
            remote_id: 0,
            rejected: wire::mad::Rejected(1),
            info_len: 0,
            reason: reason::TIMEOUT,
            info: [0; wire::mad::Rej::INFO_LEN],
            private_data: [0; wire::mad::Rej::PRIVATE_LEN],
        };
        send(&mut a, CmMessage::Rej(rej));
        for manager in [&mut a, &mut b] {
            assert_eq!(message(&manager.expect_mad()), CmMessage::Rej(rej));
        }
    });
}

#[test]
fn foreign_addresses_and_other_messages_are_not_sent() {
    in_new_netns(|| {
        let place = TestHub::new("foreign-source");
        let (mut a, mut b) = (Manager::new(&place), Manager::new(&place));
        let to_b = |a: &Manager, b: &Manager| rtu(id(a.session.number(), 1), id(b.session.number(), 1));
        for source in ["198.51.100.7", "127.0.0.2", "0.0.0.0"] {
            a.session.send_mad(&packet(source, "127.0.0.1", 1, to_b(&a, &b)));
        }
        a.session.send_mad(&packet("fe80::1", "::1", 1, to_b(&a, &b)));
        let mut other_class = packet("127.0.0.1", "127.0.0.1", 1, to_b(&a, &b));
        other_class.mad[1] = 3;
        a.session.send_mad(&other_class);
        for group in ["224.0.0.1", "0.0.0.0"] {
            a.session.send_mad(&packet("127.0.0.1", group, 1, to_b(&a, &b)));
        }
        a.exchange(&mut b, "127.0.0.1", "127.0.0.1", 0);
        assert!(!b.has_mads());
        let mads = place.status().mads;
        assert_eq!((mads.drop_source, mads.drop_unsound, mads.sent, mads.received), (4, 3, 1, 1));
    });
}

#[test]
fn the_descriptor_is_readable_when_mads_arrive() {
    in_new_netns(|| {
        let place = TestHub::new("poll");
        let (mut a, mut b) = (Manager::new(&place), Manager::new(&place));
        while b.session.maintain(std::time::Instant::now()).is_some() {}
        let readable = |manager: &Manager, timeout| {
            let mut fds = [PollFd::from_borrowed_fd(manager.session.poll_fd(), PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&timeout)).unwrap() == 1
        };
        assert!(!readable(&b, Timespec::default()));
        a.session.send_mad(&packet("::1", "::1", 1, rtu(1, id(b.session.number(), 1))));
        assert!(readable(&b, Timespec::try_from(testkit::PATIENCE).unwrap()));
        b.expect_mad();
        assert!(!readable(&b, Timespec::default()));
    });
}

#[test]
fn thousands_of_mads_wait_without_loss() {
    in_new_netns(|| {
        let place = TestHub::new("burst");
        let mut a = Manager::new(&place);
        let before = a.session.counters();
        // Without a receiver, so that the hub has nothing to deliver.
        let mad = packet("127.0.0.1", "127.0.0.1", 1, drep(1, 5));
        for _ in 0..5000 {
            a.session.send_mad(&mad);
        }
        wait_until("all were sent", || {
            a.step();
            let mads = place.status().mads;
            mads.sent + mads.drop_unsent == 5000
        });
        assert_eq!(a.session.counters(), before);
    });
}

#[test]
fn a_managing_process_keeps_the_hub_and_is_named() {
    in_new_netns(|| {
        let place = TestHub::new("in-use");
        let a = Manager::new(&place);
        let session = attach(&place.options()).unwrap();
        let error = client::shutdown(Some(&place.dir()), false).unwrap_err().to_string();
        let own = std::process::id().to_string();
        assert_eq!(error.matches(&own).count(), 1, "one process: {error}");
        drop((a, session));
        wait_until("nobody is left", || client::shutdown(Some(&place.dir()), false).is_ok());
    });
}
