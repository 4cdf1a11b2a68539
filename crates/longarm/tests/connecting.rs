//! Connecting over the exchange, and what comes of two ends that do not fit.

mod common;

use std::io::Write;
use std::net::{IpAddr, TcpStream};

use common::*;
use longarm::{ConnectError, Gid, Mtu, RemoteKey, ResourceError, Retry, exchange};

#[test]
fn two_queue_pairs_and_their_keys_in_a_few_lines() {
    udp::testing::in_new_netns(|| {
        two_sides(|a, b| {
            let listener = exchange::listen("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let region = b.domain.expose(64, ALL).unwrap();
            std::thread::scope(|scope| {
                let server = scope.spawn(|| {
                    let qp = b.rc().build().unwrap();
                    listener.accept(qp, &region.key().to_bytes(), PATIENCE).unwrap()
                });
                let qp = a.rc().build().unwrap();
                let (qp, blob) = exchange::connect(address, qp, b"a client", PATIENCE).unwrap();
                let key = RemoteKey::from_bytes(&blob).unwrap();
                qp.write_inline(b"written", &key).wait(PATIENCE).unwrap();
                let (other, blob) = server.join().unwrap();
                assert_eq!((other.peer().qpn(), &blob[..]), (qp.qpn(), &b"a client"[..]));
                assert_eq!(qp.peer().gid(), Gid::from(IpAddr::from([127, 0, 0, 1])));
            });
            let mut seen = [0; 7];
            region.copy_out(0, &mut seen).unwrap();
            assert_eq!(&seen, b"written");
        })
    })
}

#[test]
fn strangers_and_those_of_another_service_are_passed_over() {
    udp::testing::in_new_netns(|| {
        two_sides(|a, b| {
            let listener = exchange::listen("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let mut stranger = TcpStream::connect(address).unwrap();
            stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            std::thread::scope(|scope| {
                let server = scope.spawn(|| listener.accept(b.rc().build().unwrap(), b"", PATIENCE).unwrap());
                let other = a.uc().build().unwrap();
                let refused = exchange::connect(address, other, b"", PATIENCE).unwrap_err();
                assert!(matches!(&refused, ConnectError::Refused(why) if why.contains("Rc")));
                let (qp, _) = exchange::connect(address, a.rc().build().unwrap(), b"", PATIENCE).unwrap();
                assert_eq!(server.join().unwrap().0.peer().qpn(), qp.qpn());
            });
        })
    })
}

#[test]
fn an_incoming_peer_can_be_looked_at_first() {
    udp::testing::in_new_netns(|| {
        two_sides(|a, b| {
            let listener = exchange::listen("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            std::thread::scope(|scope| {
                let client = scope.spawn(|| exchange::connect(address, a.rc().build().unwrap(), b"me", PATIENCE));
                let incoming = listener.next(PATIENCE).unwrap();
                assert_eq!(incoming.blob(), b"me");
                let qp = incoming.accept(b.rc().build().unwrap(), b"you").unwrap();
                let (client, blob) = client.join().unwrap().unwrap();
                assert_eq!((client.peer().qpn(), &blob[..]), (qp.qpn(), &b"you"[..]));
            });
        })
    })
}

#[test]
fn ends_that_do_not_fit_are_told_apart() {
    udp::testing::in_new_netns(|| {
        two_sides(|a, b| {
            let (rc, uc) = (a.rc().build().unwrap(), b.uc().build().unwrap());
            let error = rc.connect(&uc.address()).unwrap_err();
            assert!(matches!(error, ConnectError::OtherService { .. }), "{error}");
            let error = a.rc().retry(Retry { count: 9, ..Retry::default() }).build().unwrap_err();
            assert!(error.to_string().contains("at most 7"), "{error}");
            let error = a.domain.rc(&b.cq).build().unwrap_err();
            assert!(matches!(error, ResourceError::OtherContext(_)), "{error}");
            let error = a.rc().send_depth(1 << 30).build().unwrap_err();
            assert!(error.to_string().contains("limit"), "{error}");
        })
    })
}

#[test]
fn the_smaller_mtu_and_read_depth_win() {
    udp::testing::in_new_netns(|| {
        two_sides(|a, b| {
            let ours = a.rc().mtu(Mtu::B512).read_depth(1).build().unwrap();
            assert_eq!((ours.address().mtu(), ours.address().read_depth()), (Mtu::B512, 1));
            let (left, right) = join(ours, b.rc().build().unwrap());
            let region = a.domain.expose(8192, ALL).unwrap();
            region.copy_in(0, &pattern(8192)).unwrap();
            let reads: Vec<_> = (0..8).map(|_| right.read(b.empty(8192), &region.key()).start()).collect();
            for read in reads {
                assert!(read.wait(PATIENCE).unwrap()[..] == pattern(8192));
            }
            assert!(left.counters().tx_packets >= 8 * 16, "8 KiB are 16 packets of 512");
        })
    })
}

#[test]
fn ipv6_is_used_when_asked_for() {
    udp::testing::in_new_netns(|| {
        two_sides(|a, b| {
            let v6: IpAddr = std::net::Ipv6Addr::LOCALHOST.into();
            let mut ours = a.rc().build().unwrap();
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
    udp::testing::in_new_netns(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            a.context.set_faults(Some("seed=3,loss=0.1,dup=0.1".parse().unwrap()));
            let bytes = pattern(200_000);
            for _ in 0..5 {
                let message = right.recv(b.empty(200_000)).start();
                left.send(a.buffer(&bytes)).wait(PATIENCE).unwrap();
                assert!(message.wait(PATIENCE).unwrap()[..] == bytes);
            }
            assert!(left.counters().retransmitted_packets > 0);
            a.context.set_faults(None);
            let injected = || ["fault_lost", "fault_duplicated"].map(|name| a.context.counters().get(name));
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
    udp::testing::in_new_netns(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let wanted = std::env::temp_dir().join(format!("capture-{}.pcapng", std::process::id()));
            let path = a.context.capture(&wanted).unwrap();
            let message = right.recv(b.empty(8)).start();
            left.send_inline(b"seen").wait(PATIENCE).unwrap();
            message.wait(PATIENCE).unwrap();
            a.context.stop_capture();
            let bytes = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a pcapng section");
            assert!(bytes.windows(4).any(|w| w == b"seen"));
        })
    })
}

#[test]
fn two_hosts_talk_over_the_addresses_that_tcp_uses() {
    udp::testing::in_new_netns(|| {
        let (left, right) = udp::testing::hosts(1500);
        let open = || {
            let group = udp::PortGroup::bind(2).unwrap();
            let side = Side::new(device::testing::open(&group, 1, "veth0").into());
            (group, side)
        };
        // The engine makes sockets as it needs them, on the thread that drives it.
        let ((_one, a), (_two, b)) = (left.run(open), right.run(open));
        for ip in [IpAddr::from(right.v4), IpAddr::from(right.v6)] {
            let listener = right.run(|| exchange::listen((ip, 0)).unwrap());
            let address = listener.local_addr().unwrap();
            let (ours, theirs) = std::thread::scope(|scope| {
                let theirs =
                    scope.spawn(|| right.run(|| listener.accept(b.rc().build().unwrap(), b"", PATIENCE).unwrap().0));
                let ours = left.run(|| exchange::connect(address, a.rc().build().unwrap(), b"", PATIENCE).unwrap().0);
                (ours, theirs.join().unwrap())
            });
            assert_eq!(ours.peer().gid().ip(), ip);
            assert_eq!(ours.peer().mtu(), Mtu::B1024, "what fits an Ethernet packet");
            let message = theirs.recv(b.empty(100_000)).start();
            left.run(|| ours.send(a.buffer(&pattern(100_000))).wait(PATIENCE)).unwrap();
            let message = right.run(|| message.wait(PATIENCE)).unwrap();
            assert!(message[..] == pattern(100_000));
        }
    })
}
