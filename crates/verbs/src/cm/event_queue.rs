//! The queue that events wait in.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use abi::rdma_cm_id;
use connect::{Error, EventKind, Param};
use parking_lot::Mutex;
use rustix::event::epoll;

use crate::cm::channel::{OwnedEventChannel, UnackedEvent};
use crate::cm::failures::{ConnectFailure, ConnectFailures};
use crate::cm::id::{CmIdHandle, Id};
use crate::cm::owned_id::OwnedCmId;
use crate::cm::translate::EventWords;

/// An event of an id.
#[derive(Clone, Debug)]
pub struct Event {
    /// The id. That of a [`ConnectRequest`](EventKind::ConnectRequest) is the new one, and this its only
    /// handle: dropping the event rejects the request.
    pub id: Id,
    /// The listening id of a connect request.
    pub listener: Option<Id>,
    /// The kind of event.
    pub kind: EventKind,
    /// Zero; a negative errno; or the reason of a rejection, positive.
    pub status: i32,
    /// The event's parameters.
    pub param: Param,
}

/// A queue of events: an event channel of `rdma_create_event_channel(3)`. Clones are the same queue.
#[derive(Clone)]
pub struct EventQueue {
    shared: Arc<SharedChannel>,
}

struct SharedChannel {
    channel: OwnedEventChannel,
    failures: ConnectFailures,
    /// Watches the descriptors of both.
    readable: OwnedFd,
    /// The ids whose events come here, by the addresses of the library's structures. It keeps none alive.
    ids: Mutex<HashMap<usize, Weak<CmIdHandle>>>,
    /// Held from fetching an event until its ids are known: so no event about a new id overtakes its connect request.
    fetching: Mutex<()>,
}

impl EventQueue {
    /// An empty queue. The first one loads the system's libraries.
    ///
    /// # Errors
    /// If the system has no such library or no RDMA device, or the process has no descriptor left.
    pub fn new() -> Result<EventQueue, Error> {
        let channel = OwnedEventChannel::open()?;
        let failures = ConnectFailures::new()?;
        let readable = watching([channel.fd(), failures.fd()])?;
        let shared = SharedChannel { channel, failures, readable, ids: Mutex::default(), fetching: Mutex::default() };
        Ok(EventQueue { shared: Arc::new(shared) })
    }

    /// Whether this process made the queue. Forked children get no events from it.
    pub fn is_ours(&self) -> bool {
        self.shared.channel.is_ours()
    }

    /// Takes the oldest event. Never waits.
    #[allow(clippy::should_implement_trait, reason = "an iterator would look finished between events")]
    pub fn next(&self) -> Option<Event> {
        if !self.is_ours() {
            return None;
        }
        while let Some(failure) = self.shared.failures.pop() {
            if let Some(event) = of_failure(&failure) {
                return Some(event);
            }
        }
        let _fetching = self.shared.fetching.lock();
        loop {
            let unacked = self.shared.channel.next()?;
            if let Some(event) = self.open(unacked) {
                return Some(event);
            }
        }
    }

    /// A descriptor that is readable while the queue holds events. Do not read from it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.readable.as_fd()
    }

    pub(super) fn channel(&self) -> &OwnedEventChannel {
        &self.shared.channel
    }

    /// Registers an id before its events can come here.
    pub(super) fn enter(&self, id: &OwnedCmId, handle: Weak<CmIdHandle>) {
        self.shared.ids.lock().insert(id.address(), handle);
    }

    /// Forgets an id before it is destroyed: its address may then belong to another.
    pub(super) fn forget(&self, id: &OwnedCmId) {
        self.shared.ids.lock().remove(&id.address());
    }

    pub(super) fn fail(&self, failure: ConnectFailure) {
        self.shared.failures.push(failure);
    }

    /// The event for the caller; `None` if its id is being destroyed.
    ///
    /// It is acknowledged before any handle is dropped: destroying an id waits for that.
    fn open(&self, unacked: UnackedEvent) -> Option<Event> {
        let (id, listener) = (unacked.event().id, unacked.event().listen_id);
        let is_request = unacked.event().event == abi::RDMA_CM_EVENT_CONNECT_REQUEST;
        let owner = self.known(if is_request { listener } else { id });
        // SAFETY: the id of a connect request is new, and the receiver of the event owns it.
        let new = NonNull::new(id)
            .filter(|_| is_request)
            .map(|id| unsafe { OwnedCmId::adopt(self.shared.channel.library(), id) });
        let words = owner.as_ref().and_then(|owner| EventWords::of(&unacked, owner.qp_type()));
        drop(unacked);
        let (owner, EventWords { kind, status, param }) = (owner?, words?);
        let (id, listener) = match new {
            Some(new) => (Id::of_request(self, new, &owner), Some(owner)),
            None => (owner, None),
        };
        Some(Event { id, listener, kind, status, param })
    }

    fn known(&self, id: *mut rdma_cm_id) -> Option<Id> {
        self.shared.ids.lock().get(&id.addr()).and_then(Weak::upgrade).map(Id::of)
    }
}

impl fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventQueue({} ids)", self.shared.ids.lock().len())
    }
}

/// The event of a connection that could not be made; `None` if its id is gone.
fn of_failure(failure: &ConnectFailure) -> Option<Event> {
    let id = Id::of(failure.id.upgrade()?);
    let param = Param::Conn(connect::ConnParam::default());
    Some(Event { id, listener: None, kind: failure.kind, status: failure.status, param })
}

/// A descriptor that is readable while one of these is.
fn watching(descriptors: [BorrowedFd<'_>; 2]) -> io::Result<OwnedFd> {
    let epoll = guest::high(epoll::create(epoll::CreateFlags::CLOEXEC)?);
    for descriptor in descriptors {
        epoll::add(&epoll, descriptor, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    }
    Ok(epoll)
}
