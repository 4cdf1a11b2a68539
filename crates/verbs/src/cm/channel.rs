//! Event channels of the library, and events that it waits to have acknowledged.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use abi::{rdma_cm_event, rdma_event_channel};
use connect::Error;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::cm::error::failed;
use crate::library::{RdmaCm, rdma_cm};

/// An event channel that goes with this value.
///
/// Its descriptor keeps its number, as the library closes it by that.
pub(super) struct OwnedEventChannel {
    library: &'static RdmaCm,
    channel: NonNull<rdma_event_channel>,
    /// The process that made it. The events of a forked child's copy would be its parent's.
    process: u32,
}

// SAFETY: any thread may call the library's functions (contracts of the crate). Nobody writes to the structure.
unsafe impl Send for OwnedEventChannel {}
// SAFETY: any thread may call the library's functions (contracts of the crate). Nobody writes to the structure.
unsafe impl Sync for OwnedEventChannel {}

impl OwnedEventChannel {
    /// A channel whose calls never wait.
    pub(super) fn open() -> Result<OwnedEventChannel, Error> {
        let library = rdma_cm().map_err(std::io::Error::other)?;
        // SAFETY: the function takes nothing.
        let channel = NonNull::new(unsafe { (library.rdma_create_event_channel)() });
        let channel = channel.ok_or_else(|| failed("rdma_create_event_channel"))?;
        let channel = OwnedEventChannel { library, channel, process: std::process::id() };
        let flags = fcntl_getfl(channel.fd()).map_err(std::io::Error::from)?;
        fcntl_setfl(channel.fd(), flags | OFlags::NONBLOCK).map_err(std::io::Error::from)?;
        Ok(channel)
    }

    pub(super) fn library(&self) -> &'static RdmaCm {
        self.library
    }

    pub(super) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Readable while there are events.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the handle keeps its object, and the channel its descriptor.
        unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) }
    }

    pub(super) fn as_ptr(&self) -> *mut rdma_event_channel {
        self.channel.as_ptr()
    }

    /// Takes the oldest event. Never waits.
    pub(super) fn next(&self) -> Option<UnackedEvent> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the handle keeps its object; there is room for the event.
        let result = unsafe { (self.library.rdma_get_cm_event)(self.channel.as_ptr(), &raw mut event) };
        let event = NonNull::new(event).filter(|_| result == 0)?;
        Some(UnackedEvent { library: self.library, event })
    }
}

impl Drop for OwnedEventChannel {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: the handle keeps its object until this call. Ids keep the queue with their channel.
            unsafe { (self.library.rdma_destroy_event_channel)(self.channel.as_ptr()) };
        }
    }
}

/// An event that was fetched. Dropping it acknowledges it. Until then the ids that it names cannot be freed:
/// `rdma_destroy_id(3)` waits.
pub(super) struct UnackedEvent {
    library: &'static RdmaCm,
    event: NonNull<rdma_cm_event>,
}

impl UnackedEvent {
    pub(super) fn event(&self) -> &rdma_cm_event {
        // SAFETY: the library wrote the event before it returned it, and keeps it until it is acknowledged.
        unsafe { self.event.as_ref() }
    }
}

impl Drop for UnackedEvent {
    fn drop(&mut self) {
        // SAFETY: the event was fetched, and nobody else acknowledges it.
        let result = unsafe { (self.library.rdma_ack_cm_event)(self.event.as_ptr()) };
        debug_assert_eq!(result, 0, "the event exists");
    }
}
