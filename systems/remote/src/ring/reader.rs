//! The owner's end of a ring: it takes records out of its own memory.

use crate::memory::WordMemory;
use crate::ring::record::{DATA_AT, NOTICES_AT, RING_DATA_AT, check, data_bytes, header, record_bytes};

/// The peer has written something that is no record. The ring is good for nothing until both ends begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingBroken {
    /// The first word is no header, or its length is more than the ring takes.
    #[error("the word {0:#x} is no header of a record")]
    Header(u64),
    /// A whole record has another number than the next one.
    #[error("a record has the number {is}, and {wanted} is the next")]
    Number {
        /// Its number.
        is: u64,
        /// The number that follows the last record's.
        wanted: u64,
    },
}

/// The owner's end of a ring in its memory, all of which belongs to the ring.
///
/// The peer may write anything there, at any time. So each length is checked, and nothing is taken that was not copied first.
#[derive(Debug)]
pub struct RingReader<M> {
    memory: M,
    ring_bytes: u64,
    longest: u32,
    head: u64,
    told: u64,
    number: u64,
    /// The length of the record that was peeked at, with its frame.
    peeked: Option<u64>,
}

impl<M: WordMemory> RingReader<M> {
    /// An empty ring, whose first record has the number zero. Records have `longest` bytes at most.
    ///
    /// `None` if the memory has no room for two of the longest records: a writer could wait for ever.
    pub fn new(memory: M, longest: u32) -> Option<RingReader<M>> {
        RingReader::starting_at(memory, longest, 0)
    }

    /// An empty ring whose first record has that number: for an owner that has taken those before it in an earlier life. The peer
    /// begins there, too ([`SharedRing::resume`](crate::SharedRing::resume)).
    pub fn starting_at(memory: M, longest: u32, number: u64) -> Option<RingReader<M>> {
        let ring_bytes = memory.len_bytes().checked_sub(RING_DATA_AT)? / 8 * 8;
        if ring_bytes / 2 < record_bytes(longest) {
            return None;
        }
        for at in (0..RING_DATA_AT + ring_bytes).step_by(8) {
            memory.store(at, 0);
        }
        Some(RingReader { memory, ring_bytes, longest, head: 0, told: 0, number, peeked: None })
    }

    /// The number of the next record.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Copies the next record to `data`, and frees its place. Returns its number; `None` if it has not arrived, or not all of it.
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn take(&mut self, data: &mut Vec<u8>) -> Result<Option<u64>, RingBroken> {
        let number = self.peek(data)?;
        self.free();
        Ok(number)
    }

    /// Copies the next record to `data`, and leaves it there until [`free`](RingReader::free). An owner that ends before has not
    /// taken it: the writer still has it ([`SharedRing::resume`](crate::SharedRing::resume)).
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn peek(&mut self, data: &mut Vec<u8>) -> Result<Option<u64>, RingBroken> {
        self.peeked = None;
        let first = self.word(self.head);
        if first == 0 {
            return Ok(None);
        }
        let len = data_bytes(first).filter(|len| *len <= self.longest).ok_or(RingBroken::Header(first))?;
        let all = record_bytes(len);
        if self.word(self.head + all - 8) != header(len) {
            return Ok(None);
        }
        let (number, sum) = (self.word(self.head + 8), self.word(self.head + 16));
        self.copy(self.head + DATA_AT, len, data);
        // Words of it are still on their way, or the peer writes nonsense: both look like this.
        if check(first, number, data) != sum {
            return Ok(None);
        }
        if number != self.number {
            return Err(RingBroken::Number { is: number, wanted: self.number });
        }
        self.peeked = Some(all);
        Ok(Some(number))
    }

    /// Frees the place of the record that was peeked at. Without one it does nothing.
    pub fn free(&mut self) {
        let Some(all) = self.peeked.take() else { return };
        // Zeros first: when the writer learns the head, it may write here again.
        for at in (self.head..self.head + all).step_by(8) {
            self.memory.store(self.place(at), 0);
        }
        (self.head, self.number) = (self.head + all, self.number + 1);
        // The writer learns it late: a word for each record would cost more than the record.
        if self.head - self.told >= self.ring_bytes / 8 {
            self.tell();
        }
    }

    /// Tells the writer how many notices of batches it may have sent since the ring began.
    pub(super) fn grant_notices(&mut self, notices: u64) {
        self.memory.store(NOTICES_AT, notices);
    }

    /// Tells the writer now what was taken. Without this it learns of each eighth of the ring.
    pub fn tell(&mut self) {
        self.told = self.head;
        self.memory.store(0, self.head);
    }

    fn place(&self, at: u64) -> u64 {
        RING_DATA_AT + at % self.ring_bytes
    }

    fn word(&self, at: u64) -> u64 {
        self.memory.load(self.place(at))
    }

    fn copy(&self, at: u64, len: u32, data: &mut Vec<u8>) {
        data.clear();
        data.resize(len as usize, 0);
        let start = self.place(at);
        let before_end = (RING_DATA_AT + self.ring_bytes - start).min(u64::from(len)) as usize;
        let (first, second) = data.split_at_mut(before_end);
        self.memory.copy_out(start, first);
        self.memory.copy_out(RING_DATA_AT, second);
    }
}
