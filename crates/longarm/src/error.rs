//! Errors, one enum per family of verbs, each in words that a person can act on.
//!
//! | error | of |
//! |---|---|
//! | [`OpenError`] | opening a [`Context`](crate::Context) |
//! | [`ResourceError`] | making and changing resources: domains, regions, queues, queue pairs |
//! | [`ConnectError`] | bringing a queue pair to its peer, listening |
//! | [`PostError`] | posting a work request |
//! | [`WorkError`] | what became of a work request |
//! | [`KeyError`] | naming memory |
//!
//! A [`Failure`] is a [`WorkError`] that brings the buffers back.

mod connect;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use transport::{Reason, Status};

use crate::buffer::Buffer;
use crate::flight::Loan;

pub use connect::{ConnectError, Refusal};
pub use device::{CaptureError, OpenError};

/// Why a resource could not be made or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// A size or count that makes no sense.
    #[error("{what} cannot be {is}: {rule}")]
    Invalid {
        /// Which.
        what: &'static str,
        /// What was asked for.
        is: u64,
        /// What it has to be.
        rule: &'static str,
    },
    /// Two resources of different contexts were used together.
    #[error("the {0} belongs to another context")]
    OtherContext(&'static str),
    /// The device has no address that the resource could use.
    #[error("the device has no {0} address")]
    NoAddress(&'static str),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] device::Error),
}

/// Why a work request was not posted. The device has not seen it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// As many requests as the queue holds are on their way.
    #[error("the queue is full: it holds {depth} work requests; wait for a completion, or make it deeper")]
    QueueFull {
        /// What it holds.
        depth: u32,
    },
    /// A buffer of another protection domain.
    #[error("the buffer belongs to another protection domain than the queue pair")]
    OtherDomain,
    /// The data is longer than the range of the peer's memory.
    #[error("{len_bytes} bytes do not fit into {remote_bytes} bytes of the peer's memory")]
    RemoteTooShort {
        /// Bytes to write.
        len_bytes: u64,
        /// Bytes that the key names.
        remote_bytes: u64,
    },
    /// The buffer is shorter than what is to be read.
    #[error("{remote_bytes} bytes of the peer's memory do not fit into a buffer of {capacity_bytes}")]
    BufferTooShort {
        /// Bytes that the key names.
        remote_bytes: u64,
        /// Bytes of the buffers.
        capacity_bytes: u64,
    },
    /// An atomic works on eight aligned bytes.
    #[error("an atomic operation needs a key to 8 bytes at an address that is a multiple of 8")]
    NotAWord,
    /// The queue pair takes its receive buffers from a shared receive queue.
    #[error("this queue pair receives from a shared receive queue: post the buffer there")]
    SharedReceive,
    /// The destination's address family is one that the device has no address of.
    #[error("the destination is at {0}, and this device has no address of that family")]
    NoRoute(IpAddr),
    /// The device refused.
    #[error(transparent)]
    Device(device::Error),
}

/// Why a work request did not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// It was not posted.
    #[error("not posted: {0}")]
    NotPosted(#[from] PostError),
    /// It failed, or was flushed because its queue pair failed.
    #[error("{}", describe(*.status, .reason.as_ref()))]
    Failed {
        /// What the completion says.
        status: Status,
        /// Why the queue pair failed, if it did.
        reason: Option<Reason>,
    },
    /// No completion in time. The request is still on its way and keeps its buffers.
    #[error("no completion within {0:?}; the request is still on its way")]
    TimedOut(Duration),
    /// The completion queue lost completions, maybe this one. The queue pair has
    /// failed; drop it to get its memory released.
    #[error("the completion may be lost: {0}")]
    Lost(device::CqError),
}

impl WorkError {
    /// The completion's status, if there was a completion.
    pub fn status(&self) -> Option<Status> {
        match self {
            WorkError::Failed { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Why the queue pair failed, if it did.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            WorkError::Failed { reason, .. } => *reason,
            _ => None,
        }
    }
}

/// Why a ticket could not be waited for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// No completion in time; the ticket is still good.
    #[error("no completion within {0:?}")]
    TimedOut(Duration),
    /// The ticket is not of this queue pair, or its completion was taken already.
    #[error("the ticket is not of this queue pair, or its completion was taken already")]
    UnknownTicket,
    /// The completion queue lost completions.
    #[error(transparent)]
    Lost(#[from] device::CqError),
}

/// Why a key is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Part of the range lies outside.
    #[error("{len_bytes} bytes from {offset} on leave the range of {range_bytes} bytes")]
    OutOfRange {
        /// Where the part begins.
        offset: u64,
        /// How long it is.
        len_bytes: u64,
        /// How long the whole is.
        range_bytes: u64,
    },
    /// An atomic access to a misaligned place.
    #[error("a word lies at a multiple of 8, not at {offset}")]
    Misaligned {
        /// Where it was to be.
        offset: u64,
    },
    /// The byte form has another length.
    #[error("the key's byte form has {wanted} bytes, not {is}")]
    Length {
        /// What was given.
        is: usize,
        /// What it has to be.
        wanted: usize,
    },
    /// The range wraps around the end of the address space.
    #[error("the range wraps around the end of the address space")]
    Wraps,
}

/// A work request that did not do its work, with the buffers that were lent to it.
///
/// As an error value it is the [`WorkError`]; [`into_buffer`](Failure::into_buffer) brings
/// the buffer back. There is none while the device still has it, after a timeout.
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

    /// What went wrong.
    pub fn error(&self) -> &WorkError {
        &self.inner.error
    }

    /// What went wrong, without the buffers.
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

fn describe(status: Status, reason: Option<&Reason>) -> String {
    match reason {
        None => words(status).to_owned(),
        Some(Reason::Requested) if status == Status::WorkRequestFlushed => {
            "flushed, since its connection ended, or the program moved it to the error state".into()
        }
        Some(reason) if status == Status::WorkRequestFlushed => {
            format!("flushed, since the queue pair had failed: {reason}")
        }
        Some(reason) => format!("{}: {reason}", words(status)),
    }
}

fn words(status: Status) -> &'static str {
    match status {
        Status::Success => "done",
        Status::LocalLength => "the message does not fit the buffers",
        Status::LocalQpOperation => "the queue pair failed",
        Status::LocalProtection => "the local buffers were refused",
        Status::WorkRequestFlushed => "flushed, since the queue pair was closed",
        Status::MwBind => "the memory window could not be bound",
        Status::BadResponse => "the peer's response fits no request",
        Status::LocalAccess => "the receive buffer was refused",
        Status::RemoteInvalidRequest => "the peer called the request invalid",
        Status::RemoteAccess => "the peer refused the key, the range or the right",
        Status::RemoteOperation => "the peer failed to carry the request out",
        Status::RetryExceeded => "no answer from the peer",
        Status::RnrRetryExceeded => "the peer had no receive buffer",
        Status::RemoteInvalidRdRequest => "the peer has no such shared receive queue",
        Status::RemoteAborted => "the peer aborted the operation",
        Status::Fatal => "the device failed",
        Status::General => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_request_says_why_its_queue_pair_died() {
        let error = WorkError::Failed { status: Status::RetryExceeded, reason: Some(Reason::NoAnswer { retries: 7 }) };
        let text = error.to_string();
        assert!(text.starts_with("no answer from the peer: "), "{text}");
        assert!(text.contains("7 retries"), "{text}");
    }

    #[test]
    fn a_flushed_request_names_the_first_cause() {
        let error = WorkError::Failed { status: Status::WorkRequestFlushed, reason: Some(Reason::MessageTooLong) };
        assert!(error.to_string().contains("longer than the receive buffer"));
        assert_eq!(error.status(), Some(Status::WorkRequestFlushed));
    }
}
