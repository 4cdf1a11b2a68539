//! The writer's end of a ring that tasks share: batches under way, looks at the head, and records that may have to come again.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_timer::Delay;
use longarm::{Buffer, Failure, InFlight, QueuePair, RemoteKey};
use parking_lot::Mutex;

use crate::memory::word_at;
use crate::ring::record::NOTICES_AT;
use crate::ring::writer::{RingError, RingFull, RingWrite, RingWriter};

/// Batches under way at a time. Records gather meanwhile.
const BATCHES: usize = 4;
/// Pauses between two looks at a head that stays, from the first to the longest.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// Bytes of the head and of the word behind it.
const WORDS_BYTES: usize = NOTICES_AT as usize + 8;
/// The least length of a buffer.
const BUFFER_BYTES: usize = 4 << 10;

/// A batch under way.
struct BatchUnderWay {
    /// The number behind its last record.
    end: u64,
    writes: VecDeque<InFlight<Buffer>>,
}

/// A record that the owner may not have taken yet.
struct KeptRecord {
    number: u64,
    /// Where it ends, counted from the beginning of the ring's life. `None`: it has no place yet.
    end: Option<u64>,
    data: Box<[u8]>,
}

/// All that changes.
pub(super) struct SharedRingState<Q> {
    link: Option<(Q, RemoteKey)>,
    writer: RingWriter,
    is_noticed: bool,
    most_batch_bytes: usize,
    /// The number behind the last record of each batch is below it: those are in the owner's memory.
    done: u64,
    under_way: VecDeque<BatchUnderWay>,
    /// Notices that were sent, and those that the owner takes.
    notices: (u64, u64),
    look: Option<InFlight<Buffer>>,
    pause: Option<(Delay, Duration)>,
    wants_room: bool,
    kept: VecDeque<KeptRecord>,
    failed: Option<String>,
    spare: Vec<Buffer>,
}

/// Wakes all tasks that wait for the ring.
#[derive(Default)]
pub(super) struct RingWakers(Mutex<Vec<Waker>>);

impl RingWakers {
    pub(super) fn add(&self, waker: &Waker) {
        let mut wakers = self.0.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}

impl Wake for RingWakers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let wakers = std::mem::take(&mut *self.0.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<Q: Deref<Target = QueuePair>> SharedRingState<Q> {
    pub(super) fn new(
        qp: Q,
        key: RemoteKey,
        number: u64,
        is_noticed: bool,
        most_batch_bytes: usize,
    ) -> SharedRingState<Q> {
        SharedRingState {
            writer: RingWriter::starting_at(key.len_bytes(), number),
            link: Some((qp, key)),
            is_noticed,
            most_batch_bytes,
            done: number,
            under_way: VecDeque::new(),
            notices: (0, 0),
            look: None,
            pause: None,
            wants_room: false,
            kept: VecDeque::new(),
            failed: None,
            spare: Vec::new(),
        }
    }

    /// The number behind the last record that is in the owner's memory.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// The number of the next record.
    pub(super) fn next(&self) -> u64 {
        self.kept.back().map_or(self.writer.number(), |last| last.number + 1)
    }

    /// The number of records that are kept for the owner's next life.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn failure(&self) -> Option<RingError> {
        self.failed.clone().map(RingError::Ended)
    }

    /// Puts a record into the batch, if it has room.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<u64, RingError> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if self.writer.never_fits(data.len()) {
            return Err(RingFull(data.len() as u64).into());
        }
        let is_behind = self.kept.back().is_some_and(|last| last.end.is_none());
        let is_long = !self.writer.batch().is_empty() && self.writer.batch().len() + data.len() > self.most_batch_bytes;
        if is_behind || is_long {
            return Err(RingFull(data.len() as u64).into());
        }
        let number = self.writer.push(data)?;
        self.kept.push_back(KeptRecord { number, end: Some(self.writer.tail()), data: data.into() });
        Ok(number)
    }

    /// True if a record of so many bytes never has room, or no connection is there.
    pub(super) fn is_hopeless(&self, data_bytes: usize) -> bool {
        self.failed.is_some() || self.writer.never_fits(data_bytes)
    }

    /// A record waits for room.
    pub(super) fn want_room(&mut self) {
        self.wants_room = true;
    }

    /// Goes on as far as possible. `task` is woken when more is possible.
    pub(super) fn advance(&mut self, task: &mut Context<'_>) {
        if self.failed.is_some() {
            return;
        }
        let before = (self.done, self.writer.head());
        if let Err(error) = self.try_advance(task) {
            self.fail(error.to_string());
        }
        // Other tasks may wait for that, too.
        if self.failed.is_some() || before != (self.done, self.writer.head()) {
            task.waker().wake_by_ref();
        }
    }

    fn try_advance(&mut self, task: &mut Context<'_>) -> Result<(), RingError> {
        loop {
            self.poll_batches(task)?;
            self.place_kept();
            let is_posted = self.post_batch()?;
            let is_news = (self.wants_room || self.lacks_notices()) && self.poll_look(task)?;
            if !is_posted && !is_news {
                return Ok(());
            }
        }
    }

    /// Takes the completions of batches, in their order.
    fn poll_batches(&mut self, task: &mut Context<'_>) -> Result<(), RingError> {
        while let Some(batch) = self.under_way.front_mut() {
            while let Some(write) = batch.writes.front_mut() {
                let Poll::Ready(done) = Pin::new(write).poll(task) else { return Ok(()) };
                batch.writes.pop_front();
                self.spare.push(done.map_err(Failure::into_error)?);
            }
            self.done = batch.end;
            self.under_way.pop_front();
        }
        self.spare.truncate(BATCHES + 1);
        Ok(())
    }

    /// Gives records of an earlier connection their places.
    fn place_kept(&mut self) {
        let first = self.kept.partition_point(|record| record.end.is_some());
        for record in self.kept.iter_mut().skip(first) {
            let is_long = self.writer.batch().len() + record.data.len() > self.most_batch_bytes;
            if (is_long && !self.writer.batch().is_empty()) || self.writer.push(&record.data).is_err() {
                self.wants_room = true;
                return;
            }
            record.end = Some(self.writer.tail());
        }
    }

    fn lacks_notices(&self) -> bool {
        self.is_noticed && self.notices.0 >= self.notices.1 && !self.writer.batch().is_empty()
    }

    /// Sends the batch, if it may go.
    fn post_batch(&mut self) -> Result<bool, RingError> {
        if self.writer.batch().is_empty() || self.under_way.len() >= BATCHES || self.lacks_notices() {
            return Ok(false);
        }
        let Some((qp, key)) = &self.link else { return Ok(false) };
        let (first, rest) = self.writer.writes();
        let mut writes = VecDeque::with_capacity(2);
        let last_at = rest.as_ref().unwrap_or(&first).at;
        for RingWrite { bytes, at } in [Some(first), rest].into_iter().flatten() {
            let to = key.at(at, bytes.len() as u64)?;
            let bytes = &self.writer.batch()[bytes];
            let spare = self.spare.iter().position(|buffer| buffer.capacity() >= bytes.len());
            let mut buffer = match spare {
                Some(place) => self.spare.swap_remove(place),
                None => qp.protection_domain().allocate(bytes.len().max(BUFFER_BYTES))?,
            };
            buffer.fill_from(bytes);
            let write = if self.is_noticed && at == last_at {
                qp.write_with_imm(buffer, &to, 0)
            } else {
                qp.write(buffer, &to)
            };
            writes.push_back(write.start());
        }
        self.notices.0 += u64::from(self.is_noticed);
        self.under_way.push_back(BatchUnderWay { end: self.writer.number(), writes });
        self.writer.clear();
        Ok(true)
    }

    /// Looks at the owner's words. Returns true if they have changed.
    fn poll_look(&mut self, task: &mut Context<'_>) -> Result<bool, RingError> {
        if let Some((delay, _)) = &mut self.pause {
            let Poll::Ready(()) = Pin::new(delay).poll(task) else { return Ok(false) };
        }
        if self.look.is_none() {
            let Some((qp, key)) = &self.link else { return Ok(false) };
            let from = key.at(0, WORDS_BYTES as u64)?;
            let mut words = [0; WORDS_BYTES];
            if qp.read_now(&mut words, &from) {
                return Ok(self.learn(&words, task));
            }
            let mut buffer = match self.spare.pop() {
                Some(buffer) => buffer,
                None => qp.protection_domain().allocate(BUFFER_BYTES)?,
            };
            buffer.set_len(WORDS_BYTES);
            self.look = Some(qp.read(buffer, &from).start());
        }
        let Some(look) = &mut self.look else { return Ok(false) };
        let Poll::Ready(read) = Pin::new(look).poll(task) else { return Ok(false) };
        self.look = None;
        let words = read.map_err(Failure::into_error)?;
        let is_news = self.learn(&words, task);
        self.spare.push(words);
        Ok(is_news)
    }

    /// Takes the owner's words. Words that cannot be are ignored: the owner harms itself alone.
    fn learn(&mut self, words: &[u8], task: &mut Context<'_>) -> bool {
        let (head, notices) = (word_at(words, 0), word_at(words, NOTICES_AT as usize));
        let before = (self.writer.head(), self.notices.1);
        self.writer.learn(head);
        self.notices.1 = notices.max(self.notices.1);
        let taken = self.writer.head();
        while self.kept.front().is_some_and(|record| record.end.is_some_and(|end| end <= taken)) {
            self.kept.pop_front();
        }
        if before != (taken, self.notices.1) {
            (self.pause, self.wants_room) = (None, false);
            return true;
        }
        let length = self.pause.take().map_or(PAUSES[0], |(_, length)| (length * 2).min(PAUSES[1]));
        let mut delay = Delay::new(length);
        // This lets the timer wake the task.
        let is_over = Pin::new(&mut delay).poll(task).is_ready();
        self.pause = Some((delay, length));
        if is_over {
            task.waker().wake_by_ref();
        }
        false
    }

    fn fail(&mut self, words: String) {
        self.failed = Some(words);
        self.under_way.clear();
        (self.look, self.pause, self.wants_room) = (None, None, false);
        self.link = None;
    }

    /// Goes on with another connection to an empty ring, whose owner wants the records from `wanted` on.
    pub(super) fn resume(&mut self, qp: Q, key: RemoteKey, wanted: u64) -> Result<(), RingError> {
        let next = self.next();
        let first = self.kept.front().map_or(next, |record| record.number);
        if wanted < first || wanted > next {
            return Err(RingError::Gone { wanted, first, next });
        }
        self.fail("another one takes its place".into());
        while self.kept.front().is_some_and(|record| record.number < wanted) {
            self.kept.pop_front();
        }
        self.kept.iter_mut().for_each(|record| record.end = None);
        let kept = std::mem::take(&mut self.kept);
        let (is_noticed, most_batch_bytes, spare) = (self.is_noticed, self.most_batch_bytes, Vec::new());
        *self = SharedRingState { kept, spare, ..SharedRingState::new(qp, key, wanted, is_noticed, most_batch_bytes) };
        Ok(())
    }
}
