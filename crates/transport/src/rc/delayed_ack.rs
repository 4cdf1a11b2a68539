//! Delayed ACKs: the responder's ACK for requests that did not ask for one.
//!
//! A Longarm requester does not ask for an ACK for an unsignaled request. The ACK leaves
//! together with the next one that is asked for, or else after a delay that is shorter than the requester's first
//! probe. So a program that answers each message with one of its own pays for one ACK in many messages.

use core::time::Duration;

use crate::time::Time;

/// The time for which the ACK waits for one that is asked for.
const DELAY: Duration = Duration::from_micros(300);

/// The state of the delayed ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum DelayedAck {
    #[default]
    None,
    /// Owed since the packet that is being handled; its time is noted after it.
    Unstamped,
    /// Leaves at this time.
    At(Time),
}

impl DelayedAck {
    /// A request came that did not ask for an ACK.
    #[inline]
    pub(super) fn owe(&mut self) {
        if *self == DelayedAck::None {
            *self = DelayedAck::Unstamped;
        }
    }

    /// An ACK that was asked for covers it.
    #[inline]
    pub(super) fn cancel(&mut self) {
        *self = DelayedAck::None;
    }

    /// The packet that was just handled came at `now`.
    #[inline]
    pub(super) fn stamp(&mut self, now: Time) {
        if *self == DelayedAck::Unstamped {
            *self = DelayedAck::At(now + DELAY);
        }
    }

    /// `Time::NEVER` if none is owed.
    #[inline]
    pub(super) fn due_at(&self) -> Time {
        match self {
            DelayedAck::At(at) => *at,
            DelayedAck::None | DelayedAck::Unstamped => Time::NEVER,
        }
    }

    /// Whether one is owed; from now on none is.
    pub(super) fn take(&mut self) -> bool {
        core::mem::take(self) != DelayedAck::None
    }
}
