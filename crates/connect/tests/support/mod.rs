//! A hub and a network namespace of its own for each test, and waiting for events.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use connect::{ConnParam, Event, EventKind, EventQueue, Id, PortSpace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use testkit::{PATIENCE, role, run_again};

/// Runs `body` in a process of its own with a hub's directory of its own, in a network
/// namespace of its own. To be called from the test function itself.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    if role().as_deref() == Some("body") {
        return body();
    }
    hub::testing::passes_with_hub(&format!("connect-{test}"), run_again(test, "body"));
}

/// The hub's directory.
pub(crate) fn hub_dir() -> PathBuf {
    std::env::var_os(hub::RUNTIME_DIR_VARIABLE).map(PathBuf::from).unwrap()
}

/// The next event; it must come.
pub(crate) fn next(queue: &EventQueue) -> Event {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(event) = queue.next() {
            return event;
        }
        let left = end.checked_duration_since(Instant::now()).expect("no event in time");
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::from_borrowed_fd(queue.fd().as_fd(), PollFlags::IN)], Some(&timeout));
    }
}

/// The next event, which must be of this kind.
pub(crate) fn expect(queue: &EventQueue, kind: EventKind) -> Event {
    let event = next(queue);
    assert_eq!(event.kind, kind, "{event:?}");
    event
}

/// A listening id.
pub(crate) fn listen(queue: &EventQueue, address: &str) -> (Id, SocketAddr) {
    let id = Id::new(queue, PortSpace::Tcp, PortSpace::Tcp.qp_type()).unwrap();
    id.bind(address.parse().unwrap()).unwrap();
    id.listen(0).unwrap();
    let address = id.local_addr().unwrap();
    (id, address)
}

/// An id whose route to a destination is resolved.
pub(crate) fn resolved(queue: &EventQueue, space: PortSpace, destination: SocketAddr) -> Id {
    let id = Id::new(queue, space, space.qp_type()).unwrap();
    id.resolve_addr(None, destination).unwrap();
    expect(queue, EventKind::AddrResolved);
    id.resolve_route().unwrap();
    expect(queue, EventKind::RouteResolved);
    id
}

/// A queue pair's number that no connection has yet: the same one twice is a stale connection.
pub(crate) fn fresh_qpn() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(2);
    NEXT.fetch_add(1, Relaxed) | std::process::id() << 12 & 0xff_ffff
}

/// Parameters with some private data.
pub(crate) fn param(qpn: u32, private_data: &[u8]) -> ConnParam {
    ConnParam {
        private_data: private_data.to_vec(),
        responder_resources: 3,
        initiator_depth: 4,
        retry_count: 5,
        rnr_retry_count: 6,
        qpn: wire::Qpn::new(qpn),
        ..ConnParam::default()
    }
}
