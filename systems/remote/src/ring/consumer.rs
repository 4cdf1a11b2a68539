//! The owner's end of a ring, for tasks: a notice of the peer wakes them.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use longarm::{Failure, InFlight, Message, QueuePair};

use crate::memory::WordMemory;
use crate::ring::reader::RingReader;
use crate::ring::writer::RingError;
use crate::verbs::yield_turn;

/// Bytes of a receive request. Notices have none.
const NOTICE_BYTES: usize = 8;
/// Records after which other tasks have their turn.
const RECORDS: u32 = 64;

/// The owner's end of a ring whose writer sends notices ([`SharedRing`](crate::SharedRing)).
///
/// It posts receive requests on the writer's connection, and tells their number in the ring's second word. So nothing else may
/// receive there. [`take`](RingConsumer::take) sleeps until a notice comes, and lets other tasks run while records are plenty. A
/// future that is dropped has taken nothing.
///
/// ```no_run
/// use longarm::Connection;
/// use longarm_remote::{RingConsumer, RingError, RingReader, TableMemory};
///
/// # async fn example(connection: Connection, memory: TableMemory) -> Result<(), RingError> {
/// // Before the peer has the key: this fills the memory with zeros.
/// let reader = RingReader::new(&memory, 4096).expect("room for two records");
/// let mut ring = RingConsumer::new(connection, reader, 4)?;
/// let mut data = Vec::new();
/// loop {
///     let number = ring.peek(&mut data).await?;           // the record remains in the ring
///     println!("{number}: {} bytes", data.len());
///     ring.free();                                        // now it is taken
/// }
/// # }
/// ```
pub struct RingConsumer<Q, M> {
    qp: Q,
    reader: RingReader<M>,
    notices: VecDeque<InFlight<Message>>,
    posted: u64,
    records: u32,
    failed: Option<String>,
}

impl<Q: Deref<Target = QueuePair>, M: WordMemory> RingConsumer<Q, M> {
    /// The owner's end on its end of the writer's connection, with room for so many notices: batches that the writer may have
    /// sent before this end looks. Few of them, such as 2, make long batches and so a high rate. More of them let single records
    /// leave at once.
    ///
    /// # Errors
    /// If a receive request is refused.
    pub fn new(qp: Q, reader: RingReader<M>, notices: u32) -> Result<RingConsumer<Q, M>, RingError> {
        let mut ring = RingConsumer { qp, reader, notices: VecDeque::new(), posted: 0, records: 0, failed: None };
        for _ in 0..notices.max(1) {
            let buffer = ring.qp.protection_domain().allocate(NOTICE_BYTES)?;
            ring.notices.push_back(ring.qp.recv(buffer).start());
            ring.posted += 1;
        }
        ring.reader.grant_notices(ring.posted);
        Ok(ring)
    }

    /// The number of the next record.
    pub fn number(&self) -> u64 {
        self.reader.number()
    }

    /// The ring, to look without waiting.
    pub fn reader(&mut self) -> &mut RingReader<M> {
        &mut self.reader
    }

    /// Copies the next record to `data`, and frees its place. Returns its number.
    ///
    /// # Errors
    /// [`RingError::Broken`] if the peer has broken the ring. [`RingError::Ended`] if the connection has ended, after all records that
    /// have arrived.
    pub async fn take(&mut self, data: &mut Vec<u8>) -> Result<u64, RingError> {
        let number = self.peek(data).await?;
        self.free();
        Ok(number)
    }

    /// Copies the next record to `data`, and leaves it in the ring until [`free`](RingConsumer::free).
    ///
    /// # Errors
    /// As [`take`](RingConsumer::take).
    pub async fn peek(&mut self, data: &mut Vec<u8>) -> Result<u64, RingError> {
        self.records = self.records.wrapping_add(1);
        if self.records.is_multiple_of(RECORDS) {
            yield_turn().await;
        }
        poll_fn(|task| {
            // The notices first: one that comes behind this look wakes the task.
            self.poll_notices(task);
            match (self.reader.peek(data), &self.failed) {
                (Ok(Some(number)), _) => Poll::Ready(Ok(number)),
                (Err(broken), _) => Poll::Ready(Err(broken.into())),
                (Ok(None), Some(words)) => Poll::Ready(Err(RingError::Ended(words.clone()))),
                (Ok(None), None) => Poll::Pending,
            }
        })
        .await
    }

    /// Frees the place of the record that was peeked at.
    pub fn free(&mut self) {
        self.reader.free();
    }

    /// The ring without the connection: for the records that arrived before it ended.
    pub fn into_reader(self) -> RingReader<M> {
        self.reader
    }

    /// Takes notices, and posts their receive requests again.
    fn poll_notices(&mut self, task: &mut Context<'_>) {
        let before = self.posted;
        while self.failed.is_none()
            && let Some(notice) = self.notices.front_mut()
        {
            let Poll::Ready(done) = Pin::new(notice).poll(task) else { break };
            self.notices.pop_front();
            match done {
                Ok(message) => {
                    self.notices.push_back(self.qp.recv(message.into_buffer()).start());
                    self.posted += 1;
                }
                Err(failure) => self.failed = Some(Failure::into_error(failure).to_string()),
            }
        }
        if self.posted != before {
            self.reader.grant_notices(self.posted);
        }
    }
}
