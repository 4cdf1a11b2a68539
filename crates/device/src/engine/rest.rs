//! The policy of a thread whose polls find nothing: when it gives its processor away.
//!
//! A thread that polls on a busy machine uses up the time that the scheduler grants it. When the message arrives, it has
//! none left and waits behind all threads that compute: several milliseconds for each message. A thread that sleeps keeps
//! its claim, and runs as soon as it is woken. On a quiet machine the opposite holds: waking a thread takes longer than
//! the message.
//!
//! ```text
//!               lost its processor for milliseconds while it polled
//!   spinning ─────────────────────────────────────────────────────────► resting: naps instead of polling
//!       ▲                                                                   │
//!       └────────────────── after a while, to see whether it is still so ◄──┘
//! ```
//!
//! This is the policy alone, a value without system calls. Each thread has its own, since each competes for itself.
//! `engine/nap.rs` carries it out.

use std::time::Duration;

use transport::Time;

use crate::engine::watch::NapTicket;

/// The weight of an empty poll of the lanes alone, and of an empty poll of everything.
pub(crate) const LANE_POLL: u32 = 1;
pub(crate) const FULL_POLL: u32 = 16;

/// After empty polls of this weight in a row the thread asks the system. That costs as much as two polls, and a thread
/// whose messages come in time never asks.
const ASK_WEIGHT: u32 = 256 * FULL_POLL;
/// After naps in vain of this weight in a row the thread yields: another thread that takes the frames needs less time.
const VAIN_WEIGHT: u32 = 4 * FULL_POLL;
/// A thread on a quiet machine loses its processor for microseconds. A loss of this much means that other threads
/// compute.
const LOST: Duration = Duration::from_millis(2);
/// The loss must also be this part of the time.
const LOST_PART: u32 = 8;
/// The time without a loss after which the comparison starts again.
const WINDOW: Duration = Duration::from_millis(20);
/// A comparison over a longer time says nothing about now.
const WINDOW_MAX: Duration = Duration::from_millis(500);
/// The time for which the thread rests before it tries to spin again: at first, and at most after several failures.
const HOLD_MIN: Duration = Duration::from_millis(50);
const HOLD_MAX: Duration = Duration::from_millis(1600);
/// A thread whose polls are further apart does other work between them.
const DENSE: Duration = Duration::from_micros(50);

/// The system's figures for a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ThreadUsage {
    /// The time for which it has run.
    pub(crate) ran: Duration,
    /// The number of times that the scheduler has taken its processor away.
    pub(crate) preempted: u64,
    /// The number of times that it has given its processor away.
    pub(crate) waited: u64,
}

/// The policy's answer to a thread that would poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advice {
    /// Poll.
    Spin,
    /// Sleep until something arrives.
    Nap,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RestPolicy {
    /// The weight of the polls in succession that found nothing.
    empty: u32,
    state: RestState,
    /// The length of the next rest.
    hold: Duration,
    /// The end of the last rest.
    rested: Time,
    /// The ticket of the next nap, if that was announced to peers that change this process's memory.
    announced: Option<NapTicket>,
}

#[derive(Clone, Copy, Debug)]
enum RestState {
    /// With the last figures of the system and their time.
    Spinning(Option<(Time, ThreadUsage)>),
    /// With the end of the rest, and the time of the last poll.
    Resting { until: Time, polled: Time },
}

impl Default for RestPolicy {
    fn default() -> RestPolicy {
        RestPolicy { empty: 0, state: RestState::Spinning(None), hold: HOLD_MIN, rested: Time(0), announced: None }
    }
}

impl RestPolicy {
    /// Notes that a poll has found something.
    #[inline]
    pub(crate) fn found(&mut self) {
        self.empty = 0;
    }

    /// Whether the thread rests: it asks for [advice](RestPolicy::advise) before it polls.
    #[inline]
    pub(crate) fn rests(&self) -> bool {
        matches!(self.state, RestState::Resting { .. })
    }

    /// A poll of this weight has found nothing. True if it is time to [`ask`](RestPolicy::ask) the system.
    #[inline]
    pub(crate) fn is_due(&mut self, weight: u32) -> bool {
        self.empty += weight;
        self.empty >= ASK_WEIGHT && !self.rests()
    }

    /// Notes that a nap has ended at once, and that the waiting frames could not be taken. True after several in a row.
    pub(crate) fn is_in_vain(&mut self) -> bool {
        self.empty += FULL_POLL;
        let in_vain = self.empty >= VAIN_WEIGHT;
        if in_vain {
            self.empty = 0;
        }
        in_vain
    }

    /// Takes the system's figures for the thread.
    pub(crate) fn ask(&mut self, now: Time, usage: ThreadUsage) {
        self.empty = 0;
        if let RestState::Spinning(before) = self.state {
            self.compare(before, now, usage);
        }
    }

    /// Tells what the thread should do instead of a poll.
    pub(crate) fn advise(&mut self, now: Time) -> Advice {
        match self.state {
            RestState::Spinning(_) => Advice::Spin,
            RestState::Resting { until, .. } if now >= until => {
                self.spin();
                Advice::Spin
            }
            RestState::Resting { until, polled } => {
                self.state = RestState::Resting { until, polled: now };
                if now.since(polled) <= DENSE {
                    return Advice::Nap;
                }
                // Peers will hear that the thread is awake. So the next nap needs an announcement of its own.
                self.announced = None;
                Advice::Spin
            }
        }
    }

    /// Notes that the next nap is announced. A program that polls memory looks at it between the announcement and the nap.
    pub(crate) fn announce(&mut self, ticket: NapTicket) {
        self.announced = Some(ticket);
    }

    /// Takes the ticket of the next nap, if that was announced.
    pub(crate) fn take_ticket(&mut self) -> Option<NapTicket> {
        self.announced.take()
    }

    /// Notes the end of a nap.
    pub(crate) fn woke(&mut self, now: Time) {
        if let RestState::Resting { polled, .. } = &mut self.state {
            *polled = now;
        }
    }

    /// Returns to polls, since the thread is about to sleep until an event.
    pub(crate) fn spin(&mut self) {
        (self.state, self.empty, self.announced) = (RestState::Spinning(None), 0, None);
    }

    /// Rests from now on.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn rest_until(&mut self, until: Time) {
        self.state = RestState::Resting { until, polled: Time(0) };
    }

    fn compare(&mut self, before: Option<(Time, ThreadUsage)>, now: Time, usage: ThreadUsage) {
        let since = match before {
            Some((start, then)) if usage.waited == then.waited && now.since(start) <= WINDOW_MAX => {
                let passed = now.since(start);
                let lost = passed.saturating_sub(usage.ran.saturating_sub(then.ran));
                if usage.preempted > then.preempted && lost >= LOST && lost * LOST_PART >= passed {
                    return self.rest(now);
                }
                if passed >= WINDOW { (now, usage) } else { (start, then) }
            }
            _ => (now, usage),
        };
        self.state = RestState::Spinning(Some(since));
    }

    fn rest(&mut self, now: Time) {
        let again = now.since(self.rested) <= self.hold * 2;
        self.hold = if again { (self.hold * 2).min(HOLD_MAX) } else { HOLD_MIN };
        self.rested = now + self.hold;
        self.state = RestState::Resting { until: self.rested, polled: now };
    }
}

#[cfg(test)]
mod tests;
