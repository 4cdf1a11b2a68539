//! Outstanding READs and atomics, and the parts in which READs were asked for: a retransmission may be cut only
//! there.
//!
//! A peer takes a duplicate READ only if it lies within a request that it has executed. The requester does not know
//! which requests arrived. So a retransmitted READ never crosses the end of a part that was ever asked for. Linux's
//! software driver also forgets the front of a request when a later part of it is asked for again. So a part that
//! does not begin where a request first did is not asked for before everything ahead of it is there.

use std::collections::VecDeque;

use wire::Psn;

/// The READ and atomic requests that are outstanding, and the parts in which READs were asked for.
#[derive(Debug, Default)]
pub(super) struct OutstandingReads {
    /// Ends of the requests, in PSN order.
    ends: VecDeque<Psn>,
    parts: ReadParts,
}

impl OutstandingReads {
    /// The number that counts for `max_rd_atomic`.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn parts(&self) -> &ReadParts {
        &self.parts
    }

    /// A request up to `end` leaves.
    pub(super) fn push(&mut self, end: Psn) {
        debug_assert!(self.ends.back().is_none_or(|last| last.before(end)), "requests leave in PSN order");
        self.ends.push_back(end);
    }

    /// A part of a READ up to `end` is asked for; `again` if its PSNs were sent before.
    pub(super) fn note_part(&mut self, end: Psn, again: bool) {
        self.parts.note(end, again);
    }

    /// Everything before `una` is acknowledged.
    pub(super) fn acknowledge(&mut self, una: Psn) {
        while self.ends.front().is_some_and(|end| !una.before(*end)) {
            self.ends.pop_front();
        }
        self.parts.acknowledge(una);
    }

    /// The requester goes back to the oldest unacknowledged packet: requests leave again, in known parts.
    pub(super) fn rewind(&mut self) {
        self.ends.clear();
    }

    pub(super) fn clear(&mut self) {
        *self = OutstandingReads::default();
    }
}

/// The ends of all parts of READs that were ever asked for, beyond the acknowledged ones, in PSN order.
#[derive(Debug, Default)]
pub(super) struct ReadParts {
    ends: VecDeque<PartEnd>,
}

#[derive(Debug)]
struct PartEnd {
    at: Psn,
    /// Within a part that was asked for at once before.
    is_cut: bool,
}

impl ReadParts {
    /// Response packets from `psn` to the end of the part that it is in; `None` if it was never asked for.
    pub(super) fn rest_of_part(&self, psn: Psn) -> Option<u32> {
        let end = self.ends.iter().find(|end| psn.before(end.at))?;
        Some(end.at.distance(psn).max(0) as u32)
    }

    /// Whether something before `psn` was once asked for together with it.
    pub(super) fn is_cut_at(&self, psn: Psn) -> bool {
        self.ends.iter().any(|end| end.at == psn && end.is_cut)
    }

    /// A part up to `end` is asked for; `again` if its PSNs were sent before.
    pub(super) fn note(&mut self, end: Psn, again: bool) {
        let place = self.ends.partition_point(|known| known.at.before(end));
        if self.ends.get(place).is_none_or(|known| known.at != end) {
            self.ends.insert(place, PartEnd { at: end, is_cut: again });
        }
    }

    /// Everything before `una` is there.
    pub(super) fn acknowledge(&mut self, una: Psn) {
        while self.ends.front().is_some_and(|end| !una.before(end.at)) {
            self.ends.pop_front();
        }
    }
}
