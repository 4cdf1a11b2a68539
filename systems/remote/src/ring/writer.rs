//! The peer's end of a ring: it WRITEs records, and READs the head when it has no room.

use std::ops::{Deref, Range};
use std::time::{Duration, Instant};

use longarm::error::WorkError;
use longarm::{Buffer, Failure, KeyError, QueuePair, RemoteKey, ResourceError};

use crate::ring::reader::RingBroken;
use crate::ring::record::{RING_DATA_AT, encode, record_bytes};

/// The ring has no room for the record, as far as the writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ring has no room for {0} bytes")]
pub struct RingFull(pub u64);

/// A WRITE that a record needs: bytes of the record, and their place in the ring's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingWrite {
    /// Which bytes of the record.
    pub bytes: Range<usize>,
    /// Where they go.
    pub at: u64,
}

/// The writer's half of a ring, without a device: where records go.
#[derive(Debug)]
pub struct RingWriter {
    ring_bytes: u64,
    head: u64,
    tail: u64,
    number: u64,
    /// Where the batch begins.
    batch_at: u64,
    batch: Vec<u8>,
}

impl RingWriter {
    /// The writer of an empty ring in memory of that length.
    pub fn new(memory_bytes: u64) -> RingWriter {
        RingWriter::starting_at(memory_bytes, 0)
    }

    /// The same for a ring whose first record has that number: see [`RingReader::starting_at`](crate::RingReader::starting_at).
    pub fn starting_at(memory_bytes: u64, number: u64) -> RingWriter {
        let ring_bytes = memory_bytes.saturating_sub(RING_DATA_AT) / 8 * 8;
        RingWriter { ring_bytes, head: 0, tail: 0, number, batch_at: 0, batch: Vec::new() }
    }

    /// Takes room for a record, as a batch of its own. Its bytes are [`batch`](RingWriter::batch), and the result tells the WRITEs:
    /// two if it wraps. They have to be carried out in order.
    ///
    /// # Errors
    /// If there is no room, until [`learn`](RingWriter::learn) tells of more. A record of more than half of the ring never
    /// has room.
    pub fn append(&mut self, data: &[u8]) -> Result<(u64, RingWrite, Option<RingWrite>), RingFull> {
        self.clear();
        let number = self.push(data)?;
        let (first, rest) = self.writes();
        Ok((number, first, rest))
    }

    /// Takes room for a record at the end of the batch. Returns its number.
    ///
    /// # Errors
    /// As [`append`](RingWriter::append).
    pub fn push(&mut self, data: &[u8]) -> Result<u64, RingFull> {
        let all = self.room_for(data.len())?;
        encode(self.number, data, &mut self.batch);
        let number = self.number;
        (self.tail, self.number) = (self.tail + all, number + 1);
        Ok(number)
    }

    /// Begins an empty batch, when the WRITEs of the last one are under way.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.batch_at = self.tail;
    }

    /// The bytes of the records in the batch.
    pub fn batch(&self) -> &[u8] {
        &self.batch
    }

    /// The WRITEs of the batch, to be carried out in order.
    pub fn writes(&self) -> (RingWrite, Option<RingWrite>) {
        let (start, all) = (self.batch_at % self.ring_bytes.max(1), self.batch.len());
        let first = ((self.ring_bytes - start) as usize).min(all);
        let write = RingWrite { bytes: 0..first, at: RING_DATA_AT + start };
        (write, (first < all).then_some(RingWrite { bytes: first..all, at: RING_DATA_AT }))
    }

    /// The number of the next record.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// True if a record of so many bytes never has room.
    pub(super) fn never_fits(&self, data_bytes: usize) -> bool {
        u32::try_from(data_bytes).map_or(u64::MAX, record_bytes) > self.ring_bytes / 2
    }

    /// Where the last record ends, counted from the beginning of the ring's life.
    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    /// The end of those that the owner has taken, as far as the writer knows.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    fn room_for(&self, data_bytes: usize) -> Result<u64, RingFull> {
        let all = u32::try_from(data_bytes).map_or(u64::MAX, record_bytes);
        match all > self.ring_bytes / 2 || self.tail + all - self.head > self.ring_bytes {
            true => Err(RingFull(all)),
            false => Ok(all),
        }
    }

    /// Learns the head, the first word of the ring's memory. One that cannot be is ignored.
    pub fn learn(&mut self, head: u64) {
        if head > self.head && head <= self.tail {
            self.head = head;
        }
    }
}

/// The reason why a record was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The owner takes nothing, and the ring is full.
    #[error(transparent)]
    Full(#[from] RingFull),
    /// A request failed, and with it the connection.
    #[error("the connection failed: {0}")]
    Link(#[from] WorkError),
    /// The key leads to less than the ring.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is no memory for a buffer.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The peer has written something that is no record.
    #[error(transparent)]
    Broken(#[from] RingBroken),
    /// The connection has failed before, and no other one was given.
    #[error("the connection of the ring has failed: {0}")]
    Ended(String),
    /// A record was not in the owner's memory in time. It may arrive later.
    #[error("the record was not in the owner's memory after {0:?}")]
    Late(Duration),
    /// The owner wants records that this end has no more, or has not sent yet.
    #[error("the owner wants the records from {wanted} on, and those from {first} to before {next} are here")]
    Gone {
        /// The first record that the owner wants.
        wanted: u64,
        /// The first one that is here.
        first: u64,
        /// The number of the next record.
        next: u64,
    },
}

/// The writer's end of a ring in a peer's memory, on a queue pair.
pub struct RemoteRing<Q> {
    qp: Q,
    key: RemoteKey,
    writer: RingWriter,
    buffer: Option<Buffer>,
    timeout: Duration,
}

impl<Q: Deref<Target = QueuePair>> RemoteRing<Q> {
    /// The writer of the empty ring that `key` leads to, all of which belongs to the ring.
    pub fn new(qp: Q, key: RemoteKey, timeout: Duration) -> RemoteRing<Q> {
        RemoteRing { qp, key, writer: RingWriter::new(key.len_bytes()), buffer: None, timeout }
    }

    /// WRITEs a record, and returns its number. When this returns, the record is in the owner's memory, whatever the owner does.
    ///
    /// # Errors
    /// [`RingError::Full`] if the owner takes nothing until the timeout. Nothing was written then.
    pub fn send(&mut self, data: &[u8]) -> Result<u64, RingError> {
        let until = Instant::now() + self.timeout;
        let (number, first, rest) = loop {
            match self.writer.append(data) {
                Ok(placed) => break placed,
                Err(full) if self.writer.never_fits(data.len()) => return Err(full.into()),
                Err(full) => self.wait_for_room(full, until)?,
            }
        };
        for write in [Some(first), rest].into_iter().flatten() {
            let to = self.key.at(write.at, write.bytes.len() as u64)?;
            let mut buffer = self.take(write.bytes.len())?;
            buffer.fill_from(&self.writer.batch()[write.bytes]);
            let written = self.qp.write(buffer, &to).wait(self.timeout);
            self.buffer = Some(written.map_err(Failure::into_error)?);
        }
        Ok(number)
    }

    fn wait_for_room(&mut self, full: RingFull, until: Instant) -> Result<(), RingError> {
        let mut buffer = self.take(8)?;
        buffer.set_len(8);
        let read = self.qp.read(buffer, &self.key.word(0)?).wait(self.timeout).map_err(Failure::into_error)?;
        let (before, head) = (self.writer.head, read[..].try_into().map_or(0, u64::from_le_bytes));
        self.buffer = Some(read);
        self.writer.learn(head);
        if self.writer.head == before {
            if Instant::now() >= until {
                return Err(full.into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn take(&mut self, len: usize) -> Result<Buffer, RingError> {
        match self.buffer.take().filter(|buffer| buffer.capacity() >= len) {
            Some(buffer) => Ok(buffer),
            None => Ok(self.qp.protection_domain().allocate(len.max(4096))?),
        }
    }
}
