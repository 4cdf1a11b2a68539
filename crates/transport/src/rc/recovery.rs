//! The requester's memory of losses: timers, probes, rewinds, and whether a sign of loss is news.

use wire::Psn;

use crate::attr::Tuning;
use crate::failure::QpFailure;
use crate::rc::probe::Probe;
use crate::rc::retry::RetryTimers;
use crate::reason::Reason;
use crate::time::Time;

/// The number of RNR retries that means: without limit.
const RNR_RETRY_FOREVER: u8 = 7;

/// See the module.
#[derive(Debug)]
pub(super) struct LossRecovery {
    pub(super) timers: RetryTimers,
    pub(super) probe: Probe,
    /// The PSN and the time of the last rewind.
    last_rewind: Option<(Psn, Time)>,
    /// Rewinds since then that brought no progress.
    futile_rewinds: u32,
}

/// The meaning of a sign of loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LossSign {
    /// The retransmission that repairs this loss is under way.
    Known,
    New,
    /// The retransmission did not help.
    Again,
}

impl LossRecovery {
    pub(super) fn new(tuning: &Tuning) -> LossRecovery {
        LossRecovery { timers: RetryTimers::new(tuning), probe: Probe::default(), last_rewind: None, futile_rewinds: 0 }
    }

    /// Nothing more is sent.
    pub(super) fn stop(&mut self) {
        self.timers.disarm();
        self.probe.clear();
    }

    /// Everything before `una` is acknowledged, more than before.
    pub(super) fn progress(&mut self, una: Psn, now: Time, outstanding: bool) {
        self.futile_rewinds = 0;
        self.timers.progress(una, now, outstanding);
    }

    /// Packets are sent again from `una` on.
    pub(super) fn rewound(&mut self, una: Psn, now: Time) {
        self.probe.clear();
        self.timers.rewound();
        self.last_rewind = Some((una, now));
    }

    /// Whether the cursor went back for a loss since then.
    pub(super) fn lost_since(&self, then: Time) -> bool {
        self.last_rewind.is_some_and(|(_, at)| at >= then)
    }

    /// Judges a sign that the packet at `una` is lost.
    pub(super) fn judge(&mut self, una: Psn, now: Time) -> LossSign {
        match self.last_rewind {
            Some((before, at)) if before == una => {
                if now.since(at) < self.timers.quiet_period(self.futile_rewinds) {
                    return LossSign::Known;
                }
                self.futile_rewinds += 1;
                LossSign::Again
            }
            _ => LossSign::New,
        }
    }

    /// Counts a retry. The failure if it was one more than `retries`.
    pub(super) fn count_retry(&mut self, retries: u8) -> Option<QpFailure> {
        self.timers.retries += 1;
        let reason = match self.futile_rewinds {
            0 => Reason::NoAnswer { retries },
            _ => Reason::SequenceErrors { retries },
        };
        (self.timers.retries > retries).then_some(QpFailure::SendQueue(reason))
    }

    /// Counts an RNR NAK. The failure if it was one more than `retries`.
    pub(super) fn count_rnr_retry(&mut self, retries: u8) -> Option<QpFailure> {
        if retries == RNR_RETRY_FOREVER {
            return None;
        }
        self.timers.rnr_retries += 1;
        (self.timers.rnr_retries > retries).then_some(QpFailure::SendQueue(Reason::ReceiverNotReady { retries }))
    }
}
