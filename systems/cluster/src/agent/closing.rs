//! Shares that are closed: until when clients may still read them alone, by what they were told before.

use std::collections::BTreeMap;

use crate::config::{ClusterConfig, MemberId, ShareMove};
use crate::term::DRIFT_DIVISOR;

/// The closed shares of one member, by their first slots: the moment from which on nobody reads them alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClosedShares {
    unread_ns: BTreeMap<u16, u64>,
}

impl ClosedShares {
    /// Takes a configuration. Everything that was told to clients before it ends at `until_ns`.
    pub(crate) fn learn(&mut self, me: &MemberId, config: &ClusterConfig, until_ns: u64) {
        let is_closed = |share: &&crate::SlotShare| matches!(share.moving, Some(ShareMove::Close { .. }));
        let closed: Vec<u16> = config.shares_of(me).filter(is_closed).map(|share| share.from).collect();
        self.unread_ns.retain(|from, _| closed.contains(from));
        for from in closed {
            self.unread_ns.entry(from).or_insert(until_ns);
        }
    }

    /// For a planted bug: nobody reads them.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn forget(&mut self) {
        self.unread_ns.values_mut().for_each(|until_ns| *until_ns = 0);
    }

    /// True if nobody reads a share alone any more. A client's clock may be slower than ours.
    pub(crate) fn are_unread(&self, from: u16, now_ns: u64, term_ns: u64) -> bool {
        let margin_ns = term_ns / DRIFT_DIVISOR * 3 + 1;
        self.unread_ns.get(&from).is_some_and(|until_ns| now_ns >= until_ns.saturating_add(margin_ns))
    }
}
