//! Fetching and acknowledging events.

use std::os::fd::AsRawFd;

use ::connect::{EventKind, EventQueue};
use parking_lot::Mutex;

use crate::abi::*;
use crate::boundary::{Errno, minus_one};
use crate::rdmacm::event_object::{self, EventObject, EventOwn};
use crate::rdmacm::fetched::FetchedEvent;
use crate::rdmacm::{channel, event_effects, id_object, param};
use crate::verbs::wait::{self, Attempt};

/// `rdma_get_cm_event(3)`: blocks unless the descriptor is set not to.
///
/// # Safety
/// A place for the event.
pub(crate) unsafe extern "C-unwind" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    let got = wait::until(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { event.as_mut() }.ok_or(Errno::INVAL)?;
        attempt(channel, place)
    });
    if got < 0 && Errno::last() == Errno(libc::EBADF) && device::process_ends() {
        // Its program has returned from `main`, and destroyed the channel under this thread: had the thread come
        // a moment earlier it would wait here, and must not say now that something went wrong.
        wait::for_ever();
    }
    got
}

/// The next event that there is something to tell about, however long it takes.
pub(super) fn next(channel: *mut rdma_event_channel) -> Result<*mut rdma_cm_event, Errno> {
    let mut event = std::ptr::null_mut();
    while let Attempt::WaitAt(fd) = attempt(channel, &mut event)? {
        wait::readable(fd)?;
    }
    Ok(event)
}

/// Looks for the next event that there is something to tell about.
pub(super) fn attempt(channel: *mut rdma_event_channel, place: &mut *mut rdma_cm_event) -> Result<Attempt, Errno> {
    let queue = channel::queue_of(channel)?;
    if !queue.is_ours() && !::connect::take_over() {
        // A forked child would take its parent's, which lives.
        return Err(Errno(libc::EACCES));
    }
    while let Some(event) = queue_next(&queue) {
        // SAFETY: it was fetched just now.
        if let Some(told) = event.and_then(|fetched| unsafe { tell(fetched) }) {
            *place = told;
            return Ok(Attempt::Done);
        }
    }
    Ok(Attempt::WaitAt(queue.fd().as_raw_fd()))
}

/// Takes the oldest event; `Some(None)` if its id goes.
fn queue_next(queue: &EventQueue) -> Option<Option<FetchedEvent>> {
    let held = id_object::hold_ids();
    let event = queue.next()?;
    let owner = id_object::structure_of(event.listener.as_ref().unwrap_or(&event.id));
    // SAFETY: null, or kept by what we hold.
    let Ok(own) = (unsafe { id_object::of(owner) }) else { return Some(None) };
    own.unacked.fetched();
    let counted = own.unacked.clone();
    let (id, listener) = match event.kind {
        // Before anybody fetches what comes next for it.
        // SAFETY: a listener, likewise.
        EventKind::ConnectRequest => (unsafe { id_object::present_like(owner, event.id.clone()) }, owner),
        _ => (owner, std::ptr::null_mut()),
    };
    drop(held);
    Some(Some(FetchedEvent { event, id, listener, shown_context: std::ptr::null_mut(), counted }))
}

/// Does what belongs to an event, and puts it in C's words. `None` if the program is not told.
///
/// # Safety
/// Its ids are kept by its count.
unsafe fn tell(mut fetched: FetchedEvent) -> Option<*mut rdma_cm_event> {
    // SAFETY: the caller's promise.
    if !unsafe { event_effects::apply(&mut fetched) } {
        fetched.counted.acknowledged();
        return None;
    }
    let FetchedEvent { event, id, listener, shown_context, counted } = fetched;
    let mut c = rdma_cm_event::zeroed();
    (c.id, c.listen_id) = (id, listener);
    (c.event, c.status) = (event.kind as c_int, event.status);
    // SAFETY: an id that exists, says the caller.
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
        // SAFETY: the caller's promise.
        unsafe { event_object::acknowledge(event) };
        Ok(0)
    })
}
