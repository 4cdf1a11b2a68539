//! Completion events: fetching them from a channel, and acknowledging them.

use std::os::fd::AsRawFd;

use crate::boundary::{Errno, otherwise};
use crate::object::count_acknowledged;
use crate::verbs::channel::ChannelObject;
use crate::verbs::cq_object::CqObject;
use crate::verbs::wait::{self, EventAttempt};
use abi::*;

/// `ibv_get_cq_event(3)`: blocks unless the descriptor is set not to.
///
/// # Safety
/// A channel that exists, and places for the answer.
pub(crate) unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    wait::until(|| {
        // SAFETY: the contract of `ibv_get_cq_event`: a channel that exists, and places for the answer.
        let own = unsafe { ChannelObject::of(channel) }?;
        if cq.is_null() || cq_context.is_null() {
            return Err(Errno::INVAL);
        }
        let Some(cookie) = own.channel.next() else { return Ok(EventAttempt::WaitAt(own.channel.fd().as_raw_fd())) };
        let of: *mut ibv_cq = std::ptr::with_exposed_provenance_mut(cookie as usize);
        // SAFETY: the cookie is the queue's address; destroying it waits until this event is acknowledged.
        unsafe {
            *cq = of;
            *cq_context = (*of).cq_context;
        }
        Ok(EventAttempt::Done)
    })
}

/// `ibv_ack_cq_events(3)`.
///
/// # Safety
/// A queue that exists.
pub(crate) unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) {
    otherwise((), || {
        // SAFETY: the contract of `ibv_ack_cq_events`: a queue that exists.
        if let Ok(own) = unsafe { CqObject::whatever_handle(cq) } {
            // SAFETY: the contract of `ibv_ack_cq_events`: a queue that exists; a destroy waits for what comes next.
            unsafe { count_acknowledged(&raw mut (*cq).comp_events_completed, count) };
            own.acknowledge(count);
        }
    });
}
