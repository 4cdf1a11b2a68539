//! Asynchronous events: changes of a device's state that no request caused.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use provider::Device;

use crate::descriptor::wait_for;

pub use device::AsyncEvent as Event;

/// The asynchronous events of one [`Context`](crate::Context), oldest first.
///
/// Each event goes to one reader. Read them in one of three ways:
/// [`try_next`](Events::try_next) never waits, [`wait`](Events::wait) blocks,
/// [`next`](Events::next) is a future, and the descriptor goes into `poll` or `epoll`.
#[derive(Debug)]
pub struct Events {
    device: Device,
}

impl Events {
    pub(crate) fn new(device: Device) -> Events {
        Events { device }
    }

    /// Takes the oldest event, if there is one.
    pub fn try_next(&mut self) -> Option<Event> {
        self.device.next_event()
    }

    /// Waits for an event at most `timeout`; `None` if none has come.
    ///
    /// # Errors
    /// If the system cannot wait.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Option<Event>> {
        let device = &self.device;
        wait_for(device.event_fd(), timeout, || device.next_event())
    }

    /// Waits for an event without blocking the thread.
    pub async fn next(&mut self) -> Event {
        poll_fn(|task| self.poll_next(task)).await
    }

    /// The poll function behind [`next`](Events::next), for those who write streams. One task
    /// per context is woken: the one that asked last.
    pub fn poll_next(&mut self, task: &mut TaskContext<'_>) -> Poll<Event> {
        if let Some(event) = self.try_next() {
            return Poll::Ready(event);
        }
        self.device.set_event_waker(Some(task.waker().clone()));
        match self.try_next() {
            Some(event) => Poll::Ready(event),
            None => Poll::Pending,
        }
    }
}

impl AsFd for Events {
    /// Readable exactly while there are events. Do not read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.event_fd()
    }
}
