//! Events that a program has fetched: the objects, and their acknowledgement.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::*;
use crate::object::Object;
use crate::verbs::unacked::Unacked;

pub(super) type EventObject = Object<rdma_cm_event, EventOwn>;

/// What belongs to an event: the bytes that its parameters point to, and whose count it is in.
pub(super) struct EventOwn {
    pub(super) _private_data: Vec<u8>,
    pub(super) counted: Mutex<Option<Arc<Unacked>>>,
}

/// # Safety
/// Fetched and not acknowledged.
pub(super) unsafe fn acknowledge(event: *mut rdma_cm_event) {
    // SAFETY: the caller's promise.
    unsafe {
        uncount(event);
        EventObject::free(event);
    }
}

/// Lets its id go without waiting for its acknowledge.
///
/// # Safety
/// Fetched and not acknowledged.
pub(super) unsafe fn uncount(event: *mut rdma_cm_event) {
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise: what the id shows was fetched by us.
    unsafe {
        let place = &raw mut (*id).event;
        let event = place.replace(std::ptr::null_mut());
        if !event.is_null() {
            acknowledge(event);
        }
    }
}
