//! Requests of Longarm's own that a reply answers (docs/extensions.md): who may get one.

use crate::queue::send::SendWqe;
use crate::rc::requester::RcRequester;
use crate::reason::Reason;
use crate::wr::SendFlags;

impl RcRequester {
    /// Whether the peer carries out requests of Longarm's own. `None`: no answer has told yet.
    pub(crate) fn peer_extends(&self) -> Option<bool> {
        self.agreement.peer_extends()
    }

    /// Whether a WQE waits for the end of others: behind a fence, or until an answer tells whether the peer knows
    /// the extension.
    #[cold]
    pub(super) fn is_fenced(&self, wqe: &SendWqe) -> bool {
        let begins = self.window.cursor.packet == 0;
        let fence = wqe.flags.contains(SendFlags::FENCE) && begins && !self.window.reads.is_empty();
        let is_open = wqe.flags.contains(SendFlags::EXTENSION) && self.peer_extends().is_none();
        fence || is_open && !self.window.is_drained()
    }

    /// Whether the peer may get the request; if not, it fails in its turn.
    #[cold]
    pub(super) fn admit_extension(&mut self) -> bool {
        let known = self.peer_extends() == Some(true);
        if !known {
            self.blocked = Some(Reason::PeerLacksExtension);
        }
        known
    }
}
