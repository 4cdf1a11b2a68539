//! Connections by address: how they come about, and why they do not.

mod common;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use common::*;
use longarm::{
    ConnectError, Connection, Device, Endpoint, Incoming, Listener, Mtu, QpBuilder, Refusal, RemoteKey, Route,
};
use testkit::PATIENCE;

/// Long enough to see that nothing happens.
const A_WHILE: Duration = Duration::from_millis(50);

fn side() -> TestSide {
    TestSide::new(Device::open().unwrap())
}

fn next(listener: &Listener) -> Incoming {
    listener.incoming().wait(PATIENCE).unwrap()
}

/// Both ends of a connection.
fn pair(listener: &Listener, left: QpBuilder, right: QpBuilder) -> (Connection, Connection) {
    let calling = longarm::connect(listener.local_addr(), left, b"");
    let right = next(listener).accept(right, b"").wait(PATIENCE).unwrap();
    (calling.wait(PATIENCE).unwrap(), right)
}

fn refusal(result: Result<impl Sized, ConnectError>) -> (Refusal, Vec<u8>) {
    match result.err().expect("it was refused") {
        ConnectError::Refused { refusal, private_data, .. } => (refusal, private_data),
        other => panic!("{other}"),
    }
}

#[test]
fn two_ends_hand_each_other_bytes_and_then_messages() {
    with_hub("two_ends_hand_each_other_bytes_and_then_messages", || {
        let side = side();
        let region = side.domain.expose(64, ALL).unwrap();
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let calling = longarm::connect(listener.local_addr(), side.rc(), b"a client");
        let incoming = next(&listener);
        assert_eq!((&incoming.private_data()[..9], incoming.private_data().len()), (&b"a client\0"[..], 56));
        assert_eq!(incoming.local_addr(), listener.local_addr());
        let caller = incoming.peer_addr();
        assert_eq!(caller.ip(), here());
        let server = incoming.accept(side.rc(), &region.key().to_bytes()).wait(PATIENCE).unwrap();
        let client = calling.wait(PATIENCE).unwrap();

        assert_eq!((client.local_addr(), client.peer_addr()), (caller, listener.local_addr()));
        assert_eq!((server.local_addr(), server.peer_addr()), (listener.local_addr(), caller));
        assert_eq!(server.peer().gid().ip(), here());
        if has(!side.device.capabilities().by_address_only, "the number of the peer's queue pair") {
            assert_eq!((server.peer().qpn(), client.peer().qpn()), (client.qpn(), server.qpn()));
        }
        assert_eq!(client.private_data().len(), 196);
        assert!(client.is_connected() && server.is_connected());
        let key = RemoteKey::from_bytes(&client.private_data()[..RemoteKey::ENCODED_BYTES]).unwrap();
        client.write_inline(b"written", &key).wait(PATIENCE).unwrap();
        let message = client.recv(side.empty(1 << 20)).start();
        server.send(side.buffer(&pattern(1 << 20))).wait(PATIENCE).unwrap();
        assert!(message.wait(PATIENCE).unwrap()[..] == pattern(1 << 20));
        let mut seen = [0; 7];
        region.copy_out(0, &mut seen).unwrap();
        assert_eq!(&seen, b"written");
    });
}

#[test]
fn the_addresses_of_a_device_lead_to_it() {
    with_hub("the_addresses_of_a_device_lead_to_it", || {
        let device = Device::open().unwrap();
        let addresses = device.addresses();
        assert_eq!(addresses[..2], [IpAddr::from(here()), here_v6().into()], "{addresses:?}");
        for address in addresses {
            let listener = Listener::bind((address, 0)).wait(PATIENCE).unwrap();
            let calling = Endpoint::connect(listener.local_addr(), b"");
            let (server, client) = (listener.accept().wait(PATIENCE).unwrap(), calling.wait(PATIENCE).unwrap());
            assert_eq!(client.device().info().name, device.info().name, "{address}");
            assert_eq!(server.device().info().name, device.info().name, "{address}");
        }
    });
}

#[test]
fn a_peer_that_is_refused_hears_why() {
    with_hub("a_peer_that_is_refused_hears_why", || {
        let side = side();
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let call = || longarm::connect(listener.local_addr(), side.rc(), b"");
        let calling = call();
        next(&listener).reject(b"not today").unwrap();
        let (reason, why) = refusal(calling.wait(PATIENCE));
        assert_eq!((reason, &why[..10], why.len()), (Refusal::PROGRAM, &b"not today\0"[..], 148));

        let calling = call();
        drop(next(&listener));
        assert_eq!(refusal(calling.wait(PATIENCE)).0, Refusal::PROGRAM);

        let calling = call();
        let failed = next(&listener).accept(side.rc().mtu(Mtu::B256), b"").wait(PATIENCE).unwrap_err();
        assert!(matches!(failed, ConnectError::Mtu { ours: Mtu::B256, .. }), "{failed}");
        // The system's library has no argument for the reason.
        let expected = if on_system() { Refusal::PROGRAM } else { Refusal::MTU };
        assert_eq!(refusal(calling.wait(PATIENCE)).0, expected);
    });
}

#[test]
fn a_missing_listener_is_known_immediately() {
    with_hub("a_missing_listener_is_known_immediately", || {
        let side = side();
        let free = Listener::bind(any_port()).wait(PATIENCE).unwrap().local_addr();
        let failed = longarm::connect(free, side.rc(), b"").wait(PATIENCE);
        assert_eq!(refusal(failed).0, Refusal::NO_LISTENER);
        if !has(side.device.capabilities().uc, UNRELIABLE) {
            return;
        }
        // Another service has other ports.
        let unreliable = Listener::bind_uc(any_port()).wait(PATIENCE).unwrap();
        let failed = longarm::connect(unreliable.local_addr(), side.rc(), b"").wait(PATIENCE);
        assert_eq!(refusal(failed).0, Refusal::NO_LISTENER);
    });
}

#[test]
fn every_address_of_a_name_is_tried() {
    with_hub("every_address_of_a_name_is_tried", || {
        let side = side();
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        // A port at which another address has a listener: the kernel answers as a program that refuses.
        let port = if on_hardware() { 1 } else { listener.local_addr().port() };
        let addresses: [SocketAddr; 3] = [(here_v6(), port).into(), (here(), 1).into(), listener.local_addr()];
        let calling = longarm::connect(&addresses[..], side.rc(), b"");
        let server = std::thread::spawn({
            let builder = side.rc();
            move || next(&listener).accept(builder, b"").wait(PATIENCE).unwrap()
        });
        let client = calling.wait(PATIENCE).unwrap();
        assert_eq!(client.peer_addr(), addresses[2]);
        assert_eq!(server.join().unwrap().peer_addr(), client.local_addr());
        let nobody = longarm::connect(&[][..] as &[SocketAddr], side.rc(), b"").wait(PATIENCE).unwrap_err();
        assert!(matches!(nobody, ConnectError::Name(_)), "{nobody}");
    });
}

#[test]
fn private_data_has_limits() {
    with_hub("private_data_has_limits", || {
        let side = side();
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let call = |bytes: &[u8]| longarm::connect(listener.local_addr(), side.rc(), bytes);
        let too_long = |result: Result<_, ConnectError>, len, limit| match result.map(drop).unwrap_err() {
            ConnectError::PrivateData { is, max } => assert_eq!((is, max), (len, limit)),
            other => panic!("{other}"),
        };
        too_long(call(&[1; 57]).wait(PATIENCE).map(drop), 57, 56);
        let calling = call(&[1; 56]);
        let incoming = next(&listener);
        assert_eq!(incoming.private_data(), [1; 56]);
        too_long(incoming.accept(side.rc(), &[2; 197]).wait(PATIENCE).map(drop), 197, 196);
        assert_eq!(refusal(calling.wait(PATIENCE)).0, Refusal::PROGRAM);
        let calling = call(b"");
        too_long(next(&listener).reject(&[3; 149]), 149, 148);
        assert_eq!(refusal(calling.wait(PATIENCE)).0, Refusal::PROGRAM);
        let calling = call(b"");
        let _server = next(&listener).accept(side.rc(), &[2; 196]).wait(PATIENCE).unwrap();
        assert_eq!(calling.wait(PATIENCE).unwrap().private_data(), [2; 196]);
    });
}

#[test]
fn a_port_is_in_use_until_its_listener_goes() {
    with_hub("a_port_is_in_use_until_its_listener_goes", || {
        let listener = Listener::bind("0.0.0.0:7471").wait(PATIENCE).unwrap();
        for ip in [Ipv4Addr::UNSPECIFIED, here()] {
            let error = Listener::bind((ip, 7471)).wait(PATIENCE).unwrap_err();
            assert!(matches!(error, ConnectError::PortInUse(taken) if taken.port() == 7471), "{error}");
        }
        if has(side().device.capabilities().uc, "ports of other services") {
            let others = (
                Listener::bind_uc("0.0.0.0:7471").wait(PATIENCE).unwrap(),
                Listener::bind_ud("0.0.0.0:7471").wait(PATIENCE).unwrap(),
            );
            assert_eq!((others.0.local_addr().port(), others.1.local_addr().port()), (7471, 7471));
        }
        drop(listener);
        assert_eq!(Listener::bind((here(), 7471)).wait(PATIENCE).unwrap().local_addr().port(), 7471);
    });
}

#[test]
fn addresses_without_a_device_and_without_a_way() {
    with_hub("addresses_without_a_device_and_without_a_way", || {
        let error = Listener::bind("203.0.113.1:0").wait(PATIENCE).unwrap_err();
        assert!(matches!(error, ConnectError::NoSuchAddress(_)), "{error}");
        let error = Endpoint::connect("203.0.113.1:7471", b"").wait(PATIENCE).unwrap_err();
        assert!(matches!(error, ConnectError::NoRoute { .. }), "{error}");
        let error = Route::to("no port").wait(PATIENCE).unwrap_err();
        assert!(matches!(error, ConnectError::Name(_)), "{error}");
    });
}

#[test]
fn a_dropped_attempt_is_given_up() {
    with_hub("a_dropped_attempt_is_given_up", || {
        let side = side();
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let nobody = listener.incoming().wait(A_WHILE).unwrap_err();
        assert!(matches!(nobody, ConnectError::TimedOut { .. }), "{nobody}");
        let call = |byte| longarm::connect(listener.local_addr(), side.rc(), &[byte]);

        let impatient = call(1).wait(A_WHILE).unwrap_err();
        assert!(matches!(impatient, ConnectError::TimedOut { .. }), "{impatient}");
        let calling = call(2);
        messages_have_arrived(&side);
        let incoming = next(&listener);
        let incoming = skip_those_who_left(&side, &listener, incoming);
        assert_eq!(incoming.private_data()[0], 2, "the first incoming has gone");
        drop(calling);
        messages_have_arrived(&side);
        cannot_be_accepted(&side, incoming);
        drop(call(3));
        messages_have_arrived(&side);
        match listener.incoming().wait(A_WHILE) {
            Err(_) => {}
            // Another thread calls the system's library: the request may leave after the call was dropped.
            Ok(incoming) if on_system() => cannot_be_accepted(&side, incoming),
            Ok(incoming) => panic!("{incoming:?} should have gone"),
        }
    });
}

fn cannot_be_accepted(side: &TestSide, incoming: Incoming) {
    match incoming.accept(side.rc(), b"").wait(PATIENCE) {
        Err(gone) => assert!(matches!(gone, ConnectError::Gone(_) | ConnectError::Refused { .. }), "{gone}"),
        // iWARP finds out by the bytes that it sends. On other devices of the system another thread withdraws the
        // request: the answer may come before.
        Ok(connection) if on_system() => {
            assert!(connection.disconnected().wait(PATIENCE));
        }
        Ok(connection) => panic!("{connection:?}"),
    }
}

/// A device of the system may also hand out the request of a caller who has left; it cannot be accepted.
fn skip_those_who_left(side: &TestSide, listener: &Listener, incoming: Incoming) -> Incoming {
    if !on_system() || incoming.private_data()[0] != 1 {
        return incoming;
    }
    cannot_be_accepted(side, incoming);
    next(listener)
}

/// Messages of the connection manager do not overtake each other on one host: one that was sent now is there.
fn messages_have_arrived(side: &TestSide) {
    let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
    let _calling = longarm::connect(listener.local_addr(), side.rc(), b"");
    next(&listener);
}

#[test]
fn a_listener_that_goes_refuses_those_who_wait() {
    with_hub("a_listener_that_goes_refuses_those_who_wait", || {
        let side = side();
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let (client, server) = pair(&listener, side.rc(), side.rc());
        let waiting: Vec<_> = (0..5).map(|_| longarm::connect(listener.local_addr(), side.rc(), b"")).collect();
        drop(listener);
        for calling in waiting {
            assert!([Refusal::NO_LISTENER, Refusal::PROGRAM].contains(&refusal(calling.wait(PATIENCE)).0));
        }
        let message = server.recv(side.empty(8)).start();
        client.send_inline(b"still").wait(PATIENCE).unwrap();
        assert_eq!(&message.wait(PATIENCE).unwrap()[..], b"still");
    });
}

#[test]
fn many_connect_at_once() {
    with_hub("many_connect_at_once", || {
        let side = side();
        // iWARP gives an attempt up after ten seconds, and these are accepted only when all have called.
        let clients = if side.device.capabilities().by_address_only { 20 } else { 200 };
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let small = || side.rc().send_depth(4).recv_depth(4);
        let calling: Vec<_> = (0..clients)
            .map(|number| longarm::connect(listener.local_addr(), small(), &(number as u64).to_be_bytes()))
            .collect();
        let accepting: Vec<_> = (0..clients)
            .map(|_| {
                let incoming = next(&listener);
                let number = incoming.private_data()[..8].to_vec();
                incoming.accept(small(), &number)
            })
            .collect();
        let servers: Vec<_> = accepting.into_iter().map(|a| a.wait(PATIENCE).unwrap()).collect();
        let clients: Vec<_> = calling.into_iter().map(|c| c.wait(PATIENCE).unwrap()).collect();
        for (number, client) in clients.iter().enumerate() {
            assert_eq!(client.private_data()[..8], (number as u64).to_be_bytes());
            let server = servers.iter().find(|server| server.peer_addr() == client.local_addr()).unwrap();
            let message = server.recv(side.empty(8)).start();
            client.send_inline(&number.to_be_bytes()).wait(PATIENCE).unwrap();
            assert_eq!(message.wait(PATIENCE).unwrap()[..], number.to_be_bytes());
        }
        let ends: Vec<_> = servers.iter().map(Connection::disconnected).collect();
        drop(clients);
        assert!(ends.into_iter().all(|end| end.wait(PATIENCE)));
    });
}

#[test]
fn ipv6_and_its_wildcard() {
    with_hub("ipv6_and_its_wildcard", || {
        let side = side();
        let listener = Listener::bind("[::]:0").wait(PATIENCE).unwrap();
        let port = listener.local_addr().port();
        let addresses: [SocketAddr; 2] = [(here_v6(), port).into(), (here(), port).into()];
        let has_both = has(!side.device.capabilities().by_address_only, "IPv4 at the wildcard address of IPv6");
        for address in addresses.into_iter().take(if has_both { 2 } else { 1 }) {
            let calling = longarm::connect(address, side.rc(), b"");
            let incoming = next(&listener);
            assert_eq!(incoming.peer_addr().ip(), address.ip());
            let server = incoming.accept(side.rc(), b"").wait(PATIENCE).unwrap();
            let client = calling.wait(PATIENCE).unwrap();
            assert_eq!(client.peer().gid().ip(), address.ip());
            let message = server.recv(side.empty(8)).start();
            client.send_inline(b"hello").wait(PATIENCE).unwrap();
            assert_eq!(&message.wait(PATIENCE).unwrap()[..], b"hello");
        }
    });
}

#[test]
fn an_unreliable_connection() {
    with_hub("an_unreliable_connection", || {
        let side = side();
        if !has(side.device.capabilities().uc, UNRELIABLE) {
            let error = Listener::bind_uc(any_port()).wait(PATIENCE).unwrap_err().to_string();
            return assert!(error.contains("reliable connections only"), "{error}");
        }
        let listener = Listener::bind_uc(any_port()).wait(PATIENCE).unwrap();
        let calling = longarm::connect(listener.local_addr(), side.uc(), b"");
        let incoming = listener.incoming().wait(PATIENCE).unwrap();
        let endpoint = incoming.endpoint().unwrap();
        let message = endpoint.recv(endpoint.allocate(8).unwrap()).start();
        let server = incoming.accept(endpoint, b"").wait(PATIENCE).unwrap();
        let client = calling.wait(PATIENCE).unwrap();
        client.send_inline(b"perhaps").wait(PATIENCE).unwrap();
        assert_eq!(&message.wait(PATIENCE).unwrap()[..], b"perhaps");
        drop(client);
        assert!(server.disconnected().wait(PATIENCE));
    });
}

#[test]
fn datagrams_find_their_way() {
    with_hub("datagrams_find_their_way", || {
        if !has(side().device.capabilities().ud, DATAGRAMS) {
            let error = Listener::bind_ud(any_port()).wait(PATIENCE).unwrap_err().to_string();
            return assert!(error.contains("reliable connections only"), "{error}");
        }
        let listener = Listener::bind_ud(any_port()).wait(PATIENCE).unwrap();
        let route = Route::to(listener.local_addr()).wait(PATIENCE).unwrap();
        let (asker, server) = (route.ud().unwrap(), route.ud().unwrap());
        let message = server.recv(server.allocate(64).unwrap()).start();
        let asking = asker.look_up(listener.local_addr(), b"who?");
        let incoming = listener.incoming().wait(PATIENCE).unwrap();
        assert_eq!((&incoming.private_data()[..5], incoming.private_data().len()), (&b"who?\0"[..], 180));
        incoming.answer(&server, b"me").unwrap();
        let found = asking.wait(PATIENCE).unwrap();
        assert_eq!((found.address.qpn(), found.address.gid()), (server.qpn(), server.address_handle().gid()));
        assert_eq!((&found.private_data[..3], found.private_data.len()), (&b"me\0"[..], 136));
        asker.send_inline_to(b"hello", &found.address).wait(PATIENCE).unwrap();
        let message = message.wait(PATIENCE).unwrap();
        assert_eq!((&message[..], message.source()), (&b"hello"[..], Some(&asker.address_handle())));

        let asking = asker.look_up(listener.local_addr(), b"");
        listener.incoming().wait(PATIENCE).unwrap().reject(b"no").unwrap();
        let (reason, why) = refusal(asking.wait(PATIENCE));
        assert_eq!((reason, &why[..2]), (Refusal::PROGRAM, &b"no"[..]));
        let nobody = listener.local_addr();
        drop(listener);
        assert_eq!(refusal(asker.look_up(nobody, b"").wait(PATIENCE)).0, Refusal::NO_LISTENER);
    });
}

/// Runs `body` on a host with two devices: loop-back and Ethernet.
fn on_a_host(body: impl FnOnce(&udp::testing::NetHost, &udp::testing::NetHost) + Send) {
    if !has(!on_hardware(), "a second interface, and a host there") {
        return;
    }
    let (left, right) = udp::testing::hosts(1500);
    left.run(|| body(&left, &right));
}

#[test]
fn the_addresses_decide_on_the_device() {
    with_hub("the_addresses_decide_on_the_device", || {
        on_a_host(|host, _| {
            let ethernet = TestSide::new(Device::open_named("veth0").unwrap());
            let listener = Listener::bind("0.0.0.0:0").wait(PATIENCE).unwrap();
            let port = listener.local_addr().port();
            for ip in [Ipv4Addr::LOCALHOST, host.v4] {
                let route = Route::to((ip, port)).wait(PATIENCE).unwrap();
                assert_eq!(route.local_ip(), ip);
                if on_system() && ip.is_loopback() {
                    // Devices of the system share no domains.
                    let failed = longarm::connect(&route, ethernet.rc(), b"").wait(PATIENCE).unwrap_err();
                    assert!(failed.to_string().contains("belongs to another device"), "{failed}");
                    continue;
                }
                // Builders follow the addresses, with the domain of one device.
                let calling = longarm::connect(&route, ethernet.rc(), b"");
                let incoming = next(&listener);
                assert_eq!(incoming.device_name(), route.device_name());
                let server = incoming.accept(ethernet.rc(), b"").wait(PATIENCE).unwrap();
                let client = calling.wait(PATIENCE).unwrap();
                let message = server.recv(ethernet.empty(1 << 16)).start();
                client.send(ethernet.buffer(&pattern(1 << 16))).wait(PATIENCE).unwrap();
                assert!(message.wait(PATIENCE).unwrap()[..] == pattern(1 << 16));
            }
            // Queue pairs stay where they are.
            let loop_back = Route::to((Ipv4Addr::LOCALHOST, port)).wait(PATIENCE).unwrap();
            let failed = longarm::connect(&loop_back, ethernet.rc().build().unwrap(), b"").wait(PATIENCE).unwrap_err();
            assert!(matches!(&failed, ConnectError::OtherDevice { needed, .. } if needed == loop_back.device_name()));
            let caller = TestSide::new(Device::open_named(loop_back.device_name()).unwrap());
            let calling = longarm::connect(&loop_back, caller.rc(), b"");
            let failed = next(&listener).accept(ethernet.rc().build().unwrap(), b"").wait(PATIENCE).unwrap_err();
            assert!(matches!(failed, ConnectError::OtherDevice { .. }), "{failed}");
            assert_eq!(refusal(calling.wait(PATIENCE)).0, Refusal::PROGRAM);
        })
    });
}

#[test]
fn two_hosts() {
    let body = || {
        on_a_host(|left, right| {
            for ip in [std::net::IpAddr::from(left.v4), left.v6.into()] {
                let listener = Listener::bind((ip, 0)).wait(PATIENCE).unwrap();
                let mut peer = right.run(|| start_peer("two_hosts", &listener.local_addr().to_string()));
                let incoming = next(&listener);
                assert_eq!(incoming.peer_addr().is_ipv4(), ip.is_ipv4());
                let endpoint = incoming.endpoint().unwrap();
                let message = endpoint.recv(endpoint.allocate(100_000).unwrap()).start();
                let server = incoming.accept(endpoint, b"").wait(PATIENCE).unwrap();
                assert_eq!(server.peer().mtu(), Mtu::B1024, "what fits an Ethernet packet");
                assert!(message.wait(PATIENCE).unwrap()[..] == pattern(100_000));
                assert!(server.disconnected().wait(PATIENCE));
                assert!(peer.wait().unwrap().success());
            }
        })
    };
    with_hub_and_peer("two_hosts", body, |address| {
        let client = Endpoint::connect(address, b"").wait(PATIENCE).unwrap();
        let buffer = client.allocate(100_000).unwrap().with(&pattern(100_000));
        client.send(buffer).wait(PATIENCE).unwrap();
    });
}

#[test]
fn futures_on_executors() {
    with_hub("futures_on_executors", || {
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let address = listener.local_addr();
        let serve = async {
            let incoming = listener.incoming().await.unwrap();
            let endpoint = incoming.endpoint().unwrap();
            let server = incoming.accept(endpoint, b"hi").await.unwrap();
            server.disconnected().await;
            assert!(!server.is_connected());
        };
        let call = async {
            let client = Endpoint::connect(address, b"").await.unwrap();
            assert!(client.private_data().starts_with(b"hi"));
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::join!(serve, call) });
        // One that gives up waiting loses no request.
        let side = side();
        let given_up = runtime.block_on(async { tokio::time::timeout(A_WHILE, listener.incoming()).await.is_err() });
        assert!(given_up);
        let calling = longarm::connect(address, side.rc(), b"");
        let server = pollster::block_on(async { listener.incoming().await.unwrap().accept(side.rc(), b"").await });
        assert_eq!(server.unwrap().peer_addr(), pollster::block_on(calling).unwrap().local_addr());
    });
}

#[test]
fn the_smaller_mtu_and_read_depth_are_agreed() {
    with_hub("the_smaller_mtu_and_read_depth_are_agreed", || {
        let side = side();
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let (client, server) = pair(&listener, side.rc().mtu(Mtu::B512).read_depth(3), side.rc());
        if has(!side.device.capabilities().by_address_only, "an MTU and a read depth that both ends agree on") {
            assert_eq!((client.peer().mtu(), server.peer().mtu()), (Mtu::B512, Mtu::B512));
            assert_eq!((client.peer().read_depth(), server.peer().read_depth()), (3, 3));
        }
        let region = side.domain.expose(8192, ALL).unwrap();
        let reads: Vec<_> = (0..8).map(|_| server.read(side.empty(8192), &region.key()).start()).collect();
        assert!(reads.into_iter().all(|read| read.wait(PATIENCE).unwrap().len() == 8192));
    });
}
