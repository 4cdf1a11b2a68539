//! Credits: the receive WQEs of the other end, as ACKs tell (9.7.7.2).

use wire::Syndrome;

use crate::qp_core::QpCore;
use crate::queue::send::SendWqe;

/// With fewer credits than this, or than half of what the peer told last, every message that uses a receive WQE asks
/// for an ACK.
const FEW_CREDITS: u64 = 8;

#[derive(Debug)]
pub(super) struct PeerCredits {
    /// Requests may use receive WQEs up to this count, from the beginning of the connection.
    limit: u64,
    /// With fewer left than this, each message that uses a receive WQE asks for an ACK.
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

/// The receive WQEs of this end, as its ACKs have told the peer.
#[derive(Debug, Default)]
pub(super) struct AdvertisedCredits {
    /// The last ACK said that no receive WQE is posted.
    empty: bool,
}

impl AdvertisedCredits {
    /// The syndrome of an ACK: the number of posted receive WQEs.
    pub(super) fn syndrome(core: &QpCore) -> Syndrome {
        match is_counted(core) {
            true => Syndrome::ack(wire::credit_code(core.rq.len())),
            false => Syndrome::ACK_UNLIMITED,
        }
    }

    /// An ACK with the number of posted receive WQEs is about to leave.
    pub(super) fn note_sent(&mut self, core: &QpCore) {
        if is_counted(core) {
            self.empty = core.rq.is_empty();
        }
    }

    /// Whether the last ACK said that there are none. A second call says no.
    pub(super) fn take_empty(&mut self) -> bool {
        core::mem::take(&mut self.empty)
    }
}

/// Whether ACKs tell how many receive WQEs are posted.
fn is_counted(core: &QpCore) -> bool {
    !core.shared_recv && core.tuning.advertise_credits
}
