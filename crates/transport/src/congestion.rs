//! The bytes that one queue pair keeps in flight: a window in bytes that grows with
//! success and shrinks with loss.
//!
//! RC has no flow control of its own on a lossy network, and all queue pairs of a process receive through one socket
//! buffer. So a window bounds the bytes that the requester has sent and the READ responses that it has asked for.
//! [`dcqcn`] limits the rate as well, once the network has reported congestion.

pub(crate) mod dcqcn;

use wire::Psn;

/// The evidence for a congestion notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Evidence {
    /// It carries the cookie that only the peer knows.
    Proven,
    /// The first answer of the peer, which may tell the cookie, is still to come.
    FirstRoundTrip,
    /// Packets were lost lately.
    Loss,
    /// Nothing: anybody may have sent it.
    None,
}

/// The congestion window: the requester reads it and reports ACKs and losses to it.
pub(crate) trait Congestion {
    /// Bytes that may be in flight now, overhead included.
    fn window_bytes(&self) -> u64;
    /// `bytes` were acknowledged.
    fn on_acked(&mut self, bytes: u64);
    /// Packets were lost: `una` is the first unacknowledged PSN, `sent` the one after the last sent.
    fn on_loss(&mut self, una: Psn, sent: Psn);
    /// Selective retransmission: these bytes of what was sent are known to be lost, and no others.
    fn on_missing(&mut self, lost_bytes: u64, una: Psn, sent: Psn);
    /// A retransmission was lost too.
    fn on_loss_again(&mut self);
    /// Nothing came back for a whole timeout.
    fn on_timeout(&mut self);
    /// The peer reports congestion (Annex A17.9, CNP).
    fn on_congestion_notification(&mut self, evidence: Evidence, una: Psn, sent: Psn);
}

/// Additive increase, multiplicative decrease: slow start, then one packet per window. A loss takes a quarter off,
/// at most once per window in flight. If the number of lost bytes is known, only those come off, up to that quarter:
/// an overrun buffer loses many packets of a window, a bad cable one.
#[derive(Debug)]
pub(crate) struct Aimd {
    window_bytes: u64,
    threshold_bytes: u64,
    max_bytes: u64,
    initial_bytes: u64,
    packet_bytes: u64,
    recovery_end: Option<Psn>,
    /// The lower bound that losses within the present window leave.
    floor_bytes: u64,
}

/// A loss does not push the window below this many packets; a timeout does.
const MIN_LOSS_PACKETS: u64 = 8;
/// The window after a timeout.
const MIN_PACKETS: u64 = 2;

impl Aimd {
    /// Windows between a few packets and `max_bytes`, beginning with `initial_bytes`.
    pub(crate) fn new(initial_bytes: u32, max_bytes: u32) -> Aimd {
        let max_bytes = u64::from(max_bytes.max(initial_bytes));
        Aimd {
            window_bytes: u64::from(initial_bytes),
            threshold_bytes: max_bytes,
            max_bytes,
            initial_bytes: u64::from(initial_bytes),
            packet_bytes: 4096,
            recovery_end: None,
            floor_bytes: 0,
        }
    }

    /// Starts over on a path with packets of `packet_bytes`.
    pub(crate) fn restart(&mut self, packet_bytes: u64) {
        *self = Aimd { packet_bytes, ..Aimd::new(self.initial_bytes as u32, self.max_bytes as u32) };
    }

    fn shrink_once(&mut self, una: Psn, sent: Psn) {
        if self.recovery_end.is_some_and(|end| una.before(end)) {
            return;
        }
        self.recovery_end = Some(sent);
        let least = (MIN_LOSS_PACKETS * self.packet_bytes).min(self.max_bytes);
        self.window_bytes = (self.window_bytes * 3 / 4).max(least);
        self.threshold_bytes = self.window_bytes;
    }
}

impl Congestion for Aimd {
    fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    fn on_acked(&mut self, bytes: u64) {
        let growth = if self.window_bytes < self.threshold_bytes {
            bytes
        } else {
            self.packet_bytes * bytes / self.window_bytes.max(1)
        };
        self.window_bytes = (self.window_bytes + growth).min(self.max_bytes);
    }

    fn on_loss(&mut self, una: Psn, sent: Psn) {
        self.shrink_once(una, sent);
    }

    fn on_missing(&mut self, lost_bytes: u64, una: Psn, sent: Psn) {
        if self.recovery_end.is_none_or(|end| !una.before(end)) {
            self.recovery_end = Some(sent);
            let least = (MIN_LOSS_PACKETS * self.packet_bytes).min(self.window_bytes);
            self.floor_bytes = (self.window_bytes * 3 / 4).max(least);
        }
        let left = self.window_bytes.saturating_sub(lost_bytes).max(self.floor_bytes);
        self.window_bytes = self.window_bytes.min(left);
        self.threshold_bytes = self.window_bytes;
    }

    fn on_loss_again(&mut self) {
        self.window_bytes = (self.window_bytes / 2).max(MIN_PACKETS * self.packet_bytes).min(self.max_bytes);
        self.threshold_bytes = self.window_bytes.max(MIN_LOSS_PACKETS * self.packet_bytes);
    }

    fn on_timeout(&mut self) {
        self.threshold_bytes = (self.window_bytes / 2).max(MIN_LOSS_PACKETS * self.packet_bytes);
        self.window_bytes = (MIN_PACKETS * self.packet_bytes).min(self.max_bytes);
        self.recovery_end = None;
    }

    /// Without evidence it leaves half of the largest window.
    fn on_congestion_notification(&mut self, evidence: Evidence, una: Psn, sent: Psn) {
        let before = self.window_bytes;
        self.shrink_once(una, sent);
        if evidence == Evidence::None {
            self.window_bytes = self.window_bytes.max(before.min(self.max_bytes / 2));
            self.threshold_bytes = self.window_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_its_bound_and_no_further() {
        let mut aimd = Aimd::new(8192, 65536);
        for _ in 0..100 {
            aimd.on_acked(4096);
        }
        assert_eq!(aimd.window_bytes(), 65536);
    }

    #[test]
    fn one_loss_per_window_counts() {
        let mut aimd = Aimd::new(200_000, 200_000);
        aimd.on_loss(Psn::new(10), Psn::new(50));
        let once = aimd.window_bytes();
        aimd.on_loss(Psn::new(49), Psn::new(60));
        assert_eq!(aimd.window_bytes(), once);
        aimd.on_loss(Psn::new(50), Psn::new(60));
        assert!(aimd.window_bytes() < once);
    }

    #[test]
    fn what_is_missing_comes_off_the_window_up_to_a_quarter() {
        let mut aimd = Aimd::new(400_000, 400_000);
        aimd.on_missing(4000, Psn::new(10), Psn::new(50));
        aimd.on_missing(4000, Psn::new(11), Psn::new(60));
        assert_eq!(aimd.window_bytes(), 392_000);
        aimd.on_missing(1 << 40, Psn::new(49), Psn::new(70));
        assert_eq!(aimd.window_bytes(), 300_000);
        aimd.on_missing(1 << 40, Psn::new(50), Psn::new(70));
        assert_eq!(aimd.window_bytes(), 225_000);
    }

    #[test]
    fn notifications_without_evidence_leave_half_of_the_window() {
        let mut aimd = Aimd::new(400_000, 400_000);
        for window in 0..100 {
            aimd.on_congestion_notification(Evidence::None, Psn::new(window), Psn::new(window + 1));
        }
        assert_eq!(aimd.window_bytes(), 200_000);
        aimd.on_congestion_notification(Evidence::Proven, Psn::new(200), Psn::new(201));
        assert_eq!(aimd.window_bytes(), 150_000);
    }

    #[test]
    fn a_timeout_leaves_little_and_slow_start_follows() {
        let mut aimd = Aimd::new(200_000, 200_000);
        aimd.on_timeout();
        assert_eq!(aimd.window_bytes(), MIN_PACKETS * 4096);
        aimd.on_acked(8192);
        assert_eq!(aimd.window_bytes(), 2 * MIN_PACKETS * 4096);
    }
}
