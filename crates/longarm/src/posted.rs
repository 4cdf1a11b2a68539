//! Posted requests: from the work queue that holds them to those who wait for them.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use device::CqError;

use crate::completion::Completion;
use crate::cq::CqCore;
use crate::error::WaitError;
use crate::flight::{Delivery, FinishedRequest, RequestKey, RequestStatus, WorkQueue};

/// A request that the device has taken: where its completion will be entered.
#[derive(Debug)]
pub(crate) struct PostedRequest {
    pub(crate) queue: Arc<WorkQueue>,
    pub(crate) cq: Arc<CqCore>,
    pub(crate) key: RequestKey,
}

impl PostedRequest {
    pub(crate) fn completion(&self, done: FinishedRequest) -> Completion {
        let failed = !done.is_ok();
        let reason = failed.then(|| self.queue.reason()).flatten();
        Completion::new(self.key, done, reason)
    }

    /// Waits with the thread; `None` after `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<Option<FinishedRequest>, CqError> {
        crate::wait::until(&self.cq, timeout, |waker| match self.queue.take_or_wait(self.key, waker) {
            RequestStatus::Done(done) => Some(done),
            RequestStatus::NotYet | RequestStatus::Unknown => None,
        })
    }

    /// Polls for the completion, for a task. `waiting` tells whether the completion queue counts the task already.
    pub(crate) fn poll(&self, task: &mut Context<'_>, waiting: &mut bool) -> Poll<Result<FinishedRequest, CqError>> {
        let take = |waker| match self.queue.take_or_wait(self.key, waker) {
            RequestStatus::Done(done) => Some(done),
            RequestStatus::NotYet | RequestStatus::Unknown => None,
        };
        let driven = self.cq.progress_awake();
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

    /// Waits for a request that was posted for poll mode, and takes its completion out of those
    /// that poll mode would see.
    pub(crate) fn wait_for_completion(&self, timeout: Duration) -> Result<Completion, WaitError> {
        let found = crate::wait::until(&self.cq, timeout, |waker| self.claim(waker))?;
        let late = || self.queue.stop_waiting(self.key, Delivery::Poll);
        match found {
            Some(Some(completion)) => Ok(completion),
            Some(None) => Err(WaitError::UnknownTicket),
            None => late().map(|done| self.completion(done)).ok_or(WaitError::TimedOut(timeout)),
        }
    }

    /// The completion of a request that was posted for poll mode; nothing within if there is no
    /// such request.
    fn claim(&self, waker: Option<&Waker>) -> Option<Option<Completion>> {
        match self.queue.take_or_wait(self.key, waker) {
            RequestStatus::Done(done) => Some(Some(self.completion(done))),
            RequestStatus::NotYet => None,
            RequestStatus::Unknown => Some(self.cq.take_one(self.key)),
        }
    }
}
