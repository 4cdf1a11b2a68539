//! Event channels.
//!
//! Programs have threads that wait at a channel for as long as the process lives, and destroy it under them as they
//! leave (`rping` does). So a channel is looked up whenever it is given to us, never followed.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;

use ::connect::{EventQueue, Id, SessionHold};
use parking_lot::RwLock;

use crate::boundary::{Errno, otherwise, pointer};
use crate::rdmacm::devices;
use crate::verbs::{log, wait};
use abi::*;

/// All channels that exist, by the address of the structure that programs see.
static CHANNELS: RwLock<BTreeMap<usize, EventChannel>> = RwLock::new(BTreeMap::new());

struct EventChannel {
    queue: EventQueue,
    /// Set by the first id: later ones need not attach this process to the hub again.
    hold: Option<SessionHold>,
}

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
    CHANNELS.write().insert(channel.addr(), EventChannel { queue, hold: None });
    devices::count_user();
    Ok(channel)
}

/// The queue of a channel: EINVAL for null, EBADF for one that was destroyed, as its descriptor was.
pub(super) fn queue_of(channel: *mut rdma_event_channel) -> Result<EventQueue, Errno> {
    if channel.is_null() {
        return Err(Errno::INVAL);
    }
    CHANNELS.read().get(&channel.addr()).map(|known| known.queue.clone()).ok_or(Errno(libc::EBADF))
}

/// Keeps the process attached to the hub as long as a channel exists that has had an id.
pub(super) fn keep(channel: *mut rdma_event_channel, id: &Id) {
    if let Some(known) = CHANNELS.write().get_mut(&channel.addr()) {
        known.hold.get_or_insert_with(|| id.keep());
    }
}

/// `rdma_destroy_event_channel(3)`. Threads that wait on it keep waiting, as with the kernel.
///
/// The channel leaves the table last, since the other steps take time: rping has a thread that may use the channel once
/// more before the program ends.
pub(crate) extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    otherwise((), || {
        let hold = match CHANNELS.write().get_mut(&channel.addr()) {
            None => return,
            Some(known) => known.hold.take(),
        };
        drop(hold);
        devices::discount_user();
        let known = CHANNELS.write().remove(&channel.addr());
        if known.is_some() {
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
