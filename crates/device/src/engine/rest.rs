//! When a poll that finds nothing gives the processor away.
//!
//! A thread that polls on a busy machine burns the time that the scheduler grants it. When the message arrives the
//! thread has none left, and waits for its turn behind everybody who computes: several milliseconds for each message.
//! A thread that sleeps keeps its claim, and runs as soon as it is woken. On a quiet machine the opposite holds:
//! waking a thread takes longer than the message.
//!
//! ```text
//!               lost its processor for milliseconds while it polled
//!   spinning ─────────────────────────────────────────────────────────► resting: naps instead of polling
//!       ▲                                                                   │
//!       └────────────────── after a while, to see whether it is still so ◄──┘
//! ```
//!
//! This is the policy alone: what it is told goes in, what to do comes out. Each thread has its own, since each
//! competes for itself. `engine/nap.rs` carries it out.

use std::time::Duration;

use transport::Time;

/// What an empty look at lanes weighs, and what an empty poll weighs that has looked at everything.
pub(crate) const LOOK: u32 = 1;
pub(crate) const POLL: u32 = 16;

/// Polls of this weight that find nothing, in succession, lead to a question to the system: it costs as much as
/// two polls, and a thread whose messages come in time never asks.
const ASK_WEIGHT: u32 = 256 * POLL;
/// Naps in vain of this weight, in succession: another thread that is just taking what waits needs less time.
const VAIN_WEIGHT: u32 = 4 * POLL;
/// A thread on a quiet machine loses its processor for microseconds. So much at once means that others compute.
const LOST: Duration = Duration::from_millis(2);
/// And at least this part of the time.
const LOST_PART: u32 = 8;
/// After so long without a loss the comparison begins anew.
const WINDOW: Duration = Duration::from_millis(20);
/// A comparison over a longer time says nothing about now.
const WINDOW_MAX: Duration = Duration::from_millis(500);
/// How long it rests at first before it tries again to spin, and at most after several attempts that failed.
const HOLD_MIN: Duration = Duration::from_millis(50);
const HOLD_MAX: Duration = Duration::from_millis(1600);
/// A thread whose polls are further apart has other things to do than to wait.
const DENSE: Duration = Duration::from_micros(50);

/// What the system says of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Usage {
    /// For how long it has run.
    pub(crate) ran: Duration,
    /// How often the scheduler took its processor away.
    pub(crate) preempted: u64,
    /// How often it gave its processor away.
    pub(crate) waited: u64,
}

/// What a thread that polls should do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advice {
    /// Poll.
    Spin,
    /// Sleep until something arrives.
    Nap,
}

/// How one thread waits.
#[derive(Debug)]
pub(crate) struct Rest {
    /// The weight of the polls in succession that found nothing.
    empty: u32,
    state: State,
    /// For how long it rests when it begins to.
    hold: Duration,
    /// When it rested last.
    rested: Time,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// What the system said, and when.
    Spinning(Option<(Time, Usage)>),
    /// Until then; and when it last looked for something to do.
    Resting { until: Time, looked: Time },
}

impl Default for Rest {
    fn default() -> Rest {
        Rest { empty: 0, state: State::Spinning(None), hold: HOLD_MIN, rested: Time(0) }
    }
}

impl Rest {
    /// A poll has found something.
    #[inline]
    pub(crate) fn found(&mut self) {
        self.empty = 0;
    }

    /// Whether the thread rests: it asks for [advice](Rest::advise) before it polls.
    #[inline]
    pub(crate) fn rests(&self) -> bool {
        matches!(self.state, State::Resting { .. })
    }

    /// A poll of this weight has found nothing. True if it is time to [`ask`](Rest::ask) the system.
    #[inline]
    pub(crate) fn is_due(&mut self, weight: u32) -> bool {
        self.empty += weight;
        self.empty >= ASK_WEIGHT && !self.rests()
    }

    /// A nap has ended at once, and what waits could not be taken. True if that was so several times in succession.
    pub(crate) fn is_in_vain(&mut self) -> bool {
        self.empty += POLL;
        let in_vain = self.empty >= VAIN_WEIGHT;
        if in_vain {
            self.empty = 0;
        }
        in_vain
    }

    /// What the system says of the thread.
    pub(crate) fn ask(&mut self, now: Time, usage: Usage) {
        self.empty = 0;
        if let State::Spinning(before) = self.state {
            self.compare(before, now, usage);
        }
    }

    /// What the thread should do instead of a poll.
    pub(crate) fn advise(&mut self, now: Time) -> Advice {
        match self.state {
            State::Spinning(_) => Advice::Spin,
            State::Resting { until, .. } if now >= until => {
                self.spin();
                Advice::Spin
            }
            State::Resting { until, looked } => {
                self.state = State::Resting { until, looked: now };
                if now.since(looked) <= DENSE { Advice::Nap } else { Advice::Spin }
            }
        }
    }

    /// A nap has ended.
    pub(crate) fn woke(&mut self, now: Time) {
        if let State::Resting { looked, .. } = &mut self.state {
            *looked = now;
        }
    }

    /// The thread is about to wait for an event: it has its own way to sleep.
    pub(crate) fn spin(&mut self) {
        (self.state, self.empty) = (State::Spinning(None), 0);
    }

    fn compare(&mut self, before: Option<(Time, Usage)>, now: Time, usage: Usage) {
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
        self.state = State::Spinning(Some(since));
    }

    fn rest(&mut self, now: Time) {
        let again = now.since(self.rested) <= self.hold * 2;
        self.hold = if again { (self.hold * 2).min(HOLD_MAX) } else { HOLD_MIN };
        self.rested = now + self.hold;
        self.state = State::Resting { until: self.rested, looked: now };
    }
}

#[cfg(test)]
mod tests;
