//! Connections with a real hub: both ends in one process, or one in a process that is killed.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;

use connect::{CONSUMER_DEFINED, Error, EventKind, EventQueue, Id, Param, PortSpace};
use rustix::process::{Pid, Signal, kill_process};
use support::{expect, fresh_qpn, hub_dir, listen, next, param, resolved, with_hub};
use testkit::{role, run_again, wait_until};
use transport::{AttrMask, Mtu, QpState, QpType};
use wire::{QKey, Qpn};

fn private_data(param: &Param) -> &[u8] {
    match param {
        Param::Conn(conn) => &conn.private_data,
        Param::Datagram(datagram) => &datagram.private_data,
        other => panic!("no private data in {other:?}"),
    }
}

/// Makes a connection; returns the active and the passive end.
fn connected(server: &EventQueue, client: &EventQueue, address: SocketAddr) -> (Id, Id) {
    let active = resolved(client, PortSpace::Tcp, address);
    active.connect(&param(fresh_qpn(), b"hello")).unwrap();
    let request = expect(server, EventKind::ConnectRequest);
    request.id.accept(&param(fresh_qpn(), b"welcome")).unwrap();
    expect(client, EventKind::ConnectResponse);
    active.establish().unwrap();
    expect(server, EventKind::Established);
    (active, request.id)
}

#[test]
fn a_connection_begins_and_ends() {
    with_hub("a_connection_begins_and_ends", || {
        for (address, from, to) in [("127.0.0.1:0", 0x111, 0x222), ("[::1]:0", 0x333, 0x444)] {
            let (server, client) = (EventQueue::new().unwrap(), EventQueue::new().unwrap());
            let (listener, address) = listen(&server, address);
            let active = resolved(&client, PortSpace::Tcp, address);
            assert_eq!(active.binding().unwrap().device, "la_lo");
            active.connect(&param(from, b"hello")).unwrap();

            let request = expect(&server, EventKind::ConnectRequest);
            assert_eq!(request.listener.unwrap().key(), listener.key());
            assert_eq!(&private_data(&request.param)[..6], b"hello\0");
            let Param::Conn(asked) = &request.param else { panic!("{:?}", request.param) };
            let numbers = (asked.qpn, asked.responder_resources, asked.initiator_depth);
            assert_eq!(numbers, (Qpn::new(from), 4, 3), "what one takes the other sends");
            let passive = request.id;
            assert_eq!((passive.local_addr(), passive.peer_addr()), (active.peer_addr(), active.local_addr()));
            passive.accept(&param(to, b"welcome")).unwrap();

            let response = expect(&client, EventKind::ConnectResponse);
            assert_eq!(&private_data(&response.param)[..8], b"welcome\0");
            check_attributes((&active, from), (&passive, to));
            active.establish().unwrap();
            expect(&server, EventKind::Established);

            active.disconnect().unwrap();
            assert_eq!(expect(&server, EventKind::Disconnected).id.key(), passive.key());
            expect(&client, EventKind::Disconnected);
        }
    });
}

/// Checks that each end gets the other's numbers.
fn check_attributes((active, from): (&Id, u32), (passive, to): (&Id, u32)) {
    let (init, mask) = active.qp_attr(QpState::Init).unwrap();
    assert!(mask.contains(AttrMask::PORT | AttrMask::ACCESS_FLAGS) && init.port == 1);
    let (a, _) = active.qp_attr(QpState::Rtr).unwrap();
    let (p, _) = passive.qp_attr(QpState::Rtr).unwrap();
    assert_eq!((a.dest_qpn, p.dest_qpn), (Qpn::new(to), Qpn::new(from)));
    assert_eq!((a.path_mtu, p.path_mtu), (Mtu::B4096, Mtu::B4096));
    assert_eq!((a.address.source, a.address.destination), (p.address.destination, p.address.source));
    let (a2, _) = active.qp_attr(QpState::Rts).unwrap();
    let (p2, _) = passive.qp_attr(QpState::Rts).unwrap();
    assert_eq!((a.rq_psn, p.rq_psn), (p2.sq_psn, a2.sq_psn));
    assert_eq!((a2.retry_count, p2.retry_count, a2.rnr_retry, p2.rnr_retry), (5, 5, 6, 6));
    assert_eq!((a2.max_rd_atomic, p.max_dest_rd_atomic), (3, 3));
    assert_eq!((a2.timeout, p2.timeout), (19, 19));
}

#[test]
fn a_request_is_refused() {
    with_hub("a_request_is_refused", || {
        let (server, client) = (EventQueue::new().unwrap(), EventQueue::new().unwrap());
        let (listener, address) = listen(&server, "127.0.0.1:0");

        let active = resolved(&client, PortSpace::Tcp, address);
        active.connect(&param(fresh_qpn(), b"")).unwrap();
        expect(&server, EventKind::ConnectRequest).id.reject(b"not today", CONSUMER_DEFINED).unwrap();
        let rejected = expect(&client, EventKind::Rejected);
        assert_eq!((rejected.status, &private_data(&rejected.param)[..9]), (28, &b"not today"[..]));

        // Dropping the event is a refusal, too.
        let active = resolved(&client, PortSpace::Tcp, address);
        active.connect(&param(fresh_qpn(), b"")).unwrap();
        drop(expect(&server, EventKind::ConnectRequest));
        expect(&client, EventKind::Rejected);

        // A listener that is dropped with unfetched requests refuses them.
        let active = resolved(&client, PortSpace::Tcp, address);
        active.connect(&param(fresh_qpn(), b"")).unwrap();
        while !readable(&server) {
            std::thread::yield_now();
        }
        drop(listener);
        expect(&client, EventKind::Rejected);
        assert!(server.next().is_none());

        // Without a listener.
        let active = resolved(&client, PortSpace::Tcp, address);
        active.connect(&param(fresh_qpn(), b"")).unwrap();
        assert_eq!(expect(&client, EventKind::Rejected).status, 8);
    });
}

fn readable(queue: &EventQueue) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(queue.fd(), PollFlags::IN)], Some(&now)).unwrap() == 1
}

#[test]
fn a_backlog_is_not_exceeded() {
    with_hub("a_backlog_is_not_exceeded", || {
        let (server, client) = (EventQueue::new().unwrap(), EventQueue::new().unwrap());
        let listener = Id::new(&server, PortSpace::Tcp, QpType::Rc).unwrap();
        listener.listen(2).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
        let active: Vec<Id> = (0..3).map(|_| resolved(&client, PortSpace::Tcp, address)).collect();
        active.iter().for_each(|id| id.connect(&param(fresh_qpn(), b"")).unwrap());
        let rejected = expect(&client, EventKind::Rejected);
        assert_eq!((rejected.id.key(), rejected.status), (active[2].key(), 28));
        // Fetching a request makes room.
        let _kept = expect(&server, EventKind::ConnectRequest);
        let another = resolved(&client, PortSpace::Tcp, address);
        another.connect(&param(fresh_qpn(), b"")).unwrap();
        expect(&server, EventKind::ConnectRequest);
        expect(&server, EventKind::ConnectRequest);
    });
}

#[test]
fn datagrams_find_their_queue_pair() {
    with_hub("datagrams_find_their_queue_pair", || {
        let (server, client) = (EventQueue::new().unwrap(), EventQueue::new().unwrap());
        let listener = Id::new(&server, PortSpace::Udp, QpType::Ud).unwrap();
        listener.bind("0.0.0.0:7174".parse().unwrap()).unwrap();
        listener.listen(0).unwrap();
        // The same number in another space is another port.
        let (_other, _) = listen(&server, "0.0.0.0:7174");

        let asking = resolved(&client, PortSpace::Udp, "127.0.0.1:7174".parse().unwrap());
        asking.connect(&param(0, b"who")).unwrap();
        let request = expect(&server, EventKind::ConnectRequest);
        assert_eq!((&private_data(&request.param)[..3], private_data(&request.param).len()), (&b"who"[..], 180));
        request.id.accept(&param(0x333, b"me")).unwrap();
        let found = expect(&client, EventKind::Established);
        let Param::Datagram(datagram) = &found.param else { panic!("{:?}", found.param) };
        assert_eq!((datagram.qpn, datagram.qkey), (Qpn::new(0x333), QKey(0x0123_4567)));
        assert_eq!((&datagram.private_data[..2], datagram.private_data.len()), (&b"me"[..], 136));

        let refused = resolved(&client, PortSpace::Udp, "127.0.0.1:7174".parse().unwrap());
        refused.connect(&param(0, b"")).unwrap();
        expect(&server, EventKind::ConnectRequest).id.reject(b"", CONSUMER_DEFINED).unwrap();
        assert_eq!(expect(&client, EventKind::Unreachable).status, 2);
    });
}

#[test]
fn calls_out_of_order_are_refused() {
    with_hub("calls_out_of_order_are_refused", || {
        let queue = EventQueue::new().unwrap();
        let id = Id::new(&queue, PortSpace::Tcp, QpType::Rc).unwrap();
        let state = |result: Result<(), Error>| assert!(matches!(result, Err(Error::State(_))), "{result:?}");
        state(id.resolve_route());
        state(id.connect(&param(fresh_qpn(), b"")));
        state(id.accept(&param(fresh_qpn(), b"")));
        state(id.disconnect());
        state(id.establish());
        id.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        state(id.bind("127.0.0.1:0".parse().unwrap()));
        let elsewhere = Id::new(&queue, PortSpace::Tcp, QpType::Rc).unwrap();
        assert!(matches!(elsewhere.bind("198.51.100.7:1".parse().unwrap()), Err(Error::NotAvailable(_))));
        assert!(matches!(elsewhere.bind(id.local_addr().unwrap()), Err(Error::InUse)));
        let too_much = resolved(&queue, PortSpace::Tcp, "127.0.0.1:9".parse().unwrap());
        let refused = too_much.connect(&param(fresh_qpn(), &[0; 57]));
        assert!(matches!(refused, Err(Error::PrivateData { asked: 57, max: 56 })), "{refused:?}");
        id.destroy();
        state(id.listen(0));
        assert_eq!(id.local_addr(), None);
    });
}

#[test]
fn the_peer_of_a_killed_process_is_disconnected() {
    const TEST: &str = "the_peer_of_a_killed_process_is_disconnected";
    if role().as_deref() == Some("peer") {
        return be_peer();
    }
    with_hub(TEST, || {
        let server = EventQueue::new().unwrap();
        let (_listener, address) = listen(&server, "127.0.0.1:0");
        let mut command = run_again(TEST, "peer");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{address}").unwrap();
        let request = expect(&server, EventKind::ConnectRequest);
        request.id.accept(&param(fresh_qpn(), b"")).unwrap();
        expect(&server, EventKind::Established);
        // A second request was sent.
        let waiting = expect(&server, EventKind::ConnectRequest);
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        while !said.next().unwrap().unwrap().contains("asked twice") {}
        child.kill().unwrap();
        child.wait().unwrap();
        let mut ended = [next(&server), next(&server)];
        ended.sort_by_key(|event| event.id.key());
        assert_eq!((ended[0].id.key(), ended[0].kind), (request.id.key(), EventKind::Disconnected));
        assert_eq!((ended[1].id.key(), ended[1].kind), (waiting.id.key(), EventKind::Rejected));
    });
}

/// Connects once, and leaves a second connection incomplete.
fn be_peer() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let address = line.trim().parse().unwrap();
    let queue = EventQueue::new().unwrap();
    let first = resolved(&queue, PortSpace::Tcp, address);
    first.connect(&param(fresh_qpn(), b"")).unwrap();
    expect(&queue, EventKind::ConnectResponse);
    first.establish().unwrap();
    let second = resolved(&queue, PortSpace::Tcp, address);
    second.connect(&param(fresh_qpn(), b"")).unwrap();
    println!("asked twice");
    next(&queue);
    unreachable!("nobody answers");
}

#[test]
fn connections_outlive_the_hub() {
    with_hub("connections_outlive_the_hub", || {
        let (server, client) = (EventQueue::new().unwrap(), EventQueue::new().unwrap());
        let (listener, address) = listen(&server, "127.0.0.1:0");
        let (active, passive) = connected(&server, &client, address);
        let hub = hub::client::status(Some(&hub_dir())).unwrap().pid;
        kill_process(Pid::from_raw(hub as i32).unwrap(), Signal::KILL).unwrap();
        // A new connection needs the port at the new hub.
        let another = connected(&server, &client, address);
        assert!(Id::new(&server, PortSpace::Tcp, QpType::Rc).unwrap().bind(address).is_err());
        passive.disconnect().unwrap();
        assert_eq!(expect(&client, EventKind::Disconnected).id.key(), active.key());
        drop((listener, another));
    });
}

#[test]
fn nothing_is_left_of_many_connections() {
    with_hub("nothing_is_left_of_many_connections", || {
        let (server, client) = (EventQueue::new().unwrap(), EventQueue::new().unwrap());
        let (listener, address) = listen(&server, "127.0.0.1:0");
        drop(connected(&server, &client, address));
        let before = descriptors();
        for _ in 0..500 {
            let (active, passive) = connected(&server, &client, address);
            active.disconnect().unwrap();
            expect(&server, EventKind::Disconnected);
            expect(&client, EventKind::Disconnected);
            drop((active, passive));
        }
        assert_eq!(descriptors(), before);
        let hold = listener.keep();
        drop(listener);
        let managers = || hub::client::status(Some(&hub_dir())).unwrap().managers;
        wait_until("all ports are closed", || (managers()[0].ports_total, managers()[0].closing_messages) == (0, 0));
        drop(hold);
        wait_until("the session ends", || managers().is_empty());
    });
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_host_without_rdma_is_told_from_a_missing_one() {
    with_hub("a_host_without_rdma_is_told_from_a_missing_one", || {
        let (here, bare) = udp::testing::hosts(1500);
        here.run(|| {
            let queue = EventQueue::new().unwrap();
            let nobody = IpAddr::from([192, 0, 2, 77]);
            for (address, status) in [
                (bare.v4.into(), -libc::ECONNREFUSED),
                (bare.v6.into(), -libc::ECONNREFUSED),
                (nobody, -libc::EHOSTUNREACH),
            ] {
                let id = resolved(&queue, PortSpace::Tcp, SocketAddr::new(address, 7174));
                id.connect(&param(fresh_qpn(), b"")).unwrap();
                let event = expect(&queue, EventKind::Unreachable);
                assert_eq!((event.id.key(), event.status), (id.key(), status), "{address}");
            }
            hub::client::shutdown(Some(&hub_dir()), true).unwrap();
        });
    });
}

/// The active end is dropped and its DREQ lost: only its timer can repeat it.
#[test]
fn a_lost_disconnect_of_a_dropped_id_is_repeated() {
    const TEST: &str = "a_lost_disconnect_of_a_dropped_id_is_repeated";
    if role().as_deref() == Some("lossy") {
        let (server, client) = (EventQueue::new().unwrap(), EventQueue::new().unwrap());
        let (_listener, address) = listen(&server, "127.0.0.1:0");
        let (active, _passive) = connected(&server, &client, address);
        drop(active);
        expect(&server, EventKind::Disconnected);
        return;
    }
    with_hub(TEST, || {
        // REQ, REP and RTU arrive, the DREQ behind them does not.
        let plan = (0..).map(|seed| faults::FaultPlan { seed, loss: 0.2, ..Default::default() }).find(|plan| {
            let injector = faults::Injector::new(*plan);
            (0..8).all(|message| injector.verdict(message).drop == (message == 3))
        });
        let plan = format!("seed={},loss=0.2", plan.unwrap().seed);
        let status = run_again(TEST, "lossy").env("LONGARM_FAULTS", plan).status().unwrap();
        assert!(status.success());
    });
}
