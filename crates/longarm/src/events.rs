//! Asynchronous events: changes of a device's state that no request caused.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

use crate::descriptor::wait_for;

pub use device::AsyncEvent as Event;

/// The asynchronous events of one [`Device`](crate::Device), oldest first.
///
/// Each event goes to one reader. [`try_next`](Events::try_next) never waits, [`wait`](Events::wait) blocks, and
/// [`next`](Events::next) is a future. Events are a [`Stream`], too, and their descriptor goes into `poll` or `epoll`.
#[derive(Debug)]
pub struct Events {
    handle: provider::Device,
}

impl Events {
    pub(crate) fn new(handle: provider::Device) -> Events {
        Events { handle }
    }

    /// Takes the oldest event, if there is one.
    pub fn try_next(&mut self) -> Option<Event> {
        self.handle.next_event()
    }

    /// Waits for an event at most `timeout`; `None` if none has come.
    ///
    /// # Errors
    /// If the system cannot wait.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Option<Event>> {
        let handle = &self.handle;
        wait_for(handle.event_fd(), timeout, || handle.next_event())
    }

    /// Waits for an event without blocking the thread.
    pub async fn next(&mut self) -> Event {
        poll_fn(|task| self.poll_event(task)).await
    }

    /// One task per device is woken: the one that asked last.
    fn poll_event(&mut self, task: &mut Context<'_>) -> Poll<Event> {
        if let Some(event) = self.try_next() {
            return Poll::Ready(event);
        }
        self.handle.set_event_waker(Some(task.waker().clone()));
        match self.try_next() {
            Some(event) => Poll::Ready(event),
            None => Poll::Pending,
        }
    }
}

impl Stream for Events {
    type Item = Event;

    /// Never ends.
    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Event>> {
        self.get_mut().poll_event(task).map(Some)
    }
}

impl AsFd for Events {
    /// Readable exactly while there are events. Do not read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.event_fd()
    }
}
