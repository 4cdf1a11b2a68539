//! Communication identifiers.

use std::sync::Arc;

use ::connect::{Id, PortSpace};
use device::QpType;
use parking_lot::{Mutex, MutexGuard};

use crate::abi::*;
use crate::boundary::{Errno, minus_one};
use crate::object::Object;
use crate::rdmacm::channel::{self, OwnChannel};
use crate::rdmacm::devices;
use crate::rdmacm::ep::Passive;
use crate::rdmacm::multicast::Group;
use crate::rdmacm::resolver::Answers;
use crate::rdmacm::sync;
use crate::verbs::events::Unacked;
use crate::verbs::log;

/// What belongs to an id.
pub(crate) struct IdOwn {
    pub(super) id: Id,
    /// Events that its owner fetched and has not acknowledged: destroying it waits for them.
    pub(super) unacked: Arc<Unacked>,
    pub(super) state: Mutex<State>,
}

/// What changes.
#[derive(Default)]
pub(super) struct State {
    /// It is synchronous, and waits on this.
    pub(super) own_channel: Option<OwnChannel>,
    /// What `path_rec` points to.
    pub(super) path: Option<Box<ibv_sa_path_rec>>,
    /// READs and atomics at a time, as the peer or the program wants it.
    pub(super) depth: Depth,
    /// The queue pair could not be connected, and nothing more is told about that connection.
    pub(super) failed: bool,
    /// How queue pairs of its connect requests are made.
    pub(super) passive: Option<Passive>,
    /// What comes before the private data of its requests (`ai_connect`).
    pub(super) preamble: Vec<u8>,
    pub(super) groups: Vec<Group>,
    pub(super) queues: super::queues::Made,
    /// What `rdma_resolve_addrinfo` found.
    pub(super) answers: Arc<Mutex<Answers>>,
}

/// READs and atomics at a time.
#[derive(Clone, Copy, Default)]
pub(super) struct Depth {
    /// That are answered.
    pub(super) responder: u8,
    /// That are asked.
    pub(super) initiator: u8,
}

pub(super) type IdObject = Object<rdma_cm_id, IdOwn>;

/// Held while an event is taken out of a queue and counted as its id's, and while an id goes: so no event is told
/// about an id that has gone.
static DELIVERY: Mutex<()> = Mutex::new(());

/// Keeps ids from going.
pub(super) fn hold_ids() -> MutexGuard<'static, ()> {
    DELIVERY.lock()
}

/// What belongs to an id that a program gave us.
///
/// # Safety
/// Null, or created.
pub(super) unsafe fn of<'a>(id: *mut rdma_cm_id) -> Result<&'a IdOwn, Errno> {
    // SAFETY: the caller's promise.
    unsafe { IdObject::of(id) }
}

impl IdOwn {
    /// Whether it carries datagrams.
    pub(super) fn is_ud(&self) -> bool {
        self.id.qp_type() == QpType::Ud
    }

    /// The channel that its calls wait on, if it is synchronous.
    pub(super) fn waits_on(&self) -> Option<*mut rdma_event_channel> {
        self.state.lock().own_channel.as_ref().map(OwnChannel::c)
    }
}

/// `rdma_create_id(3)`: without a channel the id is synchronous.
///
/// # Safety
/// A channel that exists, or null; a place for the id.
pub(crate) unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: c_int,
) -> c_int {
    minus_one(|| {
        log::start();
        // SAFETY: the caller's promise.
        unsafe {
            let place = id.as_mut().ok_or(Errno::INVAL)?;
            *place = create(channel, context, ps, None)?;
        }
        Ok(0)
    })
}

/// # Safety
/// A channel that exists, or null.
pub(super) unsafe fn create(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    ps: c_int,
    qp_type: Option<QpType>,
) -> Result<*mut rdma_cm_id, Errno> {
    let space = u32::try_from(ps).ok().and_then(PortSpace::from_number).ok_or(Errno::INVAL)?;
    let own_channel = if channel.is_null() { Some(OwnChannel::new()?) } else { None };
    let channel = own_channel.as_ref().map_or(channel, OwnChannel::c);
    let id = Id::new(&channel::queue_of(channel)?, space, qp_type.unwrap_or(space.qp_type()))?;
    channel::keep(channel, &id);
    let c = present(id, channel, context);
    // SAFETY: just made.
    unsafe { of(c) }?.state.lock().own_channel = own_channel;
    Ok(c)
}

/// The structure that a program sees of an id.
pub(super) fn present(id: Id, channel: *mut rdma_event_channel, context: *mut c_void) -> *mut rdma_cm_id {
    let mut c = rdma_cm_id::zeroed();
    c.channel = channel;
    c.context = context;
    c.ps = id.space() as c_int;
    c.qp_type = id.qp_type() as c_int;
    let object = IdObject::leak(c, IdOwn { id: id.clone(), unacked: Arc::default(), state: Mutex::default() });
    id.set_cookie(object.expose_provenance() as u64);
    devices::count_user();
    object
}

/// That of the id of a connect request.
///
/// # Safety
/// The listener exists.
pub(super) unsafe fn present_like(listener: *mut rdma_cm_id, id: Id) -> *mut rdma_cm_id {
    // SAFETY: the caller's promise; programs may write to it.
    let (channel, context) = unsafe { ((*listener).channel, (*listener).context) };
    present(id, channel, context)
}

/// The structure of an id; null if it goes. Who asks holds [`hold_ids`].
pub(super) fn structure_of(id: &Id) -> *mut rdma_cm_id {
    std::ptr::with_exposed_provenance_mut(id.cookie() as usize)
}

/// `rdma_destroy_id(3)`: waits until its events are acknowledged. The peer of a connection is told.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    minus_one(|| {
        // SAFETY: passed on.
        unsafe { destroy(id) }?;
        Ok(0)
    })
}

/// # Safety
/// Null, or created; never used again.
pub(super) unsafe fn destroy(id: *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let own = unsafe { of(id) }?;
    own.id.destroy();
    {
        let _held = hold_ids();
        own.id.set_cookie(0);
    }
    // SAFETY: the caller's promise.
    unsafe { sync::release(id) };
    own.unacked.wait();
    // SAFETY: no event that is about it can be told any more.
    unsafe { IdObject::free(id) };
    devices::discount_user();
    Ok(())
}

/// `rdma_migrate_id(3)`: waits until fetched events are acknowledged.
///
/// # Safety
/// Null, or created; a channel that exists, or null.
pub(crate) unsafe extern "C" fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int {
    minus_one(|| {
        // SAFETY: passed on.
        unsafe { migrate(id, channel) }?;
        Ok(0)
    })
}

/// # Safety
/// As [`rdma_migrate_id`].
pub(super) unsafe fn migrate(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let own = unsafe { of(id) }?;
    if channel.is_null() && own.waits_on().is_some() {
        return Err(Errno::INVAL);
    }
    let new = if channel.is_null() { Some(OwnChannel::new()?) } else { None };
    let channel = new.as_ref().map_or(channel, OwnChannel::c);
    own.id.migrate(&channel::queue_of(channel)?)?;
    // SAFETY: the caller's promise.
    unsafe {
        sync::release(id);
        (&raw mut (*id).channel).write(channel);
    }
    let old = std::mem::replace(&mut own.state.lock().own_channel, new);
    own.unacked.wait();
    drop(old);
    Ok(())
}
