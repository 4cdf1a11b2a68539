//! Connections that are accepted as they come, and streams.

mod common;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::*;
use futures_util::{FutureExt, StreamExt};
use longarm::service::Uc;
use longarm::{Connection, Device, Endpoint, Listener};
use testkit::PATIENCE;

const CLIENTS: usize = 16;

/// Clients that each send one message with their number, and wait for the end.
fn clients(address: std::net::SocketAddr) -> Vec<thread::JoinHandle<()>> {
    let client = move |number: usize| {
        let endpoint = Endpoint::connect(address, b"").wait(PATIENCE).unwrap();
        endpoint.send_inline(&[number as u8]).wait(PATIENCE).unwrap();
        assert!(endpoint.disconnected().wait(PATIENCE));
    };
    (0..CLIENTS).map(|number| thread::spawn(move || client(number))).collect()
}

/// Whether a message that comes before its receive buffer waits for it. iWARP ends the connection instead.
fn messages_wait() -> bool {
    has(!Device::open().unwrap().capabilities().by_address_only, "messages that wait for a receive buffer")
}

fn number(endpoint: &Endpoint<Connection>) -> u8 {
    endpoint.recv(endpoint.allocate(64).unwrap()).wait(PATIENCE).unwrap()[0]
}

fn each_has_sent_its_number(accepted: &[Endpoint<Connection>]) {
    let mut numbers: Vec<_> = accepted.iter().map(number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..CLIENTS as u8));
}

fn all_end(clients: Vec<thread::JoinHandle<()>>) {
    clients.into_iter().for_each(|client| client.join().unwrap());
}

#[test]
fn connections_are_accepted_as_they_come() {
    with_hub("connections_are_accepted_as_they_come", || {
        if !messages_wait() {
            return;
        }
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let clients = clients(listener.local_addr());
        let accepted: Vec<_> = (0..CLIENTS).map(|_| listener.accept().wait(PATIENCE).unwrap()).collect();
        each_has_sent_its_number(&accepted);
        assert!(listener.accept().wait(Duration::from_millis(50)).is_err(), "nobody else came");
        drop(accepted);
        all_end(clients);
    });
}

#[test]
fn a_dropped_accept_loses_no_connection() {
    with_hub("a_dropped_accept_loses_no_connection", || {
        if !messages_wait() {
            return;
        }
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let clients = clients(listener.local_addr());
        let mut accepted = Vec::new();
        testkit::wait_until("all have connected", || {
            // Each future is polled once: it begins handshakes and is dropped in the middle of them.
            accepted.extend(listener.accept().now_or_never().map(Result::unwrap));
            accepted.len() == CLIENTS
        });
        each_has_sent_its_number(&accepted);
        drop(accepted);
        all_end(clients);
    });
}

#[test]
fn two_tasks_share_a_listener_though_one_gives_up() {
    with_hub("two_tasks_share_a_listener_though_one_gives_up", || {
        if !messages_wait() {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let clients = clients(listener.local_addr());
        let accepted = Arc::new(Mutex::new(Vec::new()));
        let accept_all = async |patience: Duration| {
            while accepted.lock().unwrap().len() < CLIENTS {
                if let Ok(connection) = tokio::time::timeout(patience, listener.accept()).await {
                    accepted.lock().unwrap().push(connection.unwrap());
                }
            }
        };
        runtime.block_on(async {
            let both =
                async { tokio::join!(accept_all(Duration::from_secs(1)), accept_all(Duration::from_micros(200))) };
            tokio::time::timeout(PATIENCE, both).await.expect("all are accepted");
        });
        let accepted = std::mem::take(&mut *accepted.lock().unwrap());
        each_has_sent_its_number(&accepted);
        drop(accepted);
        all_end(clients);
    });
}

#[test]
fn unreliable_connections_are_accepted_too() {
    with_hub("unreliable_connections_are_accepted_too", || {
        let side = TestSide::new(Device::open().unwrap());
        if !has(side.device.capabilities().uc, "unreliable connections") {
            return;
        }
        let listener = Listener::bind_uc(any_port()).wait(PATIENCE).unwrap();
        let calling = longarm::connect(listener.local_addr(), side.uc(), b"");
        let server: Endpoint<Connection<Uc>> = listener.accept().wait(PATIENCE).unwrap();
        let client = calling.wait(PATIENCE).unwrap();
        assert_eq!(client.peer_addr(), server.local_addr());
    });
}

#[test]
fn requests_are_a_stream() {
    with_hub("requests_are_a_stream", || {
        let listener = Listener::bind(any_port()).wait(PATIENCE).unwrap();
        let side = TestSide::new(Device::open().unwrap());
        let calls: Vec<_> =
            (0..3u8).map(|number| longarm::connect(listener.local_addr(), side.rc(), &[number])).collect();
        let requests = listener.incoming_stream().take(3).map(|incoming| incoming.unwrap());
        let mut requests: Vec<_> = pollster::block_on(requests.collect());
        requests.sort_by_key(|incoming| incoming.private_data()[0]);
        let firsts: Vec<_> = requests.iter().map(|incoming| incoming.private_data()[0]).collect();
        assert_eq!(firsts, [0, 1, 2]);
        let servers: Vec<_> =
            requests.into_iter().map(|incoming| incoming.accept(side.rc(), b"").wait(PATIENCE).unwrap()).collect();
        for call in calls {
            call.wait(PATIENCE).unwrap();
        }
        drop(servers);
    });
}

#[test]
fn completions_are_a_stream() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let posted: Vec<_> = (0..10).map(|_| right.recv(b.empty(64)).post().unwrap()).collect();
            let sender = thread::spawn(move || {
                for number in 0..10u8 {
                    left.send_inline(&[number]).wait(PATIENCE).unwrap();
                }
                left
            });
            let done = b.cq.completions().take(10).map(|completion| completion.unwrap());
            let done: Vec<_> = pollster::block_on(done.collect());
            let tickets: Vec<_> = done.iter().map(|completion| completion.ticket()).collect();
            assert_eq!(tickets, posted);
            let numbers = done.into_iter().map(|completion| completion.into_message().unwrap()[0]);
            assert!(numbers.eq(0..10));
            drop(sender.join().unwrap());
        })
    })
}
