//! The stream to one backup: bytes that wait, shares that it carries, and changes that are not acknowledged.

use std::collections::{BTreeMap, VecDeque};

use bytes::BytesMut;
use cluster::SlotShare;

use crate::record::ReplicaRecord;
use crate::sender::words::{BatchAck, CopyCursor};

/// The state of a share on its way to one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyPhase {
    /// Keys are copied; the cursor shows from where on.
    Copying(CopyCursor),
    /// All keys are in the stream; the member has them when it has applied this offset.
    Ending(u64),
    /// From now on answers wait for the member. It has all that was answered before when it has applied this offset.
    CatchingUp(u64),
    /// The member has everything that was answered.
    Whole,
}

/// A share on its way to one member.
#[derive(Clone, Debug)]
pub(crate) struct LinkShare {
    pub(crate) to: u16,
    /// The configuration calls it a backup.
    pub(crate) is_backup: bool,
    /// A configuration that calls it so may come any time.
    pub(crate) is_wished: bool,
    pub(crate) phase: CopyPhase,
    /// Changes behind this number count as not acknowledged until the copy is whole.
    pub(crate) cap: Option<u64>,
}

impl LinkShare {
    /// True if answers wait for the member.
    pub(crate) fn is_required(&self) -> bool {
        self.is_backup || self.is_wished || matches!(self.phase, CopyPhase::CatchingUp(_))
    }
}

/// The stream to one member.
#[derive(Debug)]
pub(crate) struct ReplicaLink {
    pub(crate) stream: u64,
    pub(crate) shares: BTreeMap<u16, LinkShare>,
    /// Bytes behind `received`.
    pub(crate) queue: BytesMut,
    pub(crate) received: u64,
    pub(crate) applied: u64,
    /// Bytes of the batch that is under way.
    pub(crate) in_flight: Option<usize>,
    /// Offsets of the first and behind the last byte of each group of changes in the queue.
    groups: VecDeque<(u64, u64)>,
    /// The offset at which a group has begun that has not ended.
    group_from: Option<u64>,
    /// Since when an open group keeps a batch from leaving.
    pub(crate) held_ns: Option<u64>,
    /// Number, slot and end of each change that answers wait for.
    entries: VecDeque<(u64, u16, u64)>,
    /// The number up to which it is acknowledged, and since when that has not changed.
    pub(crate) blocked: Option<(u64, u64)>,
    pub(crate) retry_ns: u64,
}

impl ReplicaLink {
    pub(crate) fn new(stream: u64) -> ReplicaLink {
        ReplicaLink {
            stream,
            shares: BTreeMap::new(),
            queue: BytesMut::new(),
            received: 0,
            applied: 0,
            in_flight: None,
            groups: VecDeque::new(),
            group_from: None,
            held_ns: None,
            entries: VecDeque::new(),
            blocked: None,
            retry_ns: 0,
        }
    }

    /// The offset behind all bytes so far.
    pub(crate) fn end(&self) -> u64 {
        self.received + self.queue.len() as u64
    }

    pub(crate) fn push(&mut self, record: ReplicaRecord<'_>) {
        let mut bytes = Vec::new();
        record.append(&mut bytes);
        self.queue.extend_from_slice(&bytes);
    }

    /// Begins the copy of a share.
    pub(crate) fn begin(&mut self, from: u16, mut share: LinkShare) {
        share.phase = CopyPhase::Copying(CopyCursor::default());
        self.push(ReplicaRecord::Begin { from, to: share.to });
        self.shares.insert(from, share);
    }

    /// Begins another stream, with copies of all shares. Changes that a backup has not acknowledged count as not acknowledged until
    /// its copy is whole.
    pub(crate) fn reset(&mut self, stream: u64, settled: u64) {
        let shares = std::mem::take(&mut self.shares);
        *self = ReplicaLink { blocked: self.blocked, retry_ns: self.retry_ns, ..ReplicaLink::new(stream) };
        for (from, mut share) in shares {
            let is_required = share.is_backup || share.is_wished;
            share.cap = is_required.then(|| share.cap.map_or(settled, |cap| cap.min(settled)));
            self.begin(from, share);
        }
    }

    /// Sends a change of a slot of a share, if the member has it.
    pub(crate) fn change(&mut self, number: u64, slot: u16, from: u16, bytes: &[u8]) {
        let Some(share) = self.shares.get(&from) else { return };
        let waits = share.is_required() && !matches!(share.phase, CopyPhase::Copying(_));
        self.queue.extend_from_slice(bytes);
        if waits {
            let end = self.end();
            self.entries.push_back((number, slot, end));
        }
    }

    /// Records from here on belong together.
    pub(crate) fn begin_group(&mut self) {
        self.group_from = Some(self.end());
    }

    /// The group is complete. Returns true if it has records.
    pub(crate) fn end_group(&mut self) -> bool {
        let end = self.end();
        let group = self.group_from.take().filter(|from| *from < end).map(|from| (from, end));
        self.groups.extend(group);
        group.is_some()
    }

    /// The length of the next batch: about so many bytes at most, and no part of a group that is not longer than `group_bytes`.
    pub(crate) fn cut(&self, batch_bytes: usize, group_bytes: usize) -> usize {
        let most = self.queue.len().min(batch_bytes);
        let offset = |at: u64| at.saturating_sub(self.received) as usize;
        let groups = self.groups.iter().map(|(from, end)| (offset(*from), offset(*end)));
        // The group among whose records the batch would end.
        if let Some((from, end)) = groups.into_iter().find(|(from, end)| *from < most && most < *end) {
            return if from > 0 {
                from
            } else if end <= group_bytes {
                end
            } else {
                most
            };
        }
        match self.group_from.map(offset) {
            Some(0) if self.queue.len() > group_bytes => most,
            Some(from) => from.min(most),
            None => most,
        }
    }

    /// The share is no more on its way to the member.
    pub(crate) fn remove(&mut self, from: u16) {
        if let Some(share) = self.shares.remove(&from) {
            self.entries.retain(|(_, slot, _)| !(from..=share.to).contains(slot));
        }
    }

    /// True if the member has everything of a share.
    pub(crate) fn is_in_step(&self, from: u16) -> bool {
        self.shares.get(&from).is_some_and(|share| {
            let is_whole = share.phase == CopyPhase::Whole && share.cap.is_none() && share.is_backup;
            is_whole && !self.entries.iter().any(|(_, slot, _)| (from..=share.to).contains(slot))
        })
    }

    /// Begins the copies for members that are no backups anew.
    pub(crate) fn copy_anew(&mut self, settled: u64) {
        let joining: Vec<u16> =
            self.shares.iter().filter(|(_, share)| !share.is_backup).map(|(from, _)| *from).collect();
        for from in joining {
            if let Some(share) = self.shares.remove(&from) {
                let cap = share.is_wished.then(|| share.cap.map_or(settled, |cap| cap.min(settled)));
                self.begin(from, LinkShare { cap, ..share });
            }
        }
    }

    /// For a planted bug.
    #[cfg(test)]
    pub(crate) fn forget_unsettled(&mut self, from: u16) {
        if let Some(share) = self.shares.get_mut(&from) {
            (share.phase, share.cap) = (CopyPhase::Whole, None);
            self.entries.retain(|(_, slot, _)| !(from..=share.to).contains(slot));
        }
    }

    /// Cuts and joins shares as a configuration has them. A copy that is under way begins anew.
    pub(crate) fn recut(&mut self, shares: &[SlotShare], settled: u64) {
        let old = std::mem::take(&mut self.shares);
        for share in shares {
            let parts = || old.range(..=share.to).filter(|(_, part)| part.to >= share.from);
            let Some((from, first)) = parts().next() else { continue };
            let (is_backup, is_wished) = (parts().any(|part| part.1.is_backup), parts().any(|part| part.1.is_wished));
            let slots = |part: (&u16, &LinkShare)| {
                u32::from(part.1.to.min(share.to)) + 1 - u32::from((*part.0).max(share.from))
            };
            let covers = parts().map(slots).sum::<u32>() == u32::from(share.to) + 1 - u32::from(share.from);
            let is_copied = |part: (&u16, &LinkShare)| part.1.phase == CopyPhase::Whole && part.1.cap.is_none();
            let goes_on = (*from, first.to) == (share.from, share.to)
                || covers && parts().all(is_copied) && parts().all(|part| part.1.is_backup == is_backup);
            let cut = LinkShare { to: share.to, is_backup, is_wished, ..first.clone() };
            if goes_on {
                self.shares.insert(share.from, cut);
                continue;
            }
            let cap = parts().filter_map(|part| part.1.cap).min().map_or(settled, |cap| cap.min(settled));
            let cap = (is_backup || is_wished).then_some(cap);
            self.begin(share.from, LinkShare { cap, ..cut });
        }
    }

    /// The number up to which everything is acknowledged that answers wait for; `None`: all.
    pub(crate) fn settled(&self) -> Option<u64> {
        let caps = self.shares.values().filter(|share| share.is_required()).filter_map(|share| share.cap).min();
        let first = self.entries.front().map(|(number, ..)| number - 1);
        caps.into_iter().chain(first).min()
    }

    /// Takes an acknowledgement. False: it makes no sense.
    pub(crate) fn acknowledge(&mut self, ack: BatchAck) -> bool {
        let Some(in_flight) = self.in_flight.take() else { return false };
        let is_sound = (self.received..=self.received + in_flight as u64).contains(&ack.received)
            && (self.applied..=ack.received).contains(&ack.applied);
        if !is_sound {
            return false;
        }
        let _ = self.queue.split_to((ack.received - self.received) as usize);
        (self.received, self.applied) = (ack.received, ack.applied);
        while self.groups.front().is_some_and(|(_, end)| *end <= ack.received) {
            self.groups.pop_front();
        }
        while self.entries.front().is_some_and(|(_, _, end)| *end <= ack.applied) {
            self.entries.pop_front();
        }
        true
    }

    /// Goes on with the phases of shares. Returns the first slots of those that the member has as a whole now, and did not before.
    pub(crate) fn advance(&mut self) -> Vec<u16> {
        let (mut whole, end, applied) = (Vec::new(), self.end(), self.applied);
        for (from, share) in &mut self.shares {
            if matches!(share.phase, CopyPhase::Ending(at) if at <= applied) {
                let is_required = share.is_required();
                share.phase = if is_required { CopyPhase::Whole } else { CopyPhase::CatchingUp(end) };
                share.cap = None;
                if is_required && !share.is_backup {
                    whole.push(*from);
                }
            }
            if matches!(share.phase, CopyPhase::CatchingUp(at) if at <= applied) {
                share.phase = CopyPhase::Whole;
                share.is_wished = true;
                whole.push(*from);
            }
        }
        whole
    }
}
