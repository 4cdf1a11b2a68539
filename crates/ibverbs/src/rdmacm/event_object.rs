//! Events that a program has fetched: the objects, and their acknowledgement.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::object::CObject;
use crate::verbs::unacked::Unacked;
use abi::*;

pub(super) type EventObject = CObject<rdma_cm_event, EventOwn>;

/// Our part of an event: the bytes that its parameters point to, and the count that it is in.
pub(super) struct EventOwn {
    pub(super) _private_data: Vec<u8>,
    pub(super) counted: Mutex<Option<Arc<Unacked>>>,
}

/// # Safety
/// Fetched and not acknowledged.
pub(super) unsafe fn acknowledge(event: *mut rdma_cm_event) {
    // SAFETY: the contract of `acknowledge`: fetched and not acknowledged.
    unsafe {
        uncount(event);
        EventObject::free(event);
    }
}

/// Takes an event out of its id's count, so that the id can be destroyed before the event is acknowledged.
///
/// # Safety
/// Fetched and not acknowledged.
pub(super) unsafe fn uncount(event: *mut rdma_cm_event) {
    // SAFETY: the contract of `uncount`: fetched and not acknowledged.
    let Ok(own) = (unsafe { EventObject::of(event) }) else { return };
    let counted = own.counted.lock().take();
    if let Some(unacked) = counted {
        unacked.acknowledged();
    }
}

/// Acknowledges the event that an id shows.
///
/// # Safety
/// An id that exists.
pub(super) unsafe fn release_shown(id: *mut rdma_cm_id) {
    // SAFETY: the contract of `release_shown`: an id that exists; what the id shows was fetched by us.
    unsafe {
        let place = &raw mut (*id).event;
        let event = place.replace(std::ptr::null_mut());
        if !event.is_null() {
            acknowledge(event);
        }
    }
}
