//! Communication identifiers: making them, moving them to another channel, their end.

use ::connect::{Id, PortSpace};
use device::QpType;

use crate::boundary::{Errno, minus_one};
use crate::rdmacm::channel::{self, OwnChannel};
use crate::rdmacm::id_object::{IdObject, hold_ids, of, present};
use crate::rdmacm::{devices, event_object};
use crate::verbs::log;
use abi::*;

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
        // SAFETY: the contract of `rdma_create_id`: a channel that exists, or null; a place for the id.
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
    // SAFETY: the object was made in the line above.
    unsafe { of(c) }?.state.lock().own_channel = own_channel;
    Ok(c)
}

/// `rdma_destroy_id(3)`: waits until its events are acknowledged. The peer of a connection is told.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_destroy_id` includes that of `destroy`.
        unsafe { destroy(id) }?;
        Ok(0)
    })
}

/// # Safety
/// Null, or created; never used again.
pub(super) unsafe fn destroy(id: *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: the contract of `destroy`: null, or created; never used again.
    let own = unsafe { of(id) }?;
    own.id.destroy();
    {
        let _held = hold_ids();
        own.id.set_cookie(0);
    }
    // SAFETY: the contract of `destroy`: null, or created; never used again.
    unsafe { event_object::release_shown(id) };
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
        // SAFETY: the contract of `rdma_migrate_id` includes that of `migrate`.
        unsafe { migrate(id, channel) }?;
        Ok(0)
    })
}

/// # Safety
/// As [`rdma_migrate_id`].
pub(super) unsafe fn migrate(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> Result<(), Errno> {
    // SAFETY: the contract of `migrate`, which is that of `rdma_migrate_id`.
    let own = unsafe { of(id) }?;
    if channel.is_null() && own.waits_on().is_some() {
        return Err(Errno::INVAL);
    }
    let new = if channel.is_null() { Some(OwnChannel::new()?) } else { None };
    let channel = new.as_ref().map_or(channel, OwnChannel::c);
    own.id.migrate(&channel::queue_of(channel)?)?;
    // SAFETY: the contract of `migrate`, which is that of `rdma_migrate_id`.
    unsafe {
        event_object::release_shown(id);
        (&raw mut (*id).channel).write(channel);
    }
    let old = std::mem::replace(&mut own.state.lock().own_channel, new);
    own.unacked.wait();
    drop(old);
    Ok(())
}
