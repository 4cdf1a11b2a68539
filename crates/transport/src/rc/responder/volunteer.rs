//! Acknowledges that nobody asked for.
//!
//! A peer like us does not ask where nobody waits for the completion. It gets an acknowledge
//! all the same: with the next that is asked for, or else after a while, before it begins to
//! wonder. So a program that answers each message with one of its own pays for one
//! acknowledge in sixteen messages.

use core::time::Duration;

use crate::rc::responder::Responder;
use crate::time::Time;

/// How long such an acknowledge waits for one that is asked for.
const DELAY: Duration = Duration::from_micros(300);

/// Whether there is one, and when it leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Volunteer {
    #[default]
    No,
    /// Since the packet that is being handled.
    InAWhile,
    At(Time),
}

impl Responder {
    /// The time of the packet that was just handled.
    pub(crate) fn touch(&mut self, now: Time) {
        if self.volunteer == Volunteer::InAWhile {
            self.volunteer = Volunteer::At(now + DELAY);
        }
    }

    /// `Time::NEVER` if there is none.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Time {
        match self.volunteer {
            Volunteer::At(at) => at,
            _ => Time::NEVER,
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.next_timeout() <= now {
            self.ack_now();
        }
    }

    /// What was not acknowledged is now.
    pub(crate) fn ack_now(&mut self) {
        if core::mem::take(&mut self.volunteer) != Volunteer::No {
            self.responses.acknowledge(self.expected.sub(1), self.msn);
        }
    }
}
