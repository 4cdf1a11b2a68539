//! Event channels.
//!
//! Programs have threads that wait at a channel for as long as the process lives, and destroy it under them as they
//! leave (`rping` does). So a channel is looked up whenever it is given to us, never followed.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;

use ::connect::EventQueue;
use parking_lot::RwLock;

use crate::abi::*;
use crate::boundary::{Errno, otherwise, pointer};
use crate::verbs::{log, wait};

/// The queues of all channels that exist, by the address of the structure that programs see.
static QUEUES: RwLock<BTreeMap<usize, EventQueue>> = RwLock::new(BTreeMap::new());

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
    let channel = Box::into_raw(Box::new(rdma_event_channel { fd: queue.fd().as_raw_fd() }));
    QUEUES.write().insert(channel.addr(), queue);
    Ok(channel)
}

/// The queue of a channel: EINVAL for null, EBADF for one that was destroyed, as its descriptor was.
pub(super) fn queue_of(channel: *mut rdma_event_channel) -> Result<EventQueue, Errno> {
    if channel.is_null() {
        return Err(Errno::INVAL);
    }
    QUEUES.read().get(&channel.addr()).cloned().ok_or(Errno(libc::EBADF))
}

/// `rdma_destroy_event_channel(3)`. Who waits on it waits on, as the kernel lets it.
pub(crate) extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    otherwise((), || {
        let queue = QUEUES.write().remove(&channel.addr());
        if queue.is_some() {
            // SAFETY: made by `create`, and taken out of the table by nobody else.
            drop(unsafe { Box::from_raw(channel) });
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
        rdma_destroy_event_channel(self.0);
    }
}
