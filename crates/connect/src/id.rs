//! Ids: a program's handle of a connection, `struct rdma_cm_id`.
//!
//! Outside this module: it only locks the process's state and passes each call on to `connections`.

mod options;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use transport::{AddressVector, AttrMask, QpAttr, QpState, QpType};
use wire::{Gid, QKey};

use crate::connections::{Binding, CmIdState, Connections, IdKey, IdPhase, attributes};
use crate::error::Error;
use crate::event::{ConnParam, EventDetails, EventKind, Param};
use crate::event_queue::{EventId, EventQueue, QueuedEvent};
use crate::process::{ProcessRef, SessionHold};
use crate::space::PortSpace;

/// The reason of a rejection by the program (IB specification 12.6.7.2).
pub const CONSUMER_DEFINED: u16 = 28;

/// A communication identifier: `struct rdma_cm_id`. A cheap handle; dropping the last one
/// [destroys](Id::destroy) the id.
#[derive(Clone, Debug)]
pub struct Id {
    handle: Arc<IdHandle>,
}

/// The part that all handles of an id share.
#[derive(Debug)]
pub(crate) struct IdHandle {
    process: ProcessRef,
    key: IdKey,
    cookie: AtomicU64,
    /// Connect requests that wait to be fetched.
    unfetched: Arc<AtomicU32>,
}

impl IdHandle {
    pub(crate) fn new(process: ProcessRef, key: IdKey) -> IdHandle {
        IdHandle { process, key, cookie: AtomicU64::new(0), unfetched: Arc::default() }
    }

    pub(crate) fn process(&self) -> &ProcessRef {
        &self.process
    }

    /// The count of connect requests that wait to be fetched, for as long as there is a handle.
    pub(crate) fn unfetched(&self) -> Weak<AtomicU32> {
        Arc::downgrade(&self.unfetched)
    }

    /// A connect request was fetched.
    pub(crate) fn count_fetched(&self) {
        let before = self.unfetched.fetch_sub(1, Relaxed);
        assert_ne!(before, 0, "a queued request was counted");
    }
}

impl Drop for IdHandle {
    fn drop(&mut self) {
        self.process.drop_id(self.key);
    }
}

impl Id {
    /// A new id whose events go to `queue`. The first one of a process attaches it to the hub.
    ///
    /// # Errors
    /// If no hub can be found or started.
    pub fn new(queue: &EventQueue, space: PortSpace, qp_type: QpType) -> Result<Id, Error> {
        let process = ProcessRef::get()?;
        let mut state = process.lock()?;
        let key = state.connections.add(CmIdState::new(space, qp_type));
        Ok(state.enter(process.clone(), key, queue.clone()))
    }

    pub(crate) fn of(handle: Arc<IdHandle>) -> Id {
        Id { handle }
    }

    /// Keeps the session with the hub, also after this id is gone.
    pub fn keep(&self) -> SessionHold {
        self.handle.process.hold()
    }

    /// Identifies the id within the process.
    pub fn key(&self) -> IdKey {
        self.handle.key
    }

    /// The caller's word; zero for the new id of a connect request.
    pub fn cookie(&self) -> u64 {
        self.handle.cookie.load(Relaxed)
    }

    /// Stores a word of the caller.
    pub fn set_cookie(&self, cookie: u64) {
        self.handle.cookie.store(cookie, Relaxed);
    }

    /// The port space.
    pub fn space(&self) -> PortSpace {
        self.read(|id| id.space).unwrap_or(PortSpace::Tcp)
    }

    /// The transport service of the queue pair.
    pub fn qp_type(&self) -> QpType {
        self.read(|id| id.qp_type).unwrap_or(QpType::Rc)
    }

    /// The local address and port, once bound.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.read(|id| id.local)?
    }

    /// The peer's address and port, once known.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.read(|id| id.peer)?
    }

    /// The device, once bound to a specific address.
    pub fn binding(&self) -> Option<Binding> {
        self.read(|id| id.binding.clone())?
    }

    /// The path to the peer, once resolved.
    pub fn path(&self) -> Option<AddressVector> {
        self.read(CmIdState::path)?
    }

    /// The queue of the id's events.
    pub fn queue(&self) -> Option<EventQueue> {
        self.handle.process.lock().ok()?.queue(self.key()).cloned()
    }

    /// Sends its events to another queue; those that wait move there.
    ///
    /// # Errors
    /// [`Error::State`] after [`destroy`](Id::destroy).
    pub fn migrate(&self, queue: &EventQueue) -> Result<(), Error> {
        self.handle.process.change(|state| {
            state.connections.get_mut(self.key())?;
            state.migrate(self.key(), queue);
            Ok(())
        })
    }

    /// Ends the id: no more events, those that wait are dropped; the port is free; the peer is told.
    /// The id's connection number stays reserved until the network holds no packets of the connection.
    /// Every other call gives [`Error::State`] afterwards.
    pub fn destroy(&self) {
        self.handle.process.destroy(self.key());
    }

    /// Binds to an address, which may be the wildcard, and a port; 0 takes a free one. A specific
    /// address binds to its device. `rdma_bind_addr(3)`.
    ///
    /// # Errors
    /// If it is bound already, the port is in use, or no device has the address.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Error> {
        self.change(|connections, key| connections.bind(key, address))
    }

    /// Takes connect requests from now on. At most `backlog` of them wait to be fetched; 0 stands for a usual
    /// number. Binds an unbound id to any port first. `rdma_listen(3)`.
    ///
    /// # Errors
    /// If the id has a destination, or another id listens on the port.
    pub fn listen(&self, backlog: u32) -> Result<(), Error> {
        self.change(|connections, key| connections.listen(key, backlog))
    }

    /// Whether it takes connect requests.
    pub fn is_listening(&self) -> bool {
        self.read(|id| id.phase == IdPhase::Listening).unwrap_or(false)
    }

    /// Finds the address and the device that packets to `destination` leave from. Binds an unbound id first, to
    /// `source` if it is given, and to a free port.
    /// [`AddrResolved`](EventKind::AddrResolved) follows. `rdma_resolve_addr(3)`.
    ///
    /// # Errors
    /// If there is no route, no device has the address, or the id has a destination or listens.
    pub fn resolve_addr(&self, source: Option<SocketAddr>, destination: SocketAddr) -> Result<(), Error> {
        self.change(|connections, key| connections.resolve_addr(key, source, destination))
    }

    /// Resolves the route, which on Ethernet is known with the address.
    /// [`RouteResolved`](EventKind::RouteResolved) follows. `rdma_resolve_route(3)`.
    ///
    /// # Errors
    /// Before the address is resolved.
    pub fn resolve_route(&self) -> Result<(), Error> {
        self.change(Connections::resolve_route)
    }

    /// Sends a request to the peer. For a connection it is answered by
    /// [`ConnectResponse`](EventKind::ConnectResponse), [`Rejected`](EventKind::Rejected) or
    /// [`Unreachable`](EventKind::Unreachable); for datagrams, by
    /// [`Established`](EventKind::Established) with the peer's queue pair. `rdma_connect(3)`.
    ///
    /// # Errors
    /// If the route is not resolved, or there is more private data than 56 bytes (180 for datagrams).
    pub fn connect(&self, param: &ConnParam) -> Result<(), Error> {
        self.change(|connections, key| connections.connect(key, param))
    }

    /// Confirms on either side: [`confirm`](Id::confirm) or [`notify`](Id::notify).
    ///
    /// # Errors
    /// As theirs.
    pub fn establish(&self) -> Result<(), Error> {
        self.change(Connections::establish)
    }

    /// The active side confirms after [`ConnectResponse`](EventKind::ConnectResponse), with its queue pair
    /// ready to send. `rdma_establish(3)`.
    ///
    /// # Errors
    /// [`Error::Connected`] if the connection is established; [`Error::State`] if there is nothing to
    /// confirm.
    pub fn confirm(&self) -> Result<(), Error> {
        self.change(Connections::confirm)
    }

    /// The passive side has received data, although the peer has not confirmed yet:
    /// [`Established`](EventKind::Established) follows. `rdma_notify(3)`.
    ///
    /// # Errors
    /// As of [`confirm`](Id::confirm).
    pub fn notify(&self) -> Result<(), Error> {
        self.change(Connections::notify_established)
    }

    /// Accepts a peer's request. [`Established`](EventKind::Established) follows when the peer has confirmed. For
    /// datagrams it only tells the peer the queue pair's number. `rdma_accept(3)`.
    ///
    /// # Errors
    /// If the id does not come from a [`ConnectRequest`](EventKind::ConnectRequest) or was answered, or there
    /// is more private data than 196 bytes (136 for datagrams).
    pub fn accept(&self, param: &ConnParam) -> Result<(), Error> {
        self.change(|connections, key| connections.accept(key, param))
    }

    /// Refuses a peer's request. `reason` is the status of the peer's event; [`CONSUMER_DEFINED`] if the program
    /// has none. `rdma_reject(3)`.
    ///
    /// # Errors
    /// As [`accept`](Id::accept), with at most 148 bytes of private data (136 for datagrams).
    pub fn reject(&self, private_data: &[u8], reason: u16) -> Result<(), Error> {
        self.change(|connections, key| connections.reject(key, private_data, reason))
    }

    /// Ends the connection, or agrees to its end: [`Disconnected`](EventKind::Disconnected)
    /// follows on both sides. The caller has taken its queue pair to the error state before. As in Linux, nothing
    /// happens before the connection is established, after its end, and to datagrams. `rdma_disconnect(3)`.
    ///
    /// # Errors
    /// If there never was a connection.
    pub fn disconnect(&self) -> Result<(), Error> {
        self.change(Connections::disconnect)
    }

    /// Joins a multicast group: [`MulticastJoin`](EventKind::MulticastJoin) has the address to send to.
    /// `rdma_join_multicast(3)`.
    ///
    /// # Errors
    /// If the address is not a group's, or the id is not bound to a device.
    pub fn join(&self, group: IpAddr, qkey: Option<QKey>) -> Result<(), Error> {
        self.change(|connections, key| connections.join_group(key, group, qkey))
    }

    /// Leaves a group: a [`MulticastJoin`](EventKind::MulticastJoin) that was not fetched is dropped.
    /// `rdma_leave_multicast(3)`.
    ///
    /// # Errors
    /// [`Error::State`] after [`destroy`](Id::destroy).
    pub fn leave(&self, group: IpAddr) -> Result<(), Error> {
        let (owner, group) = (self.key(), Gid::from(group));
        self.handle.process.change(|state| {
            let queue = state.queue(owner).ok_or(Error::State("it was destroyed"))?;
            // These events hold no ids: they may be dropped here.
            queue.take(|event| event.owner == owner && event.details.is_join_of(group));
            Ok(())
        })
    }

    /// Appends an event of the caller's own to the queue, `rdma_write_cm_event(3)`. Does nothing
    /// after [`destroy`](Id::destroy).
    pub fn post(&self, kind: EventKind, status: i32, param: Param) {
        let id = EventId::Known(Arc::downgrade(&self.handle));
        let event = QueuedEvent { owner: self.key(), id, details: EventDetails { kind, status, param } };
        // The lock excludes `destroy`, after which nothing may be queued.
        if let Ok(state) = self.handle.process.lock()
            && let Some(queue) = state.queue(self.key())
        {
            queue.push(event);
        }
    }

    /// The attributes that take the queue pair to `state`: Init, Rtr or Rts. `rdma_init_qp_attr(3)`.
    ///
    /// # Errors
    /// If the id does not know them yet, or the state is another.
    pub fn qp_attr(&self, state: QpState) -> Result<(QpAttr, AttrMask), Error> {
        self.read(|id| attributes(id, state)).unwrap_or(Err(Error::State("it was destroyed")))
    }

    fn read<T>(&self, read: impl FnOnce(&CmIdState) -> T) -> Option<T> {
        let state = self.handle.process.lock().ok()?;
        state.connections.get(self.key()).map(read)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Connections, IdKey) -> Result<T, Error>) -> Result<T, Error> {
        self.handle.process.change(|state| change(&mut state.connections, self.key()))
    }
}
