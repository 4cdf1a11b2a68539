//! Connecting manually, and the errors of two ends that do not fit.

mod common;

use std::net::IpAddr;

use common::*;
use longarm::{ConnectError, Mtu, ResourceError, Retry};
use testkit::PATIENCE;

#[test]
fn ends_that_do_not_fit_are_told_apart() {
    in_own_network(|| {
        two_sides(|a, b| {
            let rc = || a.rc().build().unwrap();
            if has(a.device.capabilities().uc, UNRELIABLE) {
                let error = rc().connect(&b.uc().build().unwrap().connection_info()).unwrap_err();
                assert!(matches!(error, ConnectError::OtherService { .. }), "{error}");
            }
            if !has(!a.device.capabilities().by_address_only, BY_NUMBER) {
                let error = rc().connect(&rc().connection_info()).unwrap_err();
                assert!(matches!(error, ConnectError::ByAddressOnly), "{error}");
            }
            let error = a.rc().retry(Retry { count: 9, ..Retry::default() }).build().unwrap_err();
            assert!(error.to_string().contains("at most 7"), "{error}");
            let error = a.domain.rc(&b.cq).build().unwrap_err();
            assert!(matches!(error, ResourceError::OtherDevice(_)), "{error}");
            let error = a.rc().send_depth(1 << 30).build().unwrap_err();
            assert!(error.to_string().contains("limit"), "{error}");
        })
    })
}

#[test]
fn the_smaller_mtu_and_read_depth_win() {
    in_own_network(|| {
        two_sides(|a, b| {
            let ours = a.rc().mtu(Mtu::B512).read_depth(1).build().unwrap();
            assert_eq!((ours.connection_info().mtu(), ours.connection_info().read_depth()), (Mtu::B512, 1));
            let (left, right) = join(ours, b.rc().build().unwrap());
            let region = a.domain.expose(8192, ALL).unwrap();
            region.copy_in(0, &pattern(8192)).unwrap();
            let reads: Vec<_> = (0..8).map(|_| right.read(b.empty(8192), &region.key()).start()).collect();
            for read in reads {
                assert!(read.wait(PATIENCE).unwrap()[..] == pattern(8192));
            }
            let packets = left.counters().tx_packets;
            assert!(packets >= 8 * 16 || !a.device.capabilities().instruments, "8 KiB are 16 packets of 512");
        })
    })
}

#[test]
fn ipv6_is_used_when_asked_for() {
    in_own_network(|| {
        two_sides(|a, b| {
            let v6: IpAddr = here_v6().into();
            let mut ours = a.rc().build().unwrap();
            if !has(!a.device.capabilities().by_address_only, BY_NUMBER) {
                return;
            }
            assert!(!ours.use_address(IpAddr::from([203, 0, 113, 1])));
            if !ours.use_address(v6) {
                return; // a kernel without IPv6
            }
            let theirs = b.rc().gid(v6.into()).build().unwrap();
            let (left, right) = join(ours, theirs);
            let message = right.recv(b.empty(8)).start();
            left.send_inline(b"six").wait(PATIENCE).unwrap();
            assert_eq!(&message.wait(PATIENCE).unwrap()[..], b"six");
            assert_eq!(right.peer().gid().ip(), v6);
        })
    })
}

#[test]
fn faults_are_survived_and_can_be_switched_off() {
    in_own_network(|| {
        two_sides(|a, b| {
            let plan = Some("seed=3,loss=0.1,dup=0.1".parse().unwrap());
            if !has(a.device.capabilities().instruments, INSTRUMENTS) {
                assert!(a.device.set_faults(plan).unwrap_err().to_string().contains("only Longarm's own"));
                return;
            }
            let (left, right) = rc_pair(&a, &b);
            a.device.set_faults(plan).unwrap();
            let bytes = pattern(200_000);
            for _ in 0..5 {
                let message = right.recv(b.empty(200_000)).start();
                left.send(a.buffer(&bytes)).wait(PATIENCE).unwrap();
                assert!(message.wait(PATIENCE).unwrap()[..] == bytes);
            }
            assert!(left.counters().retransmitted_packets > 0);
            a.device.set_faults(None).unwrap();
            let injected = || ["fault_lost", "fault_duplicated"].map(|name| a.device.counters().get(name));
            let before = injected();
            assert!(before.iter().all(|count| *count > 0), "{before:?}");
            let message = right.recv(b.empty(200_000)).start();
            left.send(a.buffer(&bytes)).wait(PATIENCE).unwrap();
            assert!(message.wait(PATIENCE).unwrap()[..] == bytes);
            assert_eq!(injected(), before);
        })
    })
}

#[test]
fn a_capture_is_written() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let wanted = std::env::temp_dir().join(format!("capture-{}.pcapng", std::process::id()));
            if !has(a.device.capabilities().instruments, INSTRUMENTS) {
                assert!(a.device.capture(&wanted).unwrap_err().to_string().contains("only Longarm's own"));
                return;
            }
            let path = a.device.capture(&wanted).unwrap();
            let message = right.recv(b.empty(8)).start();
            left.send_inline(b"seen").wait(PATIENCE).unwrap();
            message.wait(PATIENCE).unwrap();
            a.device.stop_capture();
            let bytes = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a pcapng section");
            assert!(bytes.windows(4).any(|w| w == b"seen"));
        })
    })
}

#[test]
fn two_hosts_talk_over_the_addresses_that_were_chosen() {
    if !has(!on_hardware(), "a second interface, and a host there") {
        return;
    }
    in_own_network(|| {
        let (left, right) = udp::testing::hosts(1500);
        let open = || {
            let group = udp::PortGroup::bind(2).unwrap();
            let side = TestSide::new(device::testing::open(&group, 1, "veth0").into());
            (group, side)
        };
        // The engine makes sockets as it needs them, on the thread that drives it.
        let ((_one, a), (_two, b)) = (left.run(open), right.run(open));
        for (near, far) in [(IpAddr::from(left.v4), IpAddr::from(right.v4)), (left.v6.into(), right.v6.into())] {
            let (mut ours, mut theirs) = (a.rc().build().unwrap(), b.rc().build().unwrap());
            assert!(ours.use_address(near) && theirs.use_address(far));
            let (to_us, to_them) = (ours.connection_info(), theirs.connection_info());
            let ours = left.run(|| ours.connect(&to_them).unwrap());
            let theirs = right.run(|| theirs.connect(&to_us).unwrap());
            assert_eq!(ours.peer().gid().ip(), far);
            assert_eq!(ours.peer().mtu(), Mtu::B1024, "what fits an Ethernet packet");
            let message = theirs.recv(b.empty(100_000)).start();
            left.run(|| ours.send(a.buffer(&pattern(100_000))).wait(PATIENCE)).unwrap();
            let message = right.run(|| message.wait(PATIENCE)).unwrap();
            assert!(message[..] == pattern(100_000));
        }
    })
}
