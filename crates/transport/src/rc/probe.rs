//! Probes: the oldest unacknowledged packet is sent again, to learn about losses long before the timeout.

use wire::Psn;

/// A probe that is due, or whose answer is still to come.
#[derive(Debug, Default)]
pub(super) struct Probe {
    due: bool,
    /// The PSN of the last probe, while its ACK may still tell of loss behind it.
    psn: Option<Psn>,
    /// The PSN after the READ or atomic that the last probe asked for again.
    read_end: Option<Psn>,
}

impl Probe {
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// A probe is to leave, if anything is outstanding.
    pub(super) fn request(&mut self, is_outstanding: bool) {
        self.due = is_outstanding;
    }

    /// It leaves for the packet with `psn`.
    pub(super) fn sent(&mut self, psn: Psn) {
        *self = Probe { due: false, psn: Some(psn), read_end: None };
    }

    /// It leaves for a READ or atomic up to `end`.
    pub(super) fn sent_read(&mut self, end: Psn) {
        *self = Probe { due: false, psn: None, read_end: Some(end) };
    }

    /// It cannot leave.
    pub(super) fn failed(&mut self) {
        self.due = false;
    }

    /// Whether the last probe asked for a READ up to `una` again, and nothing behind it was answered.
    pub(super) fn take_answered_read(&mut self, una: Psn) -> bool {
        self.read_end.take() == Some(una)
    }

    /// An ACK up to `acknowledged` came. If it covers the probe it concludes it: the probe's PSN.
    pub(super) fn conclude(&mut self, acknowledged: Psn) -> Option<Psn> {
        if acknowledged.before(self.psn?) { None } else { self.psn.take() }
    }

    /// A NAK tells more than the ACK of the probe would.
    pub(super) fn forget_psn(&mut self) {
        self.psn = None;
    }

    pub(super) fn clear(&mut self) {
        *self = Probe::default();
    }
}
