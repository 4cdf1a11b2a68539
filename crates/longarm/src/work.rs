//! Work: a request that can be posted, awaited or waited for.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use transport::SendFlags;

use crate::completion::{Completion, Outcome};
use crate::cq::CqError;
use crate::error::{Failure, WaitError, WorkError};
use crate::flight::{Delivery, Done, Loan, Taken, Ticket};
use crate::qp::{Posted, QpCore};
use crate::request::Request;

/// A send work request that has not been posted yet. `T` is what comes back.
///
/// | to | call | the completion |
/// |---|---|---|
/// | await it | `.await` | is the future's output |
/// | block | [`.wait(timeout)`](Work::wait) | is returned |
/// | start it now and wait later | [`.start()`](Work::start) | comes from the [`InFlight`] |
/// | poll for it | [`.post()`](Work::post) | comes from [`CompletionQueue::poll`](crate::CompletionQueue::poll) |
#[derive(Debug)]
#[must_use = "nothing is posted until it is awaited, waited for, started or posted"]
pub struct Work<'q, T> {
    qp: &'q QpCore,
    request: Request,
    outcome: PhantomData<fn() -> T>,
}

impl<'q, T: Outcome> Work<'q, T> {
    pub(crate) fn new(qp: &'q QpCore, request: Request) -> Work<'q, T> {
        Work { qp, request, outcome: PhantomData }
    }

    /// Starts it only when all READs and atomics before it have completed.
    pub fn fence(mut self) -> Work<'q, T> {
        self.request.flags |= SendFlags::FENCE;
        self
    }

    /// Asks for an event at the receiver: see
    /// [`CompletionQueue::arm_solicited`](crate::CompletionQueue::arm_solicited).
    pub fn solicited(mut self) -> Work<'q, T> {
        self.request.flags |= SendFlags::SOLICITED;
        self
    }

    /// Causes no completion of its own. It is reported, and its buffers come back, with the next
    /// signaled request of this queue pair that completes, or when it fails. (Of a
    /// long run of unsignaled requests some are signaled all the same.)
    pub fn unsignaled(mut self) -> Unsignaled<'q, T> {
        self.request.flags -= SendFlags::SIGNALED;
        Unsignaled { work: self }
    }

    /// Posts it, for poll mode. It counts against the depth of the queue until its completion has
    /// been taken.
    ///
    /// # Errors
    /// If it was not posted; the buffers come back with the failure.
    pub fn post(self) -> Result<Ticket, Failure> {
        self.qp.post_send(self.request, Delivery::Poll).map(Ticket)
    }

    /// Posts it now. If that fails, the future is ready and says so.
    pub fn start(self) -> InFlight<T> {
        let posted = self.qp.post_send(self.request, Delivery::Waiter(None));
        InFlight::new(posted.map(|key| self.qp.send_posted(key)))
    }

    /// Posts it and waits for its completion. Polls for some microseconds, then sleeps.
    ///
    /// # Errors
    /// If it was not posted, failed, or has not completed in time. In the last case the device
    /// still has its buffers; they are freed when it has done with them.
    pub fn wait(self, timeout: Duration) -> Result<T, Failure> {
        self.start().wait(timeout)
    }
}

impl<T: Outcome> IntoFuture for Work<'_, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = InFlight<T>;

    fn into_future(self) -> InFlight<T> {
        self.start()
    }
}

/// A send work request that causes no completion of its own; see [`Work::unsignaled`].
#[derive(Debug)]
#[must_use = "nothing is posted until `post` is called"]
pub struct Unsignaled<'q, T> {
    work: Work<'q, T>,
}

impl<T: Outcome> Unsignaled<'_, T> {
    /// Posts it, for poll mode.
    ///
    /// # Errors
    /// If it was not posted; the buffers come back with the failure.
    pub fn post(self) -> Result<Ticket, Failure> {
        self.work.post()
    }
}

/// A work request on its way: a future of what comes back. `T` as in [`Work`].
///
/// It can be moved anywhere, awaited on any executor, waited for by a thread, or dropped.
/// **Dropping it takes nothing back**: the device goes on with the request and keeps the
/// buffers until it is done with them; then they are freed.
#[must_use = "if it is dropped, the buffers are freed when the device is done with them"]
pub struct InFlight<T> {
    state: State,
    outcome: PhantomData<fn() -> T>,
}

enum State {
    /// It was not posted.
    Failed(Failure),
    Posted {
        posted: Posted,
        /// Whether the completion queue counts us as waiting.
        waiting: bool,
    },
    Over,
}

impl<T: Outcome> InFlight<T> {
    pub(crate) fn new(posted: Result<Posted, Failure>) -> InFlight<T> {
        let state = match posted {
            Ok(posted) => State::Posted { posted, waiting: false },
            Err(failure) => State::Failed(failure),
        };
        InFlight { state, outcome: PhantomData }
    }

    /// Waits for the completion, with the thread. Polls for some microseconds, then sleeps.
    ///
    /// # Errors
    /// As [`Work::wait`].
    pub fn wait(mut self, timeout: Duration) -> Result<T, Failure> {
        self.wait_for(timeout).unwrap_or_else(|| Err(Failure::new(WorkError::TimedOut(timeout), Loan::None)))
    }

    /// As [`wait`](InFlight::wait), but `None` after `timeout`, and it can be waited for again.
    ///
    /// # Panics
    /// If the result was taken already.
    pub fn wait_for(&mut self, timeout: Duration) -> Option<Result<T, Failure>> {
        let done = match &self.state {
            State::Posted { posted, .. } => posted.wait(timeout).transpose()?,
            _ => return Some(self.end_early()),
        };
        Some(self.end(done))
    }

    /// The result of a request that was not posted.
    fn end_early(&mut self) -> Result<T, Failure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Failed(failure) => Err(failure),
            _ => panic!("the result of this request was taken already"),
        }
    }

    fn end(&mut self, done: Result<Done, CqError>) -> Result<T, Failure> {
        let State::Posted { posted, waiting } = std::mem::replace(&mut self.state, State::Over) else {
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

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Result<T, Failure>> {
        let done = match &mut self.state {
            State::Posted { posted, waiting } => match posted.poll(task, waiting) {
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
        if let State::Posted { posted, waiting } = &self.state {
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
            State::Failed(failure) => write!(f, "InFlight({failure})"),
            State::Posted { posted, .. } => write!(f, "InFlight({:?})", Ticket(posted.key)),
            State::Over => f.write_str("InFlight(over)"),
        }
    }
}

impl Posted {
    pub(crate) fn completion(&self, done: Done) -> Completion {
        let failed = !done.is_ok();
        let reason = failed.then(|| self.queue.reason()).flatten();
        Completion::new(self.key, done, reason)
    }

    /// Waits with the thread; `None` after `timeout`.
    fn wait(&self, timeout: Duration) -> Result<Option<Done>, CqError> {
        crate::wait::until(&self.cq, timeout, |waker| match self.queue.take_or_wait(self.key, waker) {
            Taken::Done(done) => Some(done),
            Taken::NotYet | Taken::Unknown => None,
        })
    }

    fn poll(&self, task: &mut TaskContext<'_>, waiting: &mut bool) -> Poll<Result<Done, CqError>> {
        let take = |waker| match self.queue.take_or_wait(self.key, waker) {
            Taken::Done(done) => Some(done),
            Taken::NotYet | Taken::Unknown => None,
        };
        let driven = self.cq.progress();
        if let Some(done) = take(Some(task.waker())) {
            return Poll::Ready(Ok(done));
        }
        if !std::mem::replace(waiting, true) {
            self.cq.enter();
        }
        let armed = driven.and_then(|()| self.cq.arm());
        match (take(Some(task.waker())), armed) {
            (Some(done), _) => Poll::Ready(Ok(done)),
            (None, Err(error)) => Poll::Ready(Err(error)),
            (None, Ok(())) => Poll::Pending,
        }
    }
}

/// Waits for a request that was posted for poll mode, and takes its completion out of those
/// that poll mode would see.
pub(crate) fn wait_for_ticket(qp: &QpCore, ticket: Ticket, timeout: Duration) -> Result<Completion, WaitError> {
    let posted = qp.posted(ticket.0).ok_or(WaitError::UnknownTicket)?;
    let found = crate::wait::until(&posted.cq, timeout, |waker| posted.claim(waker))?;
    let late = || posted.queue.stop_waiting(posted.key, Delivery::Poll);
    match found {
        Some(Some(completion)) => Ok(completion),
        Some(None) => Err(WaitError::UnknownTicket),
        None => late().map(|done| posted.completion(done)).ok_or(WaitError::TimedOut(timeout)),
    }
}

impl Posted {
    /// The completion of a request that was posted for poll mode; nothing within if there is no
    /// such request.
    fn claim(&self, waker: Option<&Waker>) -> Option<Option<Completion>> {
        match self.queue.take_or_wait(self.key, waker) {
            Taken::Done(done) => Some(Some(self.completion(done))),
            Taken::NotYet => None,
            Taken::Unknown => Some(self.cq.take_one(self.key)),
        }
    }
}
