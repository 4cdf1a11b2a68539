//! Ids: what a program holds of a connection.

mod attr;
mod bind;
mod connect;
mod multicast;
mod options;
mod post;
mod resolve;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use transport::{AddressVector, Mtu, QpType};
use wire::Gid;

use crate::error::Error;
use crate::process::{Hold, ProcessRef};
use crate::queue::EventQueue;
use crate::space::PortSpace;
use crate::state::{Entry, State};

pub use connect::CONSUMER_DEFINED;
pub(crate) use resolve::with_scope;

/// Tells the ids of a process apart. Never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct IdKey(pub u64);

/// The device that an id is bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// Its name.
    pub device: String,
    /// The GID that packets leave from.
    pub gid: Gid,
    /// Its index in the port's table.
    pub gid_index: usize,
    /// The network interface.
    pub interface: u32,
    /// Payload per packet at most.
    pub mtu: Mtu,
}

/// A communication identifier: `struct rdma_cm_id`. A cheap handle; with the last one it is
/// [destroyed](Id::destroy).
#[derive(Clone, Debug)]
pub struct Id {
    handle: Arc<Handle>,
}

/// What all handles of an id share.
#[derive(Debug)]
pub(crate) struct Handle {
    process: ProcessRef,
    key: IdKey,
    cookie: AtomicU64,
    /// Connect requests that nobody has fetched.
    waiting: AtomicU32,
}

impl Handle {
    pub(crate) fn requests_waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }

    pub(crate) fn request_waits(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    pub(crate) fn request_fetched(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }
}

impl Drop for Handle {
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
        Ok(Id::enter(process.clone(), &mut state, Entry::new(queue.clone(), space, qp_type)))
    }

    /// Enters a new id into the tables.
    pub(crate) fn enter(process: ProcessRef, state: &mut State, entry: Entry) -> Id {
        let key = state.next_key();
        let handle = Handle { process, key, cookie: AtomicU64::new(0), waiting: AtomicU32::new(0) };
        let handle = Arc::new(handle);
        state.insert(key, entry.held_by(&handle));
        Id { handle }
    }

    pub(crate) fn of(handle: Arc<Handle>) -> Id {
        Id { handle }
    }

    /// Keeps what all ids of the process share, also when this one has gone.
    pub fn keep(&self) -> Hold {
        self.handle.process.keep()
    }

    /// Tells it from others.
    pub fn key(&self) -> IdKey {
        self.handle.key
    }

    /// A word of the caller's; zero for the new id of a connect request.
    pub fn cookie(&self) -> u64 {
        self.handle.cookie.load(Relaxed)
    }

    /// Sets it.
    pub fn set_cookie(&self, cookie: u64) {
        self.handle.cookie.store(cookie, Relaxed);
    }

    /// Its port space.
    pub fn space(&self) -> PortSpace {
        self.look(|entry| entry.space).unwrap_or(PortSpace::Tcp)
    }

    /// The transport service of its queue pair.
    pub fn qp_type(&self) -> QpType {
        self.look(|entry| entry.qp_type).unwrap_or(QpType::Rc)
    }

    /// The local address and port, once bound.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.look(|entry| entry.local)?
    }

    /// The peer's, once known.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.look(|entry| entry.peer)?
    }

    /// The device, once bound to a specific address.
    pub fn binding(&self) -> Option<Binding> {
        self.look(|entry| entry.binding.clone())?
    }

    /// The way to the peer, once resolved.
    pub fn path(&self) -> Option<AddressVector> {
        self.look(Entry::path)?
    }

    /// Where its events go.
    pub fn queue(&self) -> Option<EventQueue> {
        self.look(|entry| entry.queue.clone())
    }

    /// Lets its events go elsewhere; those that wait already go along.
    ///
    /// # Errors
    /// [`Error::State`] after [`destroy`](Id::destroy).
    pub fn migrate(&self, queue: &EventQueue) -> Result<(), Error> {
        self.change(|state, key| {
            state.entry(key)?;
            state.migrate(key, queue);
            Ok(())
        })
    }

    /// Ends it: no more events, those that wait are dropped; the port is free; a peer is told.
    /// What it held for its connection lives on until the connection's numbers are safe to use
    /// again. Every other call gives [`Error::State`] afterwards.
    pub fn destroy(&self) {
        self.handle.process.destroy(self.handle.key);
    }

    fn look<T>(&self, look: impl FnOnce(&Entry) -> T) -> Option<T> {
        let state = self.handle.process.lock().ok()?;
        state.find(self.handle.key).map(look)
    }

    /// Does something with the id, then sends what there is to be sent.
    fn change<T>(&self, change: impl FnOnce(&mut State, IdKey) -> Result<T, Error>) -> Result<T, Error> {
        self.handle.process.change(|state| change(state, self.handle.key))
    }
}
