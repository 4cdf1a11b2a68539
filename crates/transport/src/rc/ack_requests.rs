//! The requests that ask for an ACK.

use wire::Psn;

/// When an ACK was asked for last.
#[derive(Debug, Default)]
pub(super) struct AckRequests {
    /// Packets since the last one that asked.
    since: u32,
    /// The last PSN that asked.
    asked: Option<Psn>,
}

impl AckRequests {
    /// Whether to ask with the next packet, whatever its message is: after `interval` packets, and with the last one
    /// that may leave, unless an ACK was asked for lately. `awaits` tells whether an ACK is to come.
    pub(super) fn is_due(&self, interval: u32, is_last: bool, awaits: bool) -> bool {
        let since = self.since + 1;
        since >= interval || is_last && (since >= interval / 2 || !awaits)
    }

    /// A packet leaves.
    pub(super) fn note_sent(&mut self, psn: Psn, ack_req: bool) {
        self.since = if ack_req { 0 } else { self.since + 1 };
        if ack_req {
            self.asked = Some(psn);
        }
    }

    /// Whether a packet from `una` on has asked.
    pub(super) fn asked_since(&self, una: Psn) -> bool {
        self.asked.is_some_and(|asked| !asked.before(una))
    }

    /// Packets are sent again from the oldest one on.
    pub(super) fn rewind(&mut self) {
        self.since = 0;
    }
}
