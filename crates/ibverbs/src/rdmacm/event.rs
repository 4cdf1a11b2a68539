//! Fetching and acknowledging events.

use std::os::fd::AsRawFd;

use ::connect::{EventKind, EventQueue};
use parking_lot::Mutex;

use crate::boundary::{Errno, minus_one};
use crate::rdmacm::event_object::{self, EventObject, EventOwn};
use crate::rdmacm::fetched::FetchedEvent;
use crate::rdmacm::{channel, event_effects, id_object, param};
use crate::verbs::wait::{self, EventAttempt};
use abi::*;

/// `rdma_get_cm_event(3)`: blocks unless the descriptor is set not to.
///
/// # Safety
/// A place for the event.
pub(crate) unsafe extern "C-unwind" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    let got = wait::until(|| {
        // SAFETY: the contract of `rdma_get_cm_event`: a place for the event.
        let place = unsafe { event.as_mut() }.ok_or(Errno::INVAL)?;
        attempt(channel, place)
    });
    if got < 0 && Errno::last() == Errno(libc::EBADF) && device::process_ends() {
        // The program has returned from `main`, and destroyed the channel while this thread used it. A moment earlier
        // the thread would have waited here, so it must not report an error now.
        wait::for_ever();
    }
    got
}

/// Waits for the next event that the program is told of.
pub(super) fn next(channel: *mut rdma_event_channel) -> Result<*mut rdma_cm_event, Errno> {
    let mut event = std::ptr::null_mut();
    while let EventAttempt::WaitAt(fd) = attempt(channel, &mut event)? {
        wait::readable(fd)?;
    }
    Ok(event)
}

/// Takes the next event that the program is told of, if there is one.
pub(super) fn attempt(channel: *mut rdma_event_channel, place: &mut *mut rdma_cm_event) -> Result<EventAttempt, Errno> {
    let queue = channel::queue_of(channel)?;
    if !queue.is_ours() && !::connect::take_over() {
        // A forked child would take events of its living parent.
        return Err(Errno(libc::EACCES));
    }
    while let Some(event) = queue_next(&queue) {
        // SAFETY: `queue_next` counted the event with its id, which keeps the id.
        if let Some(told) = event.and_then(|fetched| unsafe { tell(fetched) }) {
            *place = told;
            return Ok(EventAttempt::Done);
        }
    }
    Ok(EventAttempt::WaitAt(queue.fd().as_raw_fd()))
}

/// Takes the oldest event; `Some(None)` if its id is being destroyed.
fn queue_next(queue: &EventQueue) -> Option<Option<FetchedEvent>> {
    let held = id_object::hold_ids();
    let event = queue.next()?;
    let owner = id_object::structure_of(event.listener.as_ref().unwrap_or(&event.id));
    // SAFETY: null, or an id that the guard `held` keeps.
    let Ok(own) = (unsafe { id_object::of(owner) }) else { return Some(None) };
    own.unacked.fetched();
    let counted = own.unacked.clone();
    let (id, listener) = match event.kind {
        // The structure must exist before another thread fetches a later event about the id.
        // SAFETY: the owner of a connect request is a listener, which the guard keeps.
        EventKind::ConnectRequest => (unsafe { id_object::present_like(owner, event.id.clone()) }, owner),
        _ => (owner, std::ptr::null_mut()),
    };
    drop(held);
    Some(Some(FetchedEvent { event, id, listener, shown_context: std::ptr::null_mut(), counted }))
}

/// Applies an event's effects, and translates it for C. `None` if the program is not told.
///
/// # Safety
/// Its ids are kept by its count.
unsafe fn tell(mut fetched: FetchedEvent) -> Option<*mut rdma_cm_event> {
    // SAFETY: the contract of `tell`: its ids are kept by its count.
    if !unsafe { event_effects::apply(&mut fetched) } {
        fetched.counted.acknowledged();
        return None;
    }
    let FetchedEvent { event, id, listener, shown_context, counted } = fetched;
    let mut c = rdma_cm_event::zeroed();
    (c.id, c.listen_id) = (id, listener);
    (c.event, c.status) = (event.kind as c_int, event.status);
    // SAFETY: the contract of `tell`: the event's id exists.
    let private_data = unsafe { param::describe(&mut c, event.param) };
    if !shown_context.is_null() {
        c.param.ud.private_data = shown_context;
    }
    Some(EventObject::leak(c, EventOwn { _private_data: private_data, counted: Mutex::new(Some(counted)) }))
}

/// `rdma_ack_cm_event(3)`.
///
/// # Safety
/// Null, or fetched and not acknowledged.
pub(crate) unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    minus_one(|| {
        if event.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the contract of `rdma_ack_cm_event`: null, or fetched and not acknowledged.
        unsafe { event_object::acknowledge(event) };
        Ok(0)
    })
}
