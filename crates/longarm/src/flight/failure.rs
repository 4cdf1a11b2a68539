//! Failed work requests, with the buffers that they give back.

use std::fmt;

use transport::Status;

use super::Loan;
use crate::buffer::Buffer;
use crate::error::{PostError, WorkError};

/// A work request that did not succeed, with the buffers that were lent to it.
///
/// As an error value it is the [`WorkError`]; [`into_buffer`](Failure::into_buffer) returns the
/// buffer. There is none while the device still has it, after a timeout.
///
/// ```no_run
/// # use std::time::Duration;
/// use longarm::Status;
///
/// # fn example(qp: longarm::QueuePair, buffer: longarm::Buffer, key: longarm::RemoteKey) {
/// match qp.write(buffer, &key).wait(Duration::from_secs(5)) {
///     Ok(buffer) => drop(buffer),
///     Err(failure) if failure.status() == Some(Status::RemoteAccess) => println!("the key is revoked"),
///     Err(failure) => {
///         println!("{failure}");                           // why, and why the queue pair died
///         let buffer = failure.into_buffer();
///     }
/// }
/// # }
/// ```
pub struct Failure {
    inner: Box<FailureInner>,
}

struct FailureInner {
    error: WorkError,
    loan: Loan,
}

impl Failure {
    pub(crate) fn new(error: WorkError, loan: Loan) -> Failure {
        Failure { inner: Box::new(FailureInner { error, loan }) }
    }

    pub(crate) fn not_posted(error: PostError, loan: Loan) -> Failure {
        Failure::new(error.into(), loan)
    }

    /// The error.
    pub fn error(&self) -> &WorkError {
        &self.inner.error
    }

    /// The error, without the buffers.
    pub fn into_error(self) -> WorkError {
        self.inner.error
    }

    /// The buffer (the first, if there were several).
    pub fn into_buffer(self) -> Option<Buffer> {
        self.into_buffers().into_iter().next()
    }

    /// All buffers.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.inner.loan.into_buffers()
    }

    /// The completion's status, if there was a completion.
    pub fn status(&self) -> Option<Status> {
        self.inner.error.status()
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.error.fmt(f)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.error.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.error.source()
    }
}

impl From<Failure> for WorkError {
    fn from(failure: Failure) -> WorkError {
        failure.into_error()
    }
}
