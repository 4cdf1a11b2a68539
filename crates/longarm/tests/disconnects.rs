//! The end of connections.

mod common;

use std::net::SocketAddr;

use common::*;
use longarm::service::Rc;
use longarm::{Connection, Device, Endpoint, Listener, QpState, Route, Status};
use testkit::{PATIENCE, wait_until};

fn pair(side: &TestSide) -> (Connection, Connection) {
    let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
    let calling = longarm::connect(listener.local_addr(), side.rc(), b"");
    let server = listener.incoming().wait(PATIENCE).unwrap().accept(side.rc(), b"").wait(PATIENCE).unwrap();
    (calling.wait(PATIENCE).unwrap(), server)
}

#[test]
fn dropping_one_end_ends_the_other() {
    with_hub("dropping_one_end_ends_the_other", || {
        let side = TestSide::new(Device::open().unwrap());
        for client_first in [true, false] {
            let (client, server) = pair(&side);
            let (goes, stays) = if client_first { (client, server) } else { (server, client) };
            let message = stays.recv(side.empty(8)).start();
            let end = stays.disconnected();
            drop(goes);
            assert!(end.wait(PATIENCE));
            let failure = message.wait(PATIENCE).unwrap_err();
            assert_eq!(failure.status(), Some(Status::WorkRequestFlushed));
            assert!(failure.to_string().contains("its connection ended"), "{failure}");
            assert!(!stays.is_connected());
            assert_eq!(stays.state(), QpState::Error);
        }
    });
}

#[test]
fn either_end_can_hang_up_and_both_at_once() {
    with_hub("either_end_can_hang_up_and_both_at_once", || {
        let side = TestSide::new(Device::open().unwrap());
        let (client, server) = pair(&side);
        client.disconnect();
        assert_eq!(client.state(), QpState::Error);
        assert!(client.disconnected().wait(PATIENCE) && server.disconnected().wait(PATIENCE));
        client.disconnect();

        let (client, server) = pair(&side);
        client.disconnect();
        server.disconnect();
        assert!(client.disconnected().wait(PATIENCE) && server.disconnected().wait(PATIENCE));
    });
}

#[test]
fn messages_sent_before_the_end_arrive() {
    with_hub("messages_sent_before_the_end_arrive", || {
        let side = TestSide::new(Device::open().unwrap());
        for _ in 0..20 {
            let (client, server) = pair(&side);
            let messages: Vec<_> = (0..32).map(|_| server.recv(side.empty(8)).start()).collect();
            let sent: Vec<_> = (0..32u8).map(|byte| client.send_inline(&[byte]).start()).collect();
            for sent in sent {
                sent.wait(PATIENCE).unwrap();
            }
            drop(client);
            assert!(server.disconnected().wait(PATIENCE));
            for (byte, message) in (0..32u8).zip(messages) {
                assert_eq!(message.wait(PATIENCE).unwrap()[..], [byte]);
            }
        }
    });
}

#[test]
fn a_connection_that_nobody_took_is_over_too() {
    with_hub("a_connection_that_nobody_took_is_over_too", || {
        let side = TestSide::new(Device::open().unwrap());
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let calling = longarm::connect(listener.local_addr(), side.rc(), b"");
        let server = listener.incoming().wait(PATIENCE).unwrap().accept(side.rc(), b"").wait(PATIENCE).unwrap();
        drop(calling);
        assert!(server.disconnected().wait(PATIENCE));
    });
}

/// Connects, sends a message, and then only waits to be killed.
fn wait_for_death(address: &str) {
    let endpoint = Endpoint::connect(address, b"").wait(PATIENCE).unwrap();
    endpoint.send_inline(b"last words").wait(PATIENCE).unwrap();
    endpoint.disconnected().wait(PATIENCE);
}

#[test]
fn a_peer_that_is_killed_is_missed() {
    let test = "a_peer_that_is_killed_is_missed";
    let body = || {
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let mut peer = start_peer(test, &listener.local_addr().to_string());
        let incoming = listener.incoming().wait(PATIENCE).unwrap();
        let endpoint = incoming.endpoint().unwrap();
        let messages = [(); 2].map(|()| endpoint.recv(endpoint.allocate(16).unwrap()).start());
        let server = incoming.accept(endpoint, b"").wait(PATIENCE).unwrap();
        let [first, second] = messages;
        assert_eq!(&first.wait(PATIENCE).unwrap()[..], b"last words");
        peer.kill().unwrap();
        peer.wait().unwrap();
        assert!(server.disconnected().wait(PATIENCE));
        assert_eq!(second.wait(PATIENCE).unwrap_err().status(), Some(Status::WorkRequestFlushed));
    };
    with_hub_and_peer(test, body, wait_for_death);
}

#[test]
fn a_peer_that_is_killed_before_an_answer_is_missed_too() {
    let test = "a_peer_that_is_killed_before_an_answer_is_missed_too";
    let body = || {
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let mut peer = start_peer(test, &listener.local_addr().to_string());
        let incoming = listener.incoming().wait(PATIENCE).unwrap();
        peer.kill().unwrap();
        peer.wait().unwrap();
        let endpoint = incoming.endpoint().unwrap();
        incoming.accept(endpoint, b"").wait(PATIENCE).unwrap_err();
    };
    with_hub_and_peer(test, body, wait_for_death);
}

/// Listens, says where, accepts, and waits to be killed.
fn serve_until_death(place: &str) {
    let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
    std::fs::write(format!("{place}.new"), listener.local_addr().to_string()).unwrap();
    std::fs::rename(format!("{place}.new"), place).unwrap();
    let incoming = listener.incoming().wait(PATIENCE).unwrap();
    let endpoint = incoming.endpoint().unwrap();
    let server = incoming.accept(endpoint, b"").wait(PATIENCE).unwrap();
    server.disconnected().wait(PATIENCE);
}

#[test]
fn a_killed_listener_frees_its_port_and_ends_its_connections() {
    let test = "a_killed_listener_frees_its_port_and_ends_its_connections";
    let body = || {
        let place = std::env::temp_dir().join(format!("{test}-{}", std::process::id()));
        let mut peer = start_peer(test, place.to_str().unwrap());
        wait_until("the listener is there", || place.exists());
        let address: SocketAddr = std::fs::read_to_string(&place).unwrap().parse().unwrap();
        std::fs::remove_file(&place).unwrap();
        let route = Route::to(address).wait(PATIENCE).unwrap();
        let client = longarm::connect(&route, route.rc().unwrap(), b"").wait(PATIENCE).unwrap();
        assert!(Listener::bind(address).wait(PATIENCE).is_err(), "the port is in use by another process");
        peer.kill().unwrap();
        peer.wait().unwrap();
        assert!(client.disconnected().wait(PATIENCE));
        wait_until("the port is free", || Listener::bind(address).wait(PATIENCE).is_ok());
    };
    with_hub_and_peer(test, body, serve_until_death);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn many_connections_leave_nothing_behind() {
    with_hub("many_connections_leave_nothing_behind", || {
        let side = TestSide::new(Device::open().unwrap());
        drop(pair(&side));
        let before = descriptors();
        for _ in 0..300 {
            drop(pair(&side));
        }
        // Values dropped on the other thread are destroyed a moment later.
        wait_until("the descriptors are closed", || descriptors() <= before);
    });
}

#[test]
fn everything_can_go_to_other_threads() {
    fn check<T: Send + Sync + Unpin>() {}
    check::<Listener>();
    check::<longarm::Accept<'static, Rc>>();
    check::<longarm::NextIncoming<'static, Rc>>();
    check::<longarm::IncomingStream<'static, Rc>>();
    check::<longarm::FindRoute>();
    check::<longarm::Completions<'static>>();
    check::<longarm::Endpoint<Connection>>();
    check::<longarm::ScopedRegion>();
    check::<longarm::Incoming>();
    check::<longarm::Connecting<longarm::QpBuilder>>();
    check::<Connection>();
    check::<longarm::Disconnected>();
    check::<longarm::Lookup>();
    check::<Route>();
}
