//! Ids of the connection manager, both ends in one process, on Longarm's own `libibverbs.so.1` and `librdmacm.so.1`.

#[path = "../../ibverbs/tests/support/mod.rs"]
mod support;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use connect::{ConnParam, Error, EventKind, Param, PortSpace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transport::{AttrMask, Mtu, QpState, QpType};
use verbs::cm::{Event, EventQueue, Id};
use wire::{QKey, Qpn};

const TIMEOUT: Duration = Duration::from_secs(20);
const LOOP_BACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
/// Set in the process that has the libraries.
const INSIDE: &str = "LONGARM_TEST_INSIDE";
/// Set in a process that connects: the address that its parent listens at.
const LISTENER: &str = "LONGARM_TEST_LISTENER";

/// Runs the test in a process of its own, which finds our libraries and has a network and a hub for itself.
fn on_our_libraries(test: &str, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let place = support::ProgramDir::new(&format!("cm-{test}"));
    let mut command = place.command(&std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let said = support::must_succeed(&mut command);
    assert!(said.contains("1 passed"), "{said}");
}

fn new_id(queue: &EventQueue, qp_type: QpType) -> Id {
    let space = match qp_type {
        QpType::Rc => PortSpace::Tcp,
        QpType::Ud => PortSpace::Udp,
        _ => PortSpace::Ib,
    };
    Id::new(queue, space, qp_type).unwrap()
}

fn listener(queue: &EventQueue, qp_type: QpType) -> (Id, SocketAddr) {
    let id = new_id(queue, qp_type);
    id.bind(SocketAddr::new(LOOP_BACK, 0)).unwrap();
    id.listen(0).unwrap();
    let address = id.local_addr().unwrap();
    assert_ne!(address.port(), 0);
    (id, address)
}

fn resolved(queue: &EventQueue, qp_type: QpType, to: SocketAddr) -> Id {
    let id = new_id(queue, qp_type);
    id.resolve_addr(None, to).unwrap();
    id.resolve_route().unwrap();
    assert_eq!(id.peer_addr(), Some(to));
    id
}

fn calling(queue: &EventQueue, to: SocketAddr) -> Id {
    let id = resolved(queue, QpType::Rc, to);
    id.connect(&param(b"hello", new_qpn())).unwrap();
    id
}

/// A number of a queue pair that no other connection has: the peer would take the older one for a stale connection.
fn new_qpn() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0x100);
    NEXT.fetch_add(1, Relaxed)
}

fn param(private_data: &[u8], qpn: u32) -> ConnParam {
    let qpn = Qpn::new(qpn);
    let private_data = private_data.to_vec();
    ConnParam { private_data, qpn, responder_resources: 3, initiator_depth: 2, retry_count: 7, ..ConnParam::default() }
}

fn poll_next(queue: &EventQueue, timeout: Duration) -> Option<Event> {
    let timeout = Timespec::try_from(timeout).unwrap();
    queue.next().or_else(|| {
        poll(&mut [PollFd::new(&queue.fd(), PollFlags::IN)], Some(&timeout)).unwrap();
        queue.next()
    })
}

fn next(queue: &EventQueue, kind: EventKind) -> Event {
    let event = poll_next(queue, TIMEOUT).unwrap_or_else(|| panic!("no event, but {kind:?} is due"));
    assert_eq!(event.kind, kind, "{event:?}");
    event
}

fn connection(event: &Event) -> &ConnParam {
    match &event.param {
        Param::Conn(param) => param,
        other => panic!("{other:?}"),
    }
}

/// A connection: the active id, the passive one.
fn connected(queue: &EventQueue, listener: SocketAddr) -> (Id, Id) {
    let active = calling(queue, listener);
    let passive = next(queue, EventKind::ConnectRequest).id;
    passive.accept(&param(b"welcome", new_qpn())).unwrap();
    next(queue, EventKind::ConnectResponse);
    active.establish().unwrap();
    assert_eq!(next(queue, EventKind::Established).id.key(), passive.key());
    (active, passive)
}

/// Connects to another process, which accepts.
fn connected_to(queue: &EventQueue, listener: SocketAddr) -> Id {
    let active = calling(queue, listener);
    next(queue, EventKind::ConnectResponse);
    active.establish().unwrap();
    active
}

#[test]
fn two_ids_connect_and_tell_each_other_their_queue_pairs() {
    on_our_libraries("two_ids_connect_and_tell_each_other_their_queue_pairs", || {
        let [ours, theirs] = [(); 2].map(|()| EventQueue::new().unwrap());
        let (listener, address) = listener(&theirs, QpType::Rc);
        let active = resolved(&ours, QpType::Rc, address);
        active.connect(&param(b"hello", 0x11)).unwrap();

        let request = next(&theirs, EventKind::ConnectRequest);
        assert_eq!(request.listener.as_ref().map(Id::key), Some(listener.key()));
        let asked = connection(&request);
        assert!(asked.private_data.starts_with(b"hello\0"));
        assert_eq!((asked.private_data.len(), asked.qpn), (56, Qpn::new(0x11)));
        assert_eq!((asked.responder_resources, asked.initiator_depth), (2, 3));
        let passive = request.id.clone();
        drop(request);
        assert_eq!((passive.local_addr(), passive.peer_addr()), (Some(address), active.local_addr()));
        assert_eq!(passive.qp_type(), QpType::Rc);
        passive.accept(&param(b"welcome", 0x22)).unwrap();

        let response = next(&ours, EventKind::ConnectResponse);
        assert_eq!(response.id.key(), active.key());
        assert!(connection(&response).private_data.starts_with(b"welcome\0"));
        assert_eq!(connection(&response).private_data.len(), 196);
        for (id, qpn) in [(&active, 0x22), (&passive, 0x11)] {
            let (attr, mask) = id.qp_attr(QpState::Rtr).unwrap();
            assert!(mask.contains(AttrMask::STATE | AttrMask::AV | AttrMask::DEST_QPN), "{mask:?}");
            assert_eq!((attr.state, attr.dest_qpn), (QpState::Rtr, Qpn::new(qpn)));
            let loop_back = wire::Gid::from(LOOP_BACK);
            assert_eq!((attr.address.source, attr.address.destination), (loop_back, loop_back));
            assert_eq!(id.qp_attr(QpState::Rts).unwrap().0.state, QpState::Rts);
        }
        active.establish().unwrap();
        assert_eq!(next(&theirs, EventKind::Established).id.key(), passive.key());

        active.disconnect().unwrap();
        assert_eq!(next(&theirs, EventKind::Disconnected).id.key(), passive.key());
        passive.disconnect().unwrap();
        assert_eq!(next(&ours, EventKind::Disconnected).id.key(), active.key());
    });
}

#[test]
fn an_id_knows_its_device() {
    on_our_libraries("an_id_knows_its_device", || {
        let queue = EventQueue::new().unwrap();
        let (listener, address) = listener(&queue, QpType::Rc);
        let active = calling(&queue, address);
        let request = next(&queue, EventKind::ConnectRequest);
        let bindings = [&listener, &active, &request.id].map(|id| id.binding().unwrap());
        assert_eq!(bindings[0].gid.ip(), LOOP_BACK);
        assert!(bindings[0].device.starts_with("la_"), "{}", bindings[0].device);
        assert!(bindings.iter().all(|binding| *binding == bindings[0]), "{bindings:?}");
        let wildcard = new_id(&queue, QpType::Rc);
        assert!(wildcard.binding().is_none() && wildcard.local_addr().is_none());
        wildcard.bind("0.0.0.0:0".parse().unwrap()).unwrap();
        assert!(wildcard.binding().is_none() && wildcard.local_addr().is_some());
    });
}

#[test]
fn a_request_asks_for_the_mtu_that_was_set() {
    on_our_libraries("a_request_asks_for_the_mtu_that_was_set", || {
        let queue = EventQueue::new().unwrap();
        let (_listener, address) = listener(&queue, QpType::Rc);
        let active = resolved(&queue, QpType::Rc, address);
        active.set_mtu(Mtu::B512).unwrap();
        assert_eq!((active.peer_addr(), active.local_addr().unwrap().ip()), (Some(address), LOOP_BACK));
        active.connect(&param(b"hello", 0x11)).unwrap();
        let passive = next(&queue, EventKind::ConnectRequest).id;
        assert_eq!(passive.peer_addr(), active.local_addr());
        passive.accept(&param(b"", 0x22)).unwrap();
        assert_eq!(next(&queue, EventKind::ConnectResponse).id.key(), active.key());
        for id in [&active, &passive] {
            assert_eq!(id.qp_attr(QpState::Rtr).unwrap().0.path_mtu, Mtu::B512);
        }
        active.establish().unwrap();
        assert_eq!(next(&queue, EventKind::Established).id.key(), passive.key());
        assert!(matches!(new_id(&queue, QpType::Rc).set_mtu(Mtu::B512), Err(Error::State(_))));
    });
}

#[test]
fn a_refusal_brings_private_data() {
    on_our_libraries("a_refusal_brings_private_data", || {
        let queue = EventQueue::new().unwrap();
        let (_listener, address) = listener(&queue, QpType::Rc);
        let active = calling(&queue, address);
        next(&queue, EventKind::ConnectRequest).id.reject(b"no", connect::CONSUMER_DEFINED).unwrap();
        let rejected = next(&queue, EventKind::Rejected);
        assert_eq!((rejected.id.key(), rejected.status), (active.key(), connect::CONSUMER_DEFINED.into()));
        let private_data = &connection(&rejected).private_data;
        assert_eq!((&private_data[..3], private_data.len()), (&b"no\0"[..], 148));

        let active = calling(&queue, address);
        let passive = next(&queue, EventKind::ConnectRequest).id;
        passive.accept(&param(b"welcome", 0x22)).unwrap();
        next(&queue, EventKind::ConnectResponse);
        active.reject(&[], connect::CONSUMER_DEFINED).unwrap();
        assert_eq!(next(&queue, EventKind::Rejected).id.key(), passive.key());
    });
}

#[test]
fn a_request_that_nobody_answers_is_refused() {
    on_our_libraries("a_request_that_nobody_answers_is_refused", || {
        let queue = EventQueue::new().unwrap();
        let (_listener, address) = listener(&queue, QpType::Rc);
        let active = calling(&queue, address);
        drop(next(&queue, EventKind::ConnectRequest));
        assert_eq!(next(&queue, EventKind::Rejected).id.key(), active.key());
    });
}

#[test]
fn nobody_listens() {
    on_our_libraries("nobody_listens", || {
        let queue = EventQueue::new().unwrap();
        let active = calling(&queue, SocketAddr::new(LOOP_BACK, 7471));
        let rejected = next(&queue, EventKind::Rejected);
        assert_eq!((rejected.id.key(), rejected.status), (active.key(), 8));
    });
}

#[test]
fn a_peer_that_disappears_ends_the_connection() {
    on_our_libraries("a_peer_that_disappears_ends_the_connection", || {
        let queue = EventQueue::new().unwrap();
        let (_listener, address) = listener(&queue, QpType::Rc);
        let (active, passive) = connected(&queue, address);
        drop(active);
        assert_eq!(next(&queue, EventKind::Disconnected).id.key(), passive.key());
        let (active, passive) = connected(&queue, address);
        passive.destroy();
        assert_eq!(next(&queue, EventKind::Disconnected).id.key(), active.key());
        assert!(matches!(passive.disconnect(), Err(Error::State(_))));
    });
}

#[test]
fn a_killed_peer_ends_the_connection() {
    on_our_libraries("a_killed_peer_ends_the_connection", || {
        let queue = EventQueue::new().unwrap();
        if let Some(address) = std::env::var_os(LISTENER) {
            let _active = connected_to(&queue, address.to_str().unwrap().parse().unwrap());
            std::thread::sleep(TIMEOUT);
            return;
        }
        let (_listener, address) = listener(&queue, QpType::Rc);
        let mut peer = std::process::Command::new(std::env::current_exe().unwrap());
        peer.args(["--exact", "a_killed_peer_ends_the_connection"]).env(LISTENER, address.to_string());
        let mut peer = peer.spawn().unwrap();
        let passive = next(&queue, EventKind::ConnectRequest).id;
        passive.accept(&param(b"", 0x22)).unwrap();
        next(&queue, EventKind::Established);
        peer.kill().unwrap();
        peer.wait().unwrap();
        assert_eq!(next(&queue, EventKind::Disconnected).id.key(), passive.key());
    });
}

#[test]
fn an_accept_after_the_peer_has_gone_is_refused() {
    on_our_libraries("an_accept_after_the_peer_has_gone_is_refused", || {
        let queue = EventQueue::new().unwrap();
        let (_listener, address) = listener(&queue, QpType::Rc);
        let active = calling(&queue, address);
        let request = next(&queue, EventKind::ConnectRequest);
        assert!(matches!(active.accept(&param(b"", 1)), Err(Error::State(_))));
        active.destroy();
        // Our library reports that the peer is gone; the kernel does not.
        poll_next(&queue, Duration::from_millis(500));
        assert!(matches!(request.id.accept(&param(b"", 1)), Err(Error::State(_))));
    });
}

#[test]
fn ids_are_destroyed_while_their_events_wait() {
    on_our_libraries("ids_are_destroyed_while_their_events_wait", || {
        let queue = EventQueue::new().unwrap();
        let (waiting, address) = listener(&queue, QpType::Rc);
        let calls: Vec<_> = (0..5).map(|_| calling(&queue, address)).collect();
        let request = next(&queue, EventKind::ConnectRequest);
        waiting.destroy();
        drop((waiting, calls));
        drop(request);
        let event = poll_next(&queue, Duration::from_millis(200));
        assert!(event.is_none(), "{event:?}, although nobody holds an id");
        let (_listener, address) = listener(&queue, QpType::Rc);
        connected(&queue, address);
    });
}

#[test]
fn ids_are_destroyed_while_a_thread_fetches_their_events() {
    on_our_libraries("ids_are_destroyed_while_a_thread_fetches_their_events", || {
        let queue = EventQueue::new().unwrap();
        let (_listener, address) = listener(&queue, QpType::Rc);
        let (is_over, fetched) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for round in 0..300 {
                    let id = calling(&queue, address);
                    std::thread::sleep(Duration::from_micros(100 * (round % 20)));
                    drop(id);
                }
                is_over.store(true, Relaxed);
            });
            for _ in 0..2 {
                threads.spawn(|| {
                    while !is_over.load(Relaxed) {
                        if let Some(event) = poll_next(&queue, Duration::from_millis(20)) {
                            fetched.fetch_add(1, Relaxed);
                            let _ = event.id.accept(&param(b"", new_qpn()));
                        }
                    }
                });
            }
        });
        assert!(fetched.into_inner() > 100);
    });
}

#[test]
fn addresses_may_be_of_version_six() {
    on_our_libraries("addresses_may_be_of_version_six", || {
        let queue = EventQueue::new().unwrap();
        let everywhere = new_id(&queue, QpType::Rc);
        everywhere.bind("[::]:7471".parse().unwrap()).unwrap();
        everywhere.listen(0).unwrap();
        for to in ["[::1]:7471", "127.0.0.1:7471"].map(|to| to.parse::<SocketAddr>().unwrap()) {
            let (active, passive) = connected(&queue, to);
            assert_eq!((active.peer_addr(), passive.local_addr()), (Some(to), Some(to)));
            assert_eq!(passive.binding().unwrap().gid.ip(), to.ip());
        }
        let again = new_id(&queue, QpType::Rc);
        let bound = again.bind("127.0.0.1:7471".parse().unwrap()).and_then(|()| again.listen(0));
        assert!(matches!(bound, Err(Error::InUse)), "{bound:?}");
    });
}

#[test]
fn a_forked_child_leaves_its_parents_ids_alone() {
    on_our_libraries("a_forked_child_leaves_its_parents_ids_alone", || {
        let queue = EventQueue::new().unwrap();
        let (listener, address) = listener(&queue, QpType::Rc);
        let (active, passive) = connected(&queue, address);
        // SAFETY: the child uses only what a forked child may: it takes no lock that another thread may hold.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_refused = matches!(listener.listen(0), Err(Error::Forked))
                && matches!(active.disconnect(), Err(Error::Forked))
                && matches!(Id::new(&queue, PortSpace::Tcp, QpType::Rc), Err(Error::Forked))
                && queue.next().is_none();
            drop((listener, active, passive, queue));
            // SAFETY: ends the child without handlers of its parent.
            unsafe { libc::_exit(if is_refused { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        connected(&queue, address);
        active.disconnect().unwrap();
        // The connection that was just dropped tells its end as well.
        while next(&queue, EventKind::Disconnected).id.key() != passive.key() {}
    });
}

#[test]
fn addresses_and_routes_that_do_not_exist() {
    on_our_libraries("addresses_and_routes_that_do_not_exist", || {
        let queue = EventQueue::new().unwrap();
        let (_listener, address) = listener(&queue, QpType::Rc);
        let second = new_id(&queue, QpType::Rc);
        let bound = second.bind(address).and_then(|()| second.listen(0));
        assert!(matches!(bound, Err(Error::InUse)), "{bound:?}");
        let elsewhere = new_id(&queue, QpType::Rc).bind("192.0.2.1:7471".parse().unwrap());
        assert!(matches!(elsewhere, Err(Error::NotAvailable(_))), "{elsewhere:?}");
        let far = new_id(&queue, QpType::Rc).resolve_addr(None, "203.0.113.1:7471".parse().unwrap());
        assert!(matches!(far, Err(Error::Unreachable(_))), "{far:?}");
        let from_elsewhere = Some("192.0.2.1:0".parse().unwrap());
        let from_elsewhere = new_id(&queue, QpType::Rc).resolve_addr(from_elsewhere, address);
        assert!(matches!(from_elsewhere, Err(Error::NotAvailable(_))), "{from_elsewhere:?}");
    });
}

#[test]
fn calls_in_the_wrong_order_are_errors() {
    on_our_libraries("calls_in_the_wrong_order_are_errors", || {
        let queue = EventQueue::new().unwrap();
        let is_state = |result: Result<(), Error>| assert!(matches!(result, Err(Error::State(_))), "{result:?}");
        let unbound = new_id(&queue, QpType::Rc);
        is_state(unbound.listen(0));
        is_state(unbound.connect(&param(b"", 1)));
        is_state(unbound.resolve_route());
        is_state(unbound.qp_attr(QpState::Init).map(|_| ()));
        let wildcard = new_id(&queue, QpType::Rc);
        wildcard.bind("0.0.0.0:0".parse().unwrap()).unwrap();
        is_state(wildcard.connect(&param(b"", 1)));
        is_state(wildcard.accept(&param(b"", 1)));
        is_state(wildcard.bind("0.0.0.0:0".parse().unwrap()));
        is_state(wildcard.resolve_route());
        let long = wildcard.connect(&param(&[0; 57], 1));
        assert!(matches!(long, Err(Error::PrivateData { asked: 57, max: 56 })), "{long:?}");
        wildcard.destroy();
        is_state(wildcard.listen(0));
        is_state(wildcard.bind("0.0.0.0:0".parse().unwrap()));
    });
}

#[test]
fn a_datagram_lookup_finds_the_queue_pair() {
    on_our_libraries("a_datagram_lookup_finds_the_queue_pair", || {
        let queue = EventQueue::new().unwrap();
        let (_listener, address) = listener(&queue, QpType::Ud);
        let asking = resolved(&queue, QpType::Ud, address);
        asking.connect(&param(b"who?", 0)).unwrap();
        let request = next(&queue, EventKind::ConnectRequest);
        let Param::Datagram(question) = &request.param else { panic!("{request:?}") };
        assert_eq!((&question.private_data[..5], question.private_data.len()), (&b"who?\0"[..], 180));
        let qkey = |qkey| ConnParam { qkey: Some(qkey), ..param(b"me", 0x33) };
        assert!(matches!(request.id.accept(&qkey(QKey(7))), Err(Error::Invalid(_))));
        request.id.accept(&qkey(connect::UDP_QKEY)).unwrap();
        let found = next(&queue, EventKind::Established);
        assert_eq!(found.id.key(), asking.key());
        let Param::Datagram(answer) = &found.param else { panic!("{found:?}") };
        assert_eq!((answer.qpn, answer.qkey), (Qpn::new(0x33), connect::UDP_QKEY));
        assert_eq!((&answer.private_data[..3], answer.private_data.len()), (&b"me\0"[..], 136));
        assert_eq!(answer.address.destination, wire::Gid::from(LOOP_BACK));
        assert_eq!(answer.address.source, wire::Gid::from(LOOP_BACK));
    });
}

#[test]
fn unreliable_connections_have_ports_of_their_own() {
    on_our_libraries("unreliable_connections_have_ports_of_their_own", || {
        let queue = EventQueue::new().unwrap();
        let (_listener, address) = listener(&queue, QpType::Uc);
        let active = resolved(&queue, QpType::Uc, address);
        active.connect(&param(b"hello", 0x11)).unwrap();
        let request = next(&queue, EventKind::ConnectRequest);
        assert_eq!(request.id.qp_type(), QpType::Uc);
        request.id.accept(&param(b"", 0x22)).unwrap();
        next(&queue, EventKind::ConnectResponse);
        let (attr, mask) = active.qp_attr(QpState::Rtr).unwrap();
        assert_eq!(attr.dest_qpn, Qpn::new(0x22));
        assert!(!mask.contains(AttrMask::MAX_DEST_RD_ATOMIC), "{mask:?}");
        let refused = calling(&queue, address);
        assert_eq!(next(&queue, EventKind::Rejected).id.key(), refused.key());
    });
}
