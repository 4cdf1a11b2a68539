//! Ids: a program's handle of a connection.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use abi::ibv_sa_path_rec;
use connect::{Binding, ConnParam, Error, IdKey, PortSpace, UDP_QKEY};
use parking_lot::Mutex;
use transport::{AttrMask, Mtu, QpAttr, QpState, QpType};

use crate::cm::error::{of_answer, of_bind, of_resolve};
use crate::cm::event_queue::EventQueue;
use crate::cm::failures::ConnectFailure;
use crate::cm::owned_id::OwnedCmId;
use crate::cm::translate::of_failed_connect;
use crate::cm::{binding, path, room};

/// A communication identifier: `struct rdma_cm_id`. A cheap handle; dropping the last one
/// [destroys](Id::destroy) the id.
#[derive(Clone)]
pub struct Id {
    handle: Arc<CmIdHandle>,
}

/// The part that all handles of an id share.
pub(super) struct CmIdHandle {
    key: IdKey,
    space: PortSpace,
    qp_type: QpType,
    slot: Mutex<CmIdSlot>,
    queue: EventQueue,
}

/// The library's id of a handle.
enum CmIdSlot {
    /// It is made with the address.
    Unbound,
    Open(OwnedCmId),
    Destroyed,
}

/// Above those of the crate `connect`, which counts from zero.
static NEXT_KEY: AtomicU64 = AtomicU64::new(1 << 63);

impl Id {
    /// A new id whose events go to `queue`.
    ///
    /// # Errors
    /// [`Error::Forked`] if the queue is the parent's.
    pub fn new(queue: &EventQueue, space: PortSpace, qp_type: QpType) -> Result<Id, Error> {
        if queue.is_ours() { Ok(Id::with_slot(queue, (space, qp_type), CmIdSlot::Unbound)) } else { Err(Error::Forked) }
    }

    fn with_slot(queue: &EventQueue, (space, qp_type): (PortSpace, QpType), slot: CmIdSlot) -> Id {
        let key = IdKey(NEXT_KEY.fetch_add(1, Relaxed));
        let handle = CmIdHandle { key, space, qp_type, slot: Mutex::new(slot), queue: queue.clone() };
        Id { handle: Arc::new(handle) }
    }

    pub(super) fn of(handle: Arc<CmIdHandle>) -> Id {
        Id { handle }
    }

    /// The id of a connect request; its events come to the queue already.
    pub(super) fn of_request(queue: &EventQueue, new: OwnedCmId, listener: &Id) -> Id {
        let id = Id::with_slot(queue, listener.handle.service(), CmIdSlot::Unbound);
        queue.enter(&new, id.downgrade());
        *id.handle.slot.lock() = CmIdSlot::Open(new);
        id
    }

    /// Identifies the id within the process.
    pub fn key(&self) -> IdKey {
        self.handle.key
    }

    /// The transport service of the queue pair.
    pub fn qp_type(&self) -> QpType {
        self.handle.qp_type
    }

    /// The local address and port, once bound.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.with(|id| Ok(id.local_addr())).ok()?
    }

    /// The peer's address and port, once known.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.with(|id| Ok(id.peer_addr())).ok()?
    }

    /// The device, once bound to a specific address.
    pub fn binding(&self) -> Option<Binding> {
        self.with(|id| Ok(binding::of(id))).ok()?
    }

    /// Ends the id: no more events, those that wait are dropped; the port is free; the peer is told.
    /// Every other call gives [`Error::State`] afterwards.
    pub fn destroy(&self) {
        self.handle.destroy();
    }

    /// Binds to an address, which may be the wildcard, and a port; 0 takes a free one. A specific
    /// address binds to its device. `rdma_bind_addr(3)`.
    ///
    /// # Errors
    /// If it is bound already, the port is in use, or no device has the address.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Error> {
        let (library, service) = (self.handle.queue.channel().library(), self.handle.service());
        let bound = |address| OwnedCmId::bound(library, service, address);
        self.open(|| match bound(address) {
            // The kernel gives this also if the port conflicts with a wildcard's.
            Err(error) if error.errno() == libc::EADDRNOTAVAIL && address.port() != 0 => {
                let any_port = bound(SocketAddr::new(address.ip(), 0));
                Err(if any_port.is_ok() { Error::InUse } else { of_bind(error, address.ip()) })
            }
            other => other.map_err(|error| of_bind(error, address.ip())),
        })
    }

    /// Takes connect requests from now on. At most `backlog` of them wait to be fetched; 0 stands for as many as the
    /// system allows. `rdma_listen(3)`.
    ///
    /// # Errors
    /// If the id is not bound, or another id listens on the port.
    pub fn listen(&self, backlog: u32) -> Result<(), Error> {
        let listen = |id: &OwnedCmId| {
            let address = id.local_addr().ok_or(Error::State("it is not bound"))?;
            if self.qp_type() != QpType::Rc && id.is_of_iwarp() {
                return Err(Error::Invalid("iWARP devices have reliable connections only"));
            }
            id.listen(backlog).map_err(|error| of_bind(error, address.ip()))
        };
        self.with(listen)
    }

    /// Finds the address, the device and the route of packets to `destination`, and waits for them: usually
    /// microseconds, at most seconds. Binds the id to `source` if it is given, and to a free port.
    /// `rdma_resolve_addr(3)` and `rdma_resolve_route(3)`.
    ///
    /// # Errors
    /// If there is no route, no device has the address, or the id is bound already.
    pub fn resolve_addr(&self, source: Option<SocketAddr>, destination: SocketAddr) -> Result<(), Error> {
        let (library, service) = (self.handle.queue.channel().library(), self.handle.service());
        let resolved = || OwnedCmId::resolved(library, service, source, destination, None);
        self.open(|| resolved().map_err(|error| of_resolve(error, source, destination)))
    }

    /// Does nothing: [`resolve_addr`](Id::resolve_addr) has resolved the route as well.
    ///
    /// # Errors
    /// Before the address is resolved.
    pub fn resolve_route(&self) -> Result<(), Error> {
        self.with(|id| id.peer_addr().map(|_| ()).ok_or(Error::State("it has no destination")))
    }

    /// Sends a request to the peer. For a connection it is answered by
    /// [`ConnectResponse`](connect::EventKind::ConnectResponse) (iWARP:
    /// [`Established`](connect::EventKind::Established)), [`Rejected`](connect::EventKind::Rejected) or
    /// [`Unreachable`](connect::EventKind::Unreachable); for datagrams, by
    /// [`Established`](connect::EventKind::Established) with the peer's queue pair. `rdma_connect(3)`.
    ///
    /// # Errors
    /// If the route is not resolved, or there is more private data than 56 bytes (180 for datagrams).
    pub fn connect(&self, param: &ConnParam) -> Result<(), Error> {
        room::check(&param.private_data, room::of_request(self.qp_type()))?;
        let Err(error) = self.with(|id| id.connect(param)) else { return Ok(()) };
        let (kind, status) = of_failed_connect(error.errno()).ok_or(error)?;
        self.handle.queue.fail(ConnectFailure { id: self.downgrade(), kind, status });
        Ok(())
    }

    /// The active side confirms after [`ConnectResponse`](connect::EventKind::ConnectResponse), with its queue pair
    /// ready to send. `rdma_establish(3)`.
    ///
    /// # Errors
    /// If there is nothing to confirm.
    pub fn establish(&self) -> Result<(), Error> {
        self.with(OwnedCmId::establish)
    }

    /// Accepts a peer's request. [`Established`](connect::EventKind::Established) follows when the peer has confirmed.
    /// For datagrams it only tells the peer the queue pair's number, with the key [`UDP_QKEY`]. `rdma_accept(3)`.
    ///
    /// # Errors
    /// If the id does not come from a [`ConnectRequest`](connect::EventKind::ConnectRequest), or was answered, or the
    /// peer has given up. Also for more private data than 196 bytes (136 for datagrams), or another key for datagrams.
    pub fn accept(&self, param: &ConnParam) -> Result<(), Error> {
        room::check(&param.private_data, room::of_accept(self.qp_type()))?;
        if param.qkey.is_some_and(|qkey| qkey != UDP_QKEY) {
            return Err(Error::Invalid("librdmacm names no other Q_Key than 0x1234567"));
        }
        self.with(|id| id.accept(param).map_err(of_answer))
    }

    /// Refuses a peer's request. The status of the peer's event is
    /// [`CONSUMER_DEFINED`](connect::CONSUMER_DEFINED): the library takes no other `reason`. `rdma_reject(3)`.
    ///
    /// # Errors
    /// As [`accept`](Id::accept), with at most 148 bytes of private data (136 for datagrams).
    pub fn reject(&self, private_data: &[u8], _reason: u16) -> Result<(), Error> {
        room::check(private_data, room::of_reject(self.qp_type()))?;
        self.with(|id| id.reject(private_data).map_err(of_answer))
    }

    /// Ends the connection, or agrees to its end: [`Disconnected`](connect::EventKind::Disconnected)
    /// follows on both sides. The caller has taken its queue pair to the error state before. `rdma_disconnect(3)`.
    ///
    /// # Errors
    /// If there never was a connection.
    pub fn disconnect(&self) -> Result<(), Error> {
        self.with(OwnedCmId::disconnect)
    }

    /// The attributes that take the queue pair to `state`: Init, Rtr or Rts. The mask is the library's; on iWARP it
    /// names hardly any attribute, and none for Rts. `rdma_init_qp_attr(3)`.
    ///
    /// # Errors
    /// If the id does not know them yet, or the state is another.
    pub fn qp_attr(&self, state: QpState) -> Result<(QpAttr, AttrMask), Error> {
        self.with(|id| id.qp_attr(state).map_err(of_answer))
    }

    /// Limits the payload per packet further than the path does; a request asks for the result. If that changes
    /// anything, the library's id is made again, with another port. On iWARP there is no such limit.
    ///
    /// # Errors
    /// If the id has no route, or the path cannot be set.
    pub fn set_mtu(&self, mtu: Mtu) -> Result<(), Error> {
        let Some((source, destination, path)) = self.with(|id| longer_path(id, mtu))? else { return Ok(()) };
        let (library, service) = (self.handle.queue.channel().library(), self.handle.service());
        let source = Some(SocketAddr::new(source, 0));
        let limited = OwnedCmId::resolved(library, service, source, destination, Some(path::with_mtu(&path, mtu)));
        let limited = limited.map_err(|error| of_resolve(error, source, destination))?;
        self.handle.unbind()?;
        self.open(|| Ok(limited))
    }

    fn downgrade(&self) -> Weak<CmIdHandle> {
        Arc::downgrade(&self.handle)
    }

    /// Makes the library's id, and sends its events to the queue.
    fn open(&self, make: impl FnOnce() -> Result<OwnedCmId, Error>) -> Result<(), Error> {
        let handle = &self.handle;
        if !handle.queue.is_ours() {
            return Err(Error::Forked);
        }
        let mut slot = handle.slot.lock();
        match &*slot {
            CmIdSlot::Unbound => {}
            CmIdSlot::Open(_) => return Err(Error::State("it is bound already")),
            CmIdSlot::Destroyed => return Err(DESTROYED),
        }
        let id = make()?;
        handle.queue.enter(&id, self.downgrade());
        if let Err(error) = id.migrate(handle.queue.channel()) {
            handle.queue.forget(&id);
            return Err(error);
        }
        *slot = CmIdSlot::Open(id);
        Ok(())
    }

    fn with<T>(&self, call: impl FnOnce(&OwnedCmId) -> Result<T, Error>) -> Result<T, Error> {
        if !self.handle.queue.is_ours() {
            return Err(Error::Forked);
        }
        match &*self.handle.slot.lock() {
            CmIdSlot::Unbound => Err(Error::State("it is not bound")),
            CmIdSlot::Open(id) => call(id),
            CmIdSlot::Destroyed => Err(DESTROYED),
        }
    }
}

/// The ends and the path of an id, if packets of the path are longer than `mtu`.
fn longer_path(id: &OwnedCmId, mtu: Mtu) -> Result<Option<(IpAddr, SocketAddr, ibv_sa_path_rec)>, Error> {
    let (Some(local), Some(peer)) = (id.local_addr(), id.peer_addr()) else {
        return Err(Error::State("it has no route"));
    };
    let is_longer = |path: &ibv_sa_path_rec| binding::mtu(path.mtu.into()).is_some_and(|of_path| of_path > mtu);
    Ok(id.path().filter(is_longer).map(|path| (local.ip(), peer, path)))
}

const DESTROYED: Error = Error::State("it was destroyed");

impl CmIdHandle {
    fn service(&self) -> (PortSpace, QpType) {
        (self.space, self.qp_type)
    }

    /// Destroys the library's id, to make another.
    fn unbind(&self) -> Result<(), Error> {
        let mut slot = self.slot.lock();
        let CmIdSlot::Open(_) = &*slot else { return Err(DESTROYED) };
        let old = std::mem::replace(&mut *slot, CmIdSlot::Unbound);
        drop(slot);
        self.close(old);
        Ok(())
    }

    fn destroy(&self) {
        if !self.queue.is_ours() {
            return;
        }
        let slot = std::mem::replace(&mut *self.slot.lock(), CmIdSlot::Destroyed);
        self.close(slot);
    }

    /// The library's call waits until the events of the id are acknowledged. Callers hold no lock.
    fn close(&self, slot: CmIdSlot) {
        if let CmIdSlot::Open(id) = slot {
            self.queue.forget(&id);
            drop(id);
        }
    }
}

impl Drop for CmIdHandle {
    fn drop(&mut self) {
        self.destroy();
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({}, {:?})", self.handle.key.0, self.handle.qp_type)
    }
}
