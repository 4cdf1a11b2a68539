//! The backup's end: streams of primaries, and the records that they bring.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

use bytes::{Buf, BytesMut};
use cluster::{HashSlot, MemberId, SLOTS};

use crate::record::{ReplicaRecord, first_record, framed_bytes};
use crate::roles::RecordSource;
use crate::sender::{BatchAck, BatchHead};

/// Streams that are remembered; one of a sender that is heard no more makes way for another.
const MOST_STREAMS: usize = 1024;

/// The reason why a store does not take a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRefusal {
    /// Freed memory is not yet free: it will take it soon.
    Later,
    /// The sender may not change the share (any more).
    Fenced,
    /// It cannot, for this reason.
    Failed(String),
}

/// The tables of a backup. Each method checks the sender by [`ReplicaSender::admit`](crate::ReplicaSender::admit), under the lock
/// that changes of its own clients take, too.
pub trait ReplicaStore {
    /// Gives a key a value, whatever was there.
    ///
    /// # Errors
    /// See [`StoreRefusal`].
    fn put(&mut self, source: RecordSource<'_>, put: ReplicaRecord<'_>) -> Result<(), StoreRefusal>;

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// See [`StoreRefusal`].
    fn delete(&mut self, source: RecordSource<'_>, table: u16, key: &[u8]) -> Result<(), StoreRefusal>;

    /// All keys of these slots, each with its table.
    ///
    /// # Errors
    /// See [`StoreRefusal`].
    fn keys(&mut self, source: RecordSource<'_>, slots: RangeInclusive<u16>) -> Result<KeySet, StoreRefusal>;
}

/// Keys of several tables, each with the number of its table.
pub type KeySet = HashSet<(u16, Box<[u8]>)>;

/// The reason why a batch is refused. The sender begins another stream, with a copy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchRefusal {
    /// It is for another member, or another life of this one.
    #[error("the records are for another member")]
    OtherMember,
    /// It is no batch that follows those before.
    #[error("the records do not follow those before")]
    OutOfOrder,
    /// The sender is not the primary (any more).
    #[error("the sender is not the primary of these slots")]
    Fenced,
    /// Its bytes mean nothing.
    #[error("the records mean nothing")]
    Malformed,
    /// The tables do not take a record.
    #[error("the records cannot be stored: {0}")]
    Store(String),
}

/// A copy of a share that has begun: its last slot, and the keys that were there and have not come yet.
#[derive(Debug)]
struct ShareCopy {
    to: u16,
    unseen: KeySet,
}

/// A stream of one sender.
#[derive(Debug, Default)]
struct InStream {
    number: u64,
    received: u64,
    applied: u64,
    /// Bytes behind `applied`.
    waiting: BytesMut,
    copies: BTreeMap<u16, ShareCopy>,
    is_refused: bool,
}

/// All streams to one member.
#[derive(Debug)]
pub struct ReplicaReceiver {
    me: MemberId,
    streams: BTreeMap<MemberId, InStream>,
}

impl ReplicaReceiver {
    /// The backup's end of that member.
    pub fn new(me: MemberId) -> ReplicaReceiver {
        ReplicaReceiver { me, streams: BTreeMap::new() }
    }

    /// Takes a batch, and does what its whole records say. A batch that comes again changes nothing.
    ///
    /// # Errors
    /// See [`BatchRefusal`]. The stream has ended then.
    pub fn take(
        &mut self,
        head: &BatchHead,
        bytes: &[u8],
        store: &mut dyn ReplicaStore,
    ) -> Result<BatchAck, BatchRefusal> {
        if head.to != self.me {
            return Err(BatchRefusal::OtherMember);
        }
        if !self.streams.contains_key(&head.from) && self.streams.len() >= MOST_STREAMS {
            self.streams.pop_first();
        }
        let stream = self.streams.entry(head.from.clone()).or_default();
        if head.offset == 0 && head.stream > stream.number {
            *stream = InStream { number: head.stream, ..InStream::default() };
        }
        if head.stream != stream.number || stream.is_refused || head.offset > stream.received {
            return Err(BatchRefusal::OutOfOrder);
        }
        let known = (stream.received - head.offset) as usize;
        if let Some(new) = bytes.get(known..) {
            stream.waiting.extend_from_slice(new);
            stream.received += new.len() as u64;
        }
        let done = stream.apply(RecordSource { from: &head.from, epoch: head.epoch }, store);
        if let Err(refusal) = done {
            *stream = InStream { number: head.stream, is_refused: true, ..InStream::default() };
            return Err(refusal);
        }
        Ok(BatchAck { received: stream.received, applied: stream.applied })
    }
}

impl InStream {
    fn apply(&mut self, source: RecordSource<'_>, store: &mut dyn ReplicaStore) -> Result<(), BatchRefusal> {
        loop {
            let Some(bytes) = first_record(&self.waiting).map_err(|()| BatchRefusal::Malformed)? else { return Ok(()) };
            let record = ReplicaRecord::parse(bytes).ok_or(BatchRefusal::Malformed)?;
            match execute(&mut self.copies, record, source, store) {
                Ok(()) => {}
                Err(StoreRefusal::Later) => return Ok(()),
                Err(StoreRefusal::Fenced) => return Err(BatchRefusal::Fenced),
                Err(StoreRefusal::Failed(why)) => return Err(BatchRefusal::Store(why)),
            }
            let length = framed_bytes(bytes);
            self.waiting.advance(length);
            self.applied += length as u64;
        }
    }
}

fn execute(
    copies: &mut BTreeMap<u16, ShareCopy>,
    record: ReplicaRecord<'_>,
    source: RecordSource<'_>,
    store: &mut dyn ReplicaStore,
) -> Result<(), StoreRefusal> {
    match record {
        ReplicaRecord::Begin { from, to } => {
            if from > to || to >= SLOTS {
                return Err(StoreRefusal::Failed(format!("there are no slots {from} to {to}")));
            }
            // Shares may have been cut or joined meanwhile: a copy of such slots begins anew.
            copies.retain(|first, copy| copy.to < from || *first > to);
            copies.insert(from, ShareCopy { to, unseen: store.keys(source, from..=to)? });
        }
        ReplicaRecord::End { from } => {
            while let Some(copy) = copies.get_mut(&from) {
                let Some((table, key)) = copy.unseen.iter().next().cloned() else { break };
                store.delete(source, table, &key)?;
                copy.unseen.remove(&(table, key));
            }
            copies.remove(&from);
        }
        ReplicaRecord::Put { table, key, .. } => {
            store.put(source, record)?;
            see(copies, table, key);
        }
        ReplicaRecord::Delete { table, key } => {
            store.delete(source, table, key)?;
            see(copies, table, key);
        }
    }
    Ok(())
}

/// Notes that a key has come.
fn see(copies: &mut BTreeMap<u16, ShareCopy>, table: u16, key: &[u8]) {
    if copies.is_empty() {
        return;
    }
    let slot = HashSlot::of_key(key).number();
    if let Some((_, copy)) = copies.range_mut(..=slot).next_back()
        && slot <= copy.to
        && !copy.unseen.is_empty()
    {
        copy.unseen.remove(&(table, key.into()));
    }
}
