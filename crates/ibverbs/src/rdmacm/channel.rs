//! Event channels.

use std::os::fd::AsRawFd;

use ::connect::EventQueue;

use crate::abi::*;
use crate::boundary::{Errno, otherwise, pointer};
use crate::object::Object;
use crate::verbs::{log, wait};

pub(super) type ChannelObject = Object<rdma_event_channel, EventQueue>;

/// `rdma_create_event_channel(3)`.
pub(crate) extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    pointer(|| {
        log::start();
        create()
    })
}

fn create() -> Result<*mut rdma_event_channel, Errno> {
    let queue = EventQueue::new()?;
    wait::make_blocking(queue.fd())?;
    let c = rdma_event_channel { fd: queue.fd().as_raw_fd() };
    Ok(ChannelObject::leak(c, queue))
}

/// `rdma_destroy_event_channel(3)`.
///
/// # Safety
/// Null, or created, and nobody waits on it.
pub(crate) unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    otherwise((), || {
        if !channel.is_null() {
            // SAFETY: the caller's promise.
            unsafe { ChannelObject::free(channel) };
        }
    });
}

/// The channel that a synchronous id has for itself. It goes with this value.
pub(super) struct OwnChannel(*mut rdma_event_channel);

impl OwnChannel {
    pub(super) fn new() -> Result<OwnChannel, Errno> {
        create().map(OwnChannel)
    }

    pub(super) fn c(&self) -> *mut rdma_event_channel {
        self.0
    }
}

impl Drop for OwnChannel {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nobody else destroys it.
        unsafe { ChannelObject::free(self.0) };
    }
}
