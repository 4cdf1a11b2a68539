//! Completion channels: one descriptor for many completion queues.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::descriptor::wait_for;
use crate::error::ResourceError;
use crate::open_device::Device;

/// A descriptor that becomes readable when [armed](crate::CompletionQueue::arm) completion
/// queues have something, for programs built around `poll` or `epoll`.
///
/// One event comes for each arming. Events can be spurious: poll the queue to see.
#[derive(Debug)]
pub struct CompletionChannel {
    handle: provider::CompChannel,
}

impl Device {
    /// Makes a completion channel.
    ///
    /// # Errors
    /// If the system has no descriptor for it.
    pub fn completion_channel(&self) -> Result<CompletionChannel, ResourceError> {
        CompletionChannel::new(self)
    }
}

impl CompletionChannel {
    pub(crate) fn new(device: &Device) -> Result<CompletionChannel, ResourceError> {
        let handle = device.handle().create_channel()?;
        Ok(CompletionChannel { handle })
    }

    /// Takes the oldest event: the [`id`](crate::CompletionQueue::id) of the completion queue
    /// that has something. `None` if there is no event. Never waits.
    pub fn next_event(&self) -> Option<u64> {
        self.handle.next()
    }

    /// Waits for an event at most `timeout`; `None` if none has come.
    ///
    /// # Errors
    /// If the system cannot wait.
    pub fn wait(&self, timeout: Duration) -> std::io::Result<Option<u64>> {
        wait_for(self.as_fd(), timeout, || self.next_event())
    }

    pub(crate) fn handle(&self) -> &provider::CompChannel {
        &self.handle
    }
}

impl AsFd for CompletionChannel {
    /// Readable exactly while [`next_event`](CompletionChannel::next_event) has something. Do
    /// not read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.fd()
    }
}
