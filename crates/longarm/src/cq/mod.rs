//! Completion queues: the device reports finished requests there.

mod channel;
mod core;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use device::CqError;
use futures_core::Stream;

use crate::completion::Completion;
use crate::error::ResourceError;
use crate::open_device::Device;
use crate::wait::CqWaiter;

pub use channel::CompletionChannel;
pub(crate) use core::CqCore;

/// A completion queue.
///
/// It serves any number of queue pairs and grows with them, so it cannot overrun. Programs that
/// await or wait for requests never poll it. In poll mode it gives the [`Completion`]s:
///
/// ```no_run
/// # use longarm::{CompletionQueue, Buffer, QueuePair};
/// # fn example(cq: CompletionQueue, qp: QueuePair, buffer: Buffer) -> Result<(), Box<dyn std::error::Error>> {
/// let ticket = qp.send(buffer).post()?;
/// let mut completions = Vec::new();
/// while completions.is_empty() {
///     cq.poll(&mut completions, 16)?;
/// }
/// let done = completions.remove(0);
/// assert_eq!(done.ticket(), ticket);
/// let buffer = done.into_buffer();
/// # Ok(())
/// # }
/// ```
///
/// A clone names the same queue. Polling drives the device: a program that polls needs no other
/// thread to make progress.
#[derive(Clone)]
pub struct CompletionQueue {
    core: Arc<CqCore>,
}

impl Device {
    /// Makes a completion queue.
    ///
    /// # Errors
    /// If there are too many.
    pub fn completion_queue(&self) -> Result<CompletionQueue, ResourceError> {
        CompletionQueue::new(self, None)
    }

    /// Makes a completion queue whose events go to `channel`.
    ///
    /// # Errors
    /// If there are too many, or the channel belongs to another device.
    pub fn completion_queue_on(&self, channel: &CompletionChannel) -> Result<CompletionQueue, ResourceError> {
        CompletionQueue::new(self, Some(channel))
    }
}

impl CompletionQueue {
    pub(crate) fn new(device: &Device, channel: Option<&CompletionChannel>) -> Result<CompletionQueue, ResourceError> {
        Ok(CompletionQueue { core: CqCore::new(device, channel)? })
    }

    /// Moves at most `max` completions of posted requests to the end of `out`, and
    /// returns how many. Never waits.
    ///
    /// Where other programs want the processor that the thread polls on, it may give it away until something arrives, for a
    /// few milliseconds at most. [`poll_for`](CompletionQueue::poll_for) has the choice.
    ///
    /// Requests that are awaited or waited for are served as well, but do not show up here.
    ///
    /// # Errors
    /// If the device lost completions, or the process was forked.
    pub fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        self.core.poll(out, max)
    }

    /// As [`poll`](CompletionQueue::poll), for a thread that has nothing else to do for `longest`, or something at once if
    /// that is zero. It gives its processor away for no longer, and only where other programs want it. It has it again when
    /// something arrives, or when a peer on this host changes memory of this process.
    ///
    /// # Errors
    /// As [`poll`](CompletionQueue::poll).
    pub fn poll_for(&self, out: &mut Vec<Completion>, max: usize, longest: Duration) -> Result<usize, CqError> {
        self.core.poll_for(out, max, longest)
    }

    /// Waits until there is a completion and returns it; `None` after `timeout`.
    ///
    /// # Errors
    /// As [`poll`](CompletionQueue::poll).
    pub fn wait(&self, timeout: Duration) -> Result<Option<Completion>, CqError> {
        let mut one = Vec::with_capacity(1);
        crate::wait::until(&self.core, timeout, |waker| {
            self.core.take_ready(&mut one, 1, waker);
            one.pop()
        })
    }

    /// Waits for the next completion without blocking the thread.
    ///
    /// # Errors
    /// As [`poll`](CompletionQueue::poll).
    pub async fn next(&self) -> Result<Completion, CqError> {
        let _waiting = CqWaiter::on(&self.core);
        poll_fn(|task| self.poll_next(task)).await
    }

    /// The completions of posted requests, as a [`Stream`](futures_core::Stream) that ends after an error.
    ///
    /// ```no_run
    /// # async fn example(cq: longarm::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::StreamExt;
    ///
    /// let mut completions = cq.completions();
    /// while let Some(completion) = completions.next().await {
    ///     println!("{:?} is done", completion?.ticket());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn completions(&self) -> Completions<'_> {
        Completions { cq: self, _waiting: CqWaiter::on(&self.core), failed: false }
    }

    fn poll_next(&self, task: &mut Context<'_>) -> Poll<Result<Completion, CqError>> {
        let mut one = Vec::with_capacity(1);
        let driven = self.core.progress_awake();
        if self.core.take_ready(&mut one, 1, Some(task.waker())) == 0 {
            let armed = driven.and_then(|()| self.core.arm());
            self.core.take_ready(&mut one, 1, Some(task.waker()));
            if let (true, Err(error)) = (one.is_empty(), armed) {
                return Poll::Ready(Err(error));
            }
        }
        one.pop().map_or(Poll::Pending, |completion| Poll::Ready(Ok(completion)))
    }

    /// Asks for one event on the [`CompletionChannel`] at the next completion from now on.
    /// Completions that are there already cause none: poll once after arming.
    ///
    /// # Errors
    /// As [`poll`](CompletionQueue::poll).
    pub fn arm(&self) -> Result<(), CqError> {
        self.core.handle().arm(false)
    }

    /// As [`arm`](CompletionQueue::arm), at the next completion that the peer wants noticed
    /// ([`solicited`](crate::Work::solicited)), or that has failed.
    ///
    /// # Errors
    /// As [`poll`](CompletionQueue::poll).
    pub fn arm_solicited(&self) -> Result<(), CqError> {
        self.core.handle().arm(true)
    }

    /// Completions that it can hold at present.
    pub fn capacity(&self) -> u32 {
        self.core.handle().capacity()
    }

    /// The number by which its [`CompletionChannel`] and [events](crate::Event) name it.
    pub fn id(&self) -> u64 {
        self.core.cookie()
    }

    pub(crate) fn core(&self) -> &Arc<CqCore> {
        &self.core
    }
}

/// The completions of one queue, from [`CompletionQueue::completions`]. Dropping it loses none.
pub struct Completions<'q> {
    cq: &'q CompletionQueue,
    _waiting: CqWaiter<'q>,
    failed: bool,
}

impl Stream for Completions<'_> {
    type Item = Result<Completion, CqError>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.failed {
            return Poll::Ready(None);
        }
        let polled = self.cq.poll_next(task);
        self.failed = matches!(polled, Poll::Ready(Err(_)));
        polled.map(Some)
    }
}

impl fmt::Debug for Completions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completions({:?})", self.cq)
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompletionQueue({})", self.id())
    }
}
