//! Requests in flight, as futures.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use device::CqError;

use crate::completion::Outcome;
use crate::error::WorkError;
use crate::flight::{Delivery, Failure, FinishedRequest, Loan, Ticket};
use crate::posted::PostedRequest;

/// A work request in flight: a future of its result. `T` as in [`Work`](crate::Work).
///
/// It can be moved anywhere, awaited on any executor, waited for by a thread, or dropped.
/// **Dropping it takes nothing back**: the device still carries the request out and keeps the
/// buffers until it is done with them; then they are freed.
///
/// ```no_run
/// # async fn example(qp: longarm::QueuePair, a: longarm::Buffer, b: longarm::Buffer) -> Result<(), Box<dyn std::error::Error>> {
/// let (first, second) = (qp.send(a).start(), qp.send(b).start());       // both are under way
/// let (a, b) = (first.await?, second.await?);
/// # Ok(())
/// # }
/// ```
#[must_use = "if it is dropped, the buffers are freed when the device is done with them"]
pub struct InFlight<T> {
    state: InFlightState,
    outcome: PhantomData<fn() -> T>,
}

enum InFlightState {
    /// The request was not posted.
    Failed(Failure),
    Posted {
        posted: PostedRequest,
        /// The completion queue counts this future as a waiter.
        waiting: bool,
    },
    Over,
}

impl<T: Outcome> InFlight<T> {
    pub(crate) fn new(posted: Result<PostedRequest, Failure>) -> InFlight<T> {
        let state = match posted {
            Ok(posted) => InFlightState::Posted { posted, waiting: false },
            Err(failure) => InFlightState::Failed(failure),
        };
        InFlight { state, outcome: PhantomData }
    }

    /// False if the request was not posted: the future is ready then, and says why. Requests that were started behind it may have
    /// been posted all the same.
    ///
    /// ```no_run
    /// # async fn example(qp: longarm::QueuePair, page: longarm::Buffer, place: longarm::RemoteKey) -> Result<(), longarm::Failure> {
    /// let written = qp.write(page, &place).start();
    /// if written.is_posted() {
    ///     qp.send_inline(b"the page is there").await?;
    /// }
    /// # drop(written.await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_posted(&self) -> bool {
        !matches!(self.state, InFlightState::Failed(_))
    }

    /// Waits for the completion, with the thread. Polls for some microseconds, then sleeps.
    ///
    /// # Errors
    /// As [`Work::wait`](crate::Work::wait).
    pub fn wait(mut self, timeout: Duration) -> Result<T, Failure> {
        self.wait_for(timeout).unwrap_or_else(|| Err(Failure::new(WorkError::TimedOut(timeout), Loan::None)))
    }

    /// As [`wait`](InFlight::wait), but `None` after `timeout`, and it can be waited for again.
    ///
    /// # Panics
    /// If the result was taken already.
    pub fn wait_for(&mut self, timeout: Duration) -> Option<Result<T, Failure>> {
        let done = match &self.state {
            InFlightState::Posted { posted, .. } => posted.wait(timeout).transpose()?,
            _ => return Some(self.end_early()),
        };
        Some(self.end(done))
    }

    /// The result of a request that was not posted.
    fn end_early(&mut self) -> Result<T, Failure> {
        match std::mem::replace(&mut self.state, InFlightState::Over) {
            InFlightState::Failed(failure) => Err(failure),
            _ => panic!("the result of this request was taken already"),
        }
    }

    fn end(&mut self, done: Result<FinishedRequest, CqError>) -> Result<T, Failure> {
        let InFlightState::Posted { posted, waiting } = std::mem::replace(&mut self.state, InFlightState::Over) else {
            return self.end_early();
        };
        if waiting {
            posted.cq.leave();
        }
        match done {
            Ok(done) => T::from_completion(posted.completion(done)),
            Err(error) => {
                drop(posted.queue.stop_waiting(posted.key, Delivery::Nobody));
                Err(Failure::new(WorkError::Lost(error), Loan::None))
            }
        }
    }
}

impl<T: Outcome> Future for InFlight<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        let done = match &mut self.state {
            InFlightState::Posted { posted, waiting } => match posted.poll(task, waiting) {
                Poll::Ready(done) => done,
                Poll::Pending => return Poll::Pending,
            },
            _ => return Poll::Ready(self.end_early()),
        };
        Poll::Ready(self.end(done))
    }
}

impl<T> Drop for InFlight<T> {
    fn drop(&mut self) {
        if let InFlightState::Posted { posted, waiting } = &self.state {
            drop(posted.queue.stop_waiting(posted.key, Delivery::Nobody));
            if *waiting {
                posted.cq.leave();
            }
        }
    }
}

impl<T> std::fmt::Debug for InFlight<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.state {
            InFlightState::Failed(failure) => write!(f, "InFlight({failure})"),
            InFlightState::Posted { posted, .. } => write!(f, "InFlight({:?})", Ticket(posted.key)),
            InFlightState::Over => f.write_str("InFlight(over)"),
        }
    }
}
