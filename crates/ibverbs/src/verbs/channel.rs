//! Completion channels.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use device::CompChannel;

use crate::boundary::{errno, pointer};
use crate::object::CObject;
use crate::verbs::context::ContextOwn;
use crate::verbs::{teardown, wait};
use abi::*;

/// Our part of a completion channel.
pub(crate) struct ChannelOwn {
    pub(crate) channel: CompChannel,
    /// Completion queues that use it, for the structure's `refcnt`.
    users: AtomicU32,
}

pub(crate) type ChannelObject = CObject<ibv_comp_channel, ChannelOwn>;

/// `ibv_create_comp_channel(3)`.
///
/// # Safety
/// An open context.
pub(crate) unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    pointer(|| {
        // SAFETY: the contract of `ibv_create_comp_channel`: an open context.
        let channel = unsafe { ContextOwn::of(context) }?.device.create_channel()?;
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
        // SAFETY: the contract of `ibv_destroy_comp_channel`: null, or created.
        unsafe {
            ChannelObject::of(channel)?.channel.destroy()?;
            ChannelObject::free(channel);
        }
        teardown::object_destroyed();
        Ok(())
    })
}

/// A completion queue begins or ends to use it.
///
/// # Safety
/// A channel that exists.
pub(crate) unsafe fn count_user(channel: *mut ibv_comp_channel, begins: bool) {
    // SAFETY: the contract of `count_user`: a channel that exists.
    if let Ok(own) = unsafe { ChannelObject::of(channel) } {
        let users = if begins { own.users.fetch_add(1, Relaxed) + 1 } else { own.users.fetch_sub(1, Relaxed) - 1 };
        // SAFETY: the contract of `count_user`: a channel that exists.
        unsafe { (&raw mut (*channel).refcnt).write(users as c_int) };
    }
}
