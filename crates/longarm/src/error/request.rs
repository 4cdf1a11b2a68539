//! Errors of work requests: posting them, their outcome, waiting for them.

use std::net::IpAddr;
use std::time::Duration;

use transport::{Reason, Status};

/// The reason why a work request was not posted. The device has not seen it.
///
/// The buffers come back with the [`Failure`](crate::Failure).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The queue is full.
    #[error("the queue is full: it holds {depth} work requests; wait for a completion, or make it deeper")]
    QueueFull {
        /// The queue's depth.
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
    /// The buffer is shorter than the range to read.
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
    /// An extension of Longarm's that the device or the peer does not have: docs/extensions.md.
    #[error("{0} is an extension of Longarm's, which this device or its peer does not have")]
    Unsupported(&'static str),
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

impl PostError {
    /// The device has refused it.
    pub(crate) fn of_device(error: device::Error) -> PostError {
        match error {
            device::Error::Post(transport::PostError::PeerLacksExtension) => PostError::Unsupported("this request"),
            error => PostError::Device(error),
        }
    }
}

/// The reason why a work request did not succeed.
///
/// It is the error of a [`Failure`](crate::Failure).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// The request was not posted.
    #[error("not posted: {0}")]
    NotPosted(#[from] PostError),
    /// The request failed, or was flushed because its queue pair failed.
    #[error("{}", describe(*.status, .reason.as_ref()))]
    Failed {
        /// The completion's status.
        status: Status,
        /// The reason why the queue pair failed, if it did.
        reason: Option<Reason>,
    },
    /// No completion in time. The request is still in flight and keeps its buffers.
    #[error("no completion within {0:?}; the request is still in flight")]
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

    /// The reason why the queue pair failed, if it did.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            WorkError::Failed { reason, .. } => *reason,
            _ => None,
        }
    }
}

/// The reason why a ticket could not be waited for.
///
/// It comes from [`QueuePair::wait`](crate::QueuePair).
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
