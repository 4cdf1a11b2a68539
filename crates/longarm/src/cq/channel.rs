//! Completion channels: one descriptor for many completion queues.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::context::Context;
use crate::descriptor::wait_for;
use crate::error::ResourceError;

/// A descriptor that becomes readable when [armed](crate::CompletionQueue::arm) completion
/// queues have something, for programs built around `poll` or `epoll`.
///
/// One event comes for each arming. Events can be spurious: poll the queue to see.
#[derive(Debug)]
pub struct CompletionChannel {
    device: provider::CompChannel,
}

impl Context {
    /// Makes a completion channel.
    ///
    /// # Errors
    /// If the system has no descriptor for it.
    pub fn completion_channel(&self) -> Result<CompletionChannel, ResourceError> {
        CompletionChannel::new(self)
    }
}

impl CompletionChannel {
    pub(crate) fn new(context: &Context) -> Result<CompletionChannel, ResourceError> {
        let device = context.device().create_channel()?;
        Ok(CompletionChannel { device })
    }

    /// Takes the oldest event: the [`id`](crate::CompletionQueue::id) of the completion queue
    /// that has something. `None` if there is no event. Never waits.
    pub fn next_event(&self) -> Option<u64> {
        self.device.next()
    }

    /// Waits for an event at most `timeout`; `None` if none has come.
    ///
    /// # Errors
    /// If the system cannot wait.
    pub fn wait(&self, timeout: Duration) -> std::io::Result<Option<u64>> {
        wait_for(self.as_fd(), timeout, || self.next_event())
    }

    pub(crate) fn device(&self) -> &provider::CompChannel {
        &self.device
    }
}

impl AsFd for CompletionChannel {
    /// Readable exactly while [`next_event`](CompletionChannel::next_event) has something. Do
    /// not read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
}
