//! Completion queues that the library makes for an id whose program gives none, each with a channel;
//! the structure shows them.

use crate::boundary::Errno;
use crate::rdmacm::devices::created;
use crate::rdmacm::id_object::IdOwn;
use crate::rdmacm::id_state::OwnQueue;
use crate::verbs::{channel, cq, cq_create};
use abi::*;

impl OwnQueue {
    /// # Safety
    /// An id that exists, bound to a device.
    unsafe fn new(c: *mut rdma_cm_id, entries: u32) -> Result<OwnQueue, Errno> {
        let entries = c_int::try_from(entries.max(1)).map_err(|_| Errno::INVAL)?;
        // SAFETY: the contract of `new`: an id that exists, bound to a device.
        unsafe {
            let channel = created(channel::ibv_create_comp_channel((*c).verbs))?;
            // Programs find the id in the completion queue (`rdma_get_send_comp`).
            let cq = cq_create::ibv_create_cq((*c).verbs, entries, c.cast(), channel, 0);
            created(cq).map(|cq| OwnQueue { cq, channel }).inspect_err(|_| {
                channel::ibv_destroy_comp_channel(channel);
            })
        }
    }

    /// # Safety
    /// Nothing uses it.
    unsafe fn destroy(self) {
        // SAFETY: the contract of `destroy`: nobody uses it any more. It stays if something still uses it.
        unsafe {
            if cq::ibv_destroy_cq(self.cq) == 0 {
                channel::ibv_destroy_comp_channel(self.channel);
            }
        }
    }
}

/// A completion queue for an id's sends.
///
/// # Safety
/// `c` is the structure that `own` belongs to; it is bound to a device.
pub(super) unsafe fn make_send(c: *mut rdma_cm_id, own: &IdOwn, entries: u32) -> Result<*mut ibv_cq, Errno> {
    // SAFETY: the contract of `make_send`: `c` is the structure that `own` belongs to; it is bound to a device.
    unsafe {
        let queue = OwnQueue::new(c, entries)?;
        (&raw mut (*c).send_cq_channel).write(queue.channel);
        (&raw mut (*c).send_cq).write(queue.cq);
        own.state.lock().queues.send = Some(queue);
        Ok(queue.cq)
    }
}

/// A completion queue for an id's receives. It is also that of the id's shared receive queue.
///
/// # Safety
/// As [`make_send`].
pub(super) unsafe fn make_recv(c: *mut rdma_cm_id, own: &IdOwn, entries: u32) -> Result<*mut ibv_cq, Errno> {
    if let Some(queue) = own.state.lock().queues.recv {
        return Ok(queue.cq);
    }
    // SAFETY: the contract of `make_recv`, which is that of `make_send`.
    unsafe {
        let queue = OwnQueue::new(c, entries)?;
        (&raw mut (*c).recv_cq_channel).write(queue.channel);
        (&raw mut (*c).recv_cq).write(queue.cq);
        own.state.lock().queues.recv = Some(queue);
        Ok(queue.cq)
    }
}

/// Destroys the queues that the library made for an id, as far as nothing uses them.
///
/// # Safety
/// As [`make_send`].
pub(super) unsafe fn destroy(c: *mut rdma_cm_id, own: &IdOwn) {
    let mut state = own.state.lock();
    // SAFETY: the contract of `destroy`, which is that of `make_send`.
    unsafe {
        let (has_qp, has_srq) = (!(*c).qp.is_null(), !(*c).srq.is_null());
        let send = if has_qp { None } else { state.queues.send.take() };
        let recv = if has_qp || has_srq { None } else { state.queues.recv.take() };
        drop(state);
        if let Some(queue) = send {
            (&raw mut (*c).send_cq).write(std::ptr::null_mut());
            (&raw mut (*c).send_cq_channel).write(std::ptr::null_mut());
            queue.destroy();
        }
        if let Some(queue) = recv {
            (&raw mut (*c).recv_cq).write(std::ptr::null_mut());
            (&raw mut (*c).recv_cq_channel).write(std::ptr::null_mut());
            queue.destroy();
        }
    }
}
