//! Completion queues and channels.

use std::os::fd::BorrowedFd;
use std::task::Waker;
use std::time::Duration;

use device::{CqError, Error};
use transport::Completion;

/// A completion queue.
#[derive(Clone, Debug)]
pub enum Cq {
    /// Of a device of Longarm.
    Longarm(device::Cq),
    /// Of a device of the system.
    Verbs(verbs::Cq),
}

impl Cq {
    /// Takes at most `max` completions, and appends them to `out`. Returns their number. Never waits.
    ///
    /// # Errors
    /// See [`CqError`].
    #[inline]
    pub fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        either!(self, cq => cq.poll(out, max))
    }

    /// Polls as [`poll`](Cq::poll) does, for a program that has nothing else to do for `longest`. On a busy machine a device of
    /// Longarm may sleep for so long; one of the system never does.
    ///
    /// # Errors
    /// See [`CqError`].
    #[inline]
    pub fn poll_for(&self, out: &mut Vec<Completion>, max: usize, longest: Duration) -> Result<usize, CqError> {
        match self {
            Cq::Longarm(cq) => cq.poll_for(out, max, longest),
            Cq::Verbs(cq) => cq.poll(out, max),
        }
    }

    /// Whether it certainly holds no completion. A device of the system does not tell without a poll.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self {
            Cq::Longarm(cq) => cq.is_empty(),
            Cq::Verbs(_) => false,
        }
    }

    /// Asks for one event at the next completion; with `solicited_only` at the next that the peer wants noticed, or
    /// that failed.
    ///
    /// # Errors
    /// See [`CqError`].
    pub fn arm(&self, solicited_only: bool) -> Result<(), CqError> {
        either!(self, cq => cq.arm(solicited_only))
    }

    /// Sets the waker for the next event; it is called once.
    pub fn set_waker(&self, waker: Option<Waker>) {
        either!(self, cq => cq.set_waker(waker));
    }

    /// The number of completions that fit.
    pub fn capacity(&self) -> u32 {
        either!(self, cq => cq.capacity())
    }

    /// Changes the capacity.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn resize(&self, capacity: u32) -> Result<(), Error> {
        either!(self, cq => cq.resize(capacity))
    }

    pub(crate) fn longarm(&self) -> Result<&device::Cq, Error> {
        match self {
            Cq::Longarm(cq) => Ok(cq),
            Cq::Verbs(_) => Err(Error::OtherDevice("completion queue")),
        }
    }

    pub(crate) fn verbs(&self) -> Result<&verbs::Cq, Error> {
        match self {
            Cq::Verbs(cq) => Ok(cq),
            Cq::Longarm(_) => Err(Error::OtherDevice("completion queue")),
        }
    }
}

/// A channel for events of completion queues.
#[derive(Clone, Debug)]
pub enum CompChannel {
    /// Of a device of Longarm.
    Longarm(device::CompChannel),
    /// Of a device of the system.
    Verbs(verbs::CompChannel),
}

impl CompChannel {
    /// Readable exactly while there are events. Do not read from it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        either!(self, channel => channel.fd())
    }

    /// Takes the oldest event: the cookie of its completion queue.
    #[allow(clippy::should_implement_trait, reason = "an iterator would look finished between events")]
    pub fn next(&self) -> Option<u64> {
        either!(self, channel => channel.next())
    }

    pub(crate) fn longarm(&self) -> Result<&device::CompChannel, Error> {
        match self {
            CompChannel::Longarm(channel) => Ok(channel),
            CompChannel::Verbs(_) => Err(Error::OtherDevice("completion channel")),
        }
    }

    pub(crate) fn verbs(&self) -> Result<&verbs::CompChannel, Error> {
        match self {
            CompChannel::Verbs(channel) => Ok(channel),
            CompChannel::Longarm(_) => Err(Error::OtherDevice("completion channel")),
        }
    }
}
