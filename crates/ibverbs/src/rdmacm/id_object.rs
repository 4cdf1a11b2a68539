//! The objects behind communication identifiers.

use std::sync::Arc;

use ::connect::Id;
use device::QpType;
use parking_lot::{Mutex, MutexGuard};

use crate::boundary::Errno;
use crate::object::CObject;
use crate::rdmacm::channel::OwnChannel;
use crate::rdmacm::devices;
use crate::rdmacm::id_state::IdState;
use crate::verbs::unacked::Unacked;
use abi::*;

/// Our part of an id.
pub(crate) struct IdOwn {
    pub(super) id: Id,
    /// Events that its owner fetched and has not acknowledged: destroying it waits for them.
    pub(super) unacked: Arc<Unacked>,
    pub(super) state: Mutex<IdState>,
}

pub(super) type IdObject = CObject<rdma_cm_id, IdOwn>;

/// Held while an event is taken out of a queue and counted with its id, and while an id is destroyed: so no event
/// about a destroyed id reaches the program.
static DELIVERY: Mutex<()> = Mutex::new(());

/// Keeps all ids from being destroyed while the guard lives.
pub(super) fn hold_ids() -> MutexGuard<'static, ()> {
    DELIVERY.lock()
}

/// Our part of an id that a program gave us.
///
/// # Safety
/// Null, or created.
pub(super) unsafe fn of<'a>(id: *mut rdma_cm_id) -> Result<&'a IdOwn, Errno> {
    // SAFETY: the contract of `of`: null, or created.
    unsafe { IdObject::of(id) }
}

impl IdOwn {
    /// True if it carries datagrams.
    pub(super) fn is_ud(&self) -> bool {
        self.id.qp_type() == QpType::Ud
    }

    /// The channel that its calls wait on, if it is synchronous.
    pub(super) fn waits_on(&self) -> Option<*mut rdma_event_channel> {
        self.state.lock().own_channel.as_ref().map(OwnChannel::c)
    }
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

/// The structure for the id of a connect request.
///
/// # Safety
/// The listener exists.
pub(super) unsafe fn present_like(listener: *mut rdma_cm_id, id: Id) -> *mut rdma_cm_id {
    // SAFETY: the contract of `present_like`: the listener exists; programs may write to it.
    let (channel, context) = unsafe { ((*listener).channel, (*listener).context) };
    present(id, channel, context)
}

/// The structure of an id; null if the id is being destroyed. Callers hold the guard of [`hold_ids`].
pub(super) fn structure_of(id: &Id) -> *mut rdma_cm_id {
    std::ptr::with_exposed_provenance_mut(id.cookie() as usize)
}
