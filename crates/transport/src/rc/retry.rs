//! The timers of a requester: ACK timeout, early probe, RNR timer.
//!
//! The timeout of the queue pair (9.7.6.1.3) says when an unanswered request
//! counts against `retry_count`. It is coarse, usually tens of milliseconds.
//! Long before it a *probe* sends the oldest unacknowledged packet again, to learn
//! what was lost; probes cost no retry, and their distance doubles.

use core::time::Duration;

use wire::Psn;

use crate::attr::{QpAttr, Tuning};
use crate::time::Time;

/// The earliest probe: a peer that was scheduled away for a moment is not a loss.
const MIN_PROBE_DELAY: Duration = Duration::from_millis(3);
/// The latest.
const MAX_PROBE_DELAY: Duration = Duration::from_millis(100);
/// The longest time for which a repeated sign of loss is not news.
const MAX_QUIET_PERIOD: Duration = Duration::from_millis(1);

/// The action that a timer asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimerDue {
    /// Nothing yet.
    Nothing,
    /// Send the oldest packet again.
    Probe,
    /// The timeout has passed: send everything again, or give up.
    Timeout,
    /// The wait that the peer's RNR NAK asked for is over.
    RnrOver,
}

#[derive(Debug)]
pub(crate) struct RetryTimers {
    min_timeout: Duration,
    timeout: Option<Duration>,
    deadline: Option<Time>,
    probe_at: Option<Time>,
    probes: u32,
    /// Probes and timeouts since the peer's last answer.
    unanswered: u32,
    rnr_until: Option<Time>,
    round_trip: Option<Duration>,
    sample: Option<(Psn, Time)>,
    /// Timeouts and sequence errors since the last progress.
    pub(crate) retries: u8,
    /// RNR NAKs since the last progress.
    pub(crate) rnr_retries: u8,
}

impl RetryTimers {
    pub(crate) fn new(tuning: &Tuning) -> RetryTimers {
        RetryTimers {
            min_timeout: tuning.min_ack_timeout,
            timeout: None,
            deadline: None,
            probe_at: None,
            probes: 0,
            unanswered: 0,
            rnr_until: None,
            round_trip: None,
            sample: None,
            retries: 0,
            rnr_retries: 0,
        }
    }

    /// Takes the timeout from the attributes; code 0 means none.
    pub(crate) fn configure(&mut self, attr: &QpAttr) {
        self.timeout = wire::ack_timeout(attr.timeout).map(|t| t.max(self.min_timeout));
    }

    /// A request has left: from now on an answer is waited for.
    pub(crate) fn arm_if_idle(&mut self, now: Time) {
        if self.probe_at.is_none() {
            self.arm(now);
        }
    }

    /// A packet has left for the first time; one at a time measures the round trip.
    pub(crate) fn sample(&mut self, psn: Psn, now: Time) {
        if self.sample.is_none() {
            self.sample = Some((psn, now));
        }
    }

    /// Everything before `una` is acknowledged, more than before.
    pub(crate) fn progress(&mut self, una: Psn, now: Time, outstanding: bool) {
        self.retries = 0;
        self.rnr_retries = 0;
        self.probes = 0;
        // The receiver is ready earlier than it said.
        self.rnr_until = None;
        if let Some((psn, sent)) = self.sample
            && psn.before(una)
        {
            self.learn(now.since(sent));
            self.sample = None;
        }
        if outstanding { self.arm(now) } else { self.disarm() }
    }

    /// The peer has answered, be it an ACK or a NAK.
    #[inline]
    pub(crate) fn answered(&mut self) {
        self.unanswered = 0;
    }

    /// Probes and timeouts since the peer's last answer.
    #[inline]
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// Packets are sent again: a round-trip sample across that would be wrong.
    pub(crate) fn rewound(&mut self) {
        self.sample = None;
    }

    /// Waits as an RNR NAK asks for; no other timer runs meanwhile.
    pub(crate) fn wait_for_receiver(&mut self, until: Time) {
        self.disarm();
        self.rnr_until = Some(until);
    }

    /// Whether the requester waits after an RNR NAK.
    pub(crate) fn waits_for_receiver(&self) -> bool {
        self.rnr_until.is_some()
    }

    /// Whether the queue pair has an ACK timeout.
    pub(crate) fn has_timeout(&self) -> bool {
        self.timeout.is_some()
    }

    /// Nothing is outstanding any more.
    pub(crate) fn disarm(&mut self) {
        self.deadline = None;
        self.probe_at = None;
        self.rnr_until = None;
        self.sample = None;
    }

    /// `Time::NEVER` if nothing is waited for.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Time {
        let [rnr, probe, deadline] = [self.rnr_until, self.probe_at, self.deadline].map(Time::or_never);
        rnr.min(probe).min(deadline)
    }

    /// Returns the timer that has run out, if any, and sets the next.
    pub(crate) fn expire(&mut self, now: Time) -> TimerDue {
        let passed = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if passed(self.rnr_until) {
            self.rnr_until = None;
            TimerDue::RnrOver
        } else if passed(self.deadline) {
            self.probes = 0;
            self.unanswered = self.unanswered.saturating_add(1);
            self.arm(now);
            TimerDue::Timeout
        } else if passed(self.probe_at) {
            self.probes += 1;
            self.unanswered = self.unanswered.saturating_add(1);
            self.probe_at = Some(now + self.probe_delay());
            TimerDue::Probe
        } else {
            TimerDue::Nothing
        }
    }

    /// The round trip, once there was one.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// The time for which a repeated sign of the same loss is ignored: about one round trip, doubled by each of the
    /// `times` that a retransmission did not help.
    pub(crate) fn quiet_period(&self, times: u32) -> Duration {
        let base = self.round_trip.unwrap_or(MAX_QUIET_PERIOD).min(MAX_QUIET_PERIOD);
        (base * (1 << times.min(8))).min(MAX_PROBE_DELAY)
    }

    fn arm(&mut self, now: Time) {
        self.deadline = self.timeout.map(|timeout| now + timeout);
        self.probe_at = Some(now + self.probe_delay());
    }

    fn probe_delay(&self) -> Duration {
        let base = self.round_trip.map_or(MIN_PROBE_DELAY, |rtt| rtt * 4);
        let backoff = 1u32 << self.probes.min(8);
        (base.max(MIN_PROBE_DELAY) * backoff).min(MAX_PROBE_DELAY)
    }

    fn learn(&mut self, sample: Duration) {
        self.round_trip = Some(self.round_trip.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
    }
}
