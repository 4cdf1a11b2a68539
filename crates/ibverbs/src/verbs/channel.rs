//! Completion channels.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use device::CompChannel;

use crate::abi::*;
use crate::boundary::{Errno, errno, otherwise, pointer};
use crate::object::{Object, count_acknowledged};
use crate::rdmacm::devices;
use crate::verbs::context::Context;
use crate::verbs::cq::CqObject;
use crate::verbs::wait::{self, Attempt};

/// What belongs to a channel.
pub(crate) struct ChannelOwn {
    pub(crate) channel: CompChannel,
    /// Completion queues that use it, for the structure's `refcnt`.
    users: AtomicU32,
}

pub(crate) type ChannelObject = Object<ibv_comp_channel, ChannelOwn>;

/// `ibv_create_comp_channel(3)`.
///
/// # Safety
/// An open context.
pub(crate) unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    pointer(|| {
        // SAFETY: the caller's promise.
        let channel = unsafe { Context::of(context) }?.device.create_channel()?;
        wait::make_blocking(channel.fd())?;
        let c = ibv_comp_channel { context, fd: channel.fd().as_raw_fd(), refcnt: 0 };
        Ok(ChannelObject::leak(c, ChannelOwn { channel, users: AtomicU32::new(0) }))
    })
}

/// `ibv_destroy_comp_channel(3)`: EBUSY while completion queues use it.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        unsafe {
            ChannelObject::of(channel)?.channel.destroy()?;
            ChannelObject::free(channel);
        }
        devices::close_if_idle();
        Ok(())
    })
}

/// A completion queue begins or ends to use it.
///
/// # Safety
/// A channel that exists.
pub(crate) unsafe fn count_user(channel: *mut ibv_comp_channel, begins: bool) {
    // SAFETY: the caller's promise.
    if let Ok(own) = unsafe { ChannelObject::of(channel) } {
        let users = if begins { own.users.fetch_add(1, Relaxed) + 1 } else { own.users.fetch_sub(1, Relaxed) - 1 };
        // SAFETY: as above.
        unsafe { (&raw mut (*channel).refcnt).write(users as c_int) };
    }
}

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
        // SAFETY: the caller's promise.
        let own = unsafe { ChannelObject::of(channel) }?;
        if cq.is_null() || cq_context.is_null() {
            return Err(Errno::INVAL);
        }
        let Some(cookie) = own.channel.next() else { return Ok(Attempt::WaitAt(own.channel.fd().as_raw_fd())) };
        let of: *mut ibv_cq = std::ptr::with_exposed_provenance_mut(cookie as usize);
        // SAFETY: the cookie is the queue's address; it waits for our acknowledge before it goes.
        unsafe {
            *cq = of;
            *cq_context = (*of).cq_context;
        }
        Ok(Attempt::Done)
    })
}

/// `ibv_ack_cq_events(3)`.
///
/// # Safety
/// A queue that exists.
pub(crate) unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) {
    otherwise((), || {
        // SAFETY: the caller's promise.
        if let Ok(own) = unsafe { CqObject::whatever_handle(cq) } {
            // SAFETY: as above; a destroy waits for what comes next.
            unsafe { count_acknowledged(&raw mut (*cq).comp_events_completed, count) };
            own.acknowledge(count);
        }
    });
}
