//! The stream to one backup: bytes that wait, shares that it carries, and changes that are not acknowledged.

use std::collections::{BTreeMap, VecDeque};

use bytes::BytesMut;

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
    /// Number, share and end of each change that answers wait for.
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

    /// Sends a change of a share, if the member has it.
    pub(crate) fn change(&mut self, number: u64, from: u16, bytes: &[u8]) {
        let Some(share) = self.shares.get(&from) else { return };
        let waits = share.is_required() && !matches!(share.phase, CopyPhase::Copying(_));
        self.queue.extend_from_slice(bytes);
        if waits {
            let end = self.end();
            self.entries.push_back((number, from, end));
        }
    }

    /// The share is no more on its way to the member.
    pub(crate) fn remove(&mut self, from: u16) {
        self.shares.remove(&from);
        self.entries.retain(|(_, share, _)| *share != from);
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
