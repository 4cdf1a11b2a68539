//! Failures that end a work request or a queue pair.

use crate::host::QpEvent;
use crate::reason::Reason;

/// A failure that a service has found. [`Qp`](crate::Qp) changes the state and flushes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QpFailure {
    /// The oldest send WQE failed.
    SendQueue(Reason),
    /// The whole queue pair, with an event for its owner.
    QueuePair(Reason, Option<QpEvent>),
}
