//! The peer's receive WQEs, as its ACKs tell (9.7.7.2).

use crate::queue::send::SendWqe;

/// With fewer credits than this, or than half of what the peer told last, every message that uses a receive WQE asks
/// for an ACK.
const FEW_CREDITS: u64 = 8;

#[derive(Debug)]
pub(super) struct PeerCredits {
    /// Requests may use receive WQEs up to this count, from the beginning of the connection.
    limit: u64,
    /// So many left of them are few.
    few: u64,
}

impl Default for PeerCredits {
    fn default() -> PeerCredits {
        PeerCredits { limit: u64::MAX, few: FEW_CREDITS }
    }
}

impl PeerCredits {
    /// Whether the peer has a receive WQE for this request.
    pub(super) fn allow(&self, wqe: &SendWqe) -> bool {
        !wqe.op.uses_recv() || wqe.recvs_used <= self.limit
    }

    /// Whether few are left after this request.
    pub(super) fn are_few_after(&self, wqe: &SendWqe) -> bool {
        wqe.op.uses_recv() && self.limit.saturating_sub(wqe.recvs_used) < self.few
    }

    /// An ACK came. Beyond the `used` receive WQEs that the acknowledged requests took, the peer has `credits`
    /// posted; `None`: it does not count them.
    pub(super) fn update(&mut self, used: u64, credits: Option<u32>) {
        let Some(credits) = credits else {
            self.limit = u64::MAX;
            return;
        };
        self.limit = used + u64::from(credits);
        self.few = FEW_CREDITS.min(u64::from(credits) / 2 + 1);
    }
}
