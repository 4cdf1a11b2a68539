//! The writer's end of a ring, for tasks: records gather to batches, and nobody waits for each.

use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use longarm::{QueuePair, RemoteKey};
use parking_lot::Mutex;

use crate::ring::shared_state::{RingWakers, SharedRingState};
use crate::ring::writer::{RingError, RingFull};
use crate::verbs::within;

/// Settings of a [`SharedRing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRingOptions {
    /// The time for which a record waits for room, or for its end.
    pub timeout: Duration,
    /// Each batch wakes the owner's [`RingConsumer`](crate::RingConsumer). Without this the owner polls.
    pub notices: bool,
    /// Bytes of a batch at most; one record may have more.
    pub batch_bytes: usize,
}

impl Default for SharedRingOptions {
    fn default() -> SharedRingOptions {
        SharedRingOptions { timeout: Duration::from_secs(10), notices: true, batch_bytes: 64 << 10 }
    }
}

/// The writer's end of a ring in a peer's memory, which tasks share.
///
/// [`push`](SharedRing::push) waits for room only. While a few batches are under way, further records gather to the next one: it
/// leaves when one of them has ended and a task looks, at [`flush`](SharedRing::flush) the latest. [`send`](SharedRing::send) waits
/// until its record is in the owner's memory, whatever the owner does.
///
/// It keeps a copy of each record that the owner may not have taken, so as many as the ring has room for. When the owner has ended
/// and begins anew, [`resume`](SharedRing::resume) sends them again from the one on that the owner wants.
///
/// No future blocks its thread. Each may be dropped: a record that `push` or `send` has given a number is sent all the same, and
/// one that has none is not sent.
///
/// ```no_run
/// use longarm::{Connection, RemoteKey};
/// use longarm_remote::{RingError, SharedRing, SharedRingOptions};
///
/// # async fn example(connection: Connection, key: RemoteKey) -> Result<(), RingError> {
/// let ring = SharedRing::new(connection, key, SharedRingOptions::default());
/// for number in 0..1000_u32 {
///     ring.push(&number.to_le_bytes()).await?;            // does not wait for the record
/// }
/// ring.flush().await?;                                    // all are in the owner's memory
/// # Ok(())
/// # }
/// ```
pub struct SharedRing<Q> {
    state: Mutex<SharedRingState<Q>>,
    /// Records get their numbers in the order in which their tasks came.
    pushing: async_lock::Mutex<()>,
    wakers: Arc<RingWakers>,
    options: SharedRingOptions,
}

impl<Q: Deref<Target = QueuePair>> SharedRing<Q> {
    /// The writer of the empty ring that `key` leads to, all of which belongs to the ring. Its first record has the number zero.
    pub fn new(qp: Q, key: RemoteKey, options: SharedRingOptions) -> SharedRing<Q> {
        let state = SharedRingState::new(qp, key, 0, options.notices, options.batch_bytes);
        SharedRing { state: Mutex::new(state), pushing: async_lock::Mutex::new(()), wakers: Arc::default(), options }
    }

    /// Gives a record to the ring, and returns its number. Waits for room, and not for the record.
    ///
    /// # Errors
    /// [`RingError::Full`] if there is no room in time, or the record never has any. After a failure of the connection all fail
    /// ([`RingError::Ended`]) until [`resume`](SharedRing::resume).
    pub async fn push(&self, data: &[u8]) -> Result<u64, RingError> {
        if let Some(number) = self.push_now(data) {
            return Ok(number);
        }
        let _turn = self.pushing.lock().await;
        let mut refused = RingFull(data.len() as u64);
        let pushed = self.drive(|state| match state.push(data) {
            Err(RingError::Full(full)) if !state.is_hopeless(data.len()) => {
                refused = full;
                state.want_room();
                None
            }
            done => Some(done),
        });
        let pushed = within(self.options.timeout, pushed).await;
        let number = pushed.unwrap_or_else(|| Err(refused.into()))?;
        // The batch leaves now if it may.
        let waker = Waker::from(Arc::clone(&self.wakers));
        self.state.lock().advance(&mut Context::from_waker(&waker));
        Ok(number)
    }

    /// The short way of most records: there is room, and no other task waits for it.
    fn push_now(&self, data: &[u8]) -> Option<u64> {
        let _turn = self.pushing.try_lock()?;
        let waker = Waker::from(Arc::clone(&self.wakers));
        let mut state = self.state.lock();
        let number = state.push(data).ok()?;
        state.advance(&mut Context::from_waker(&waker));
        Some(number)
    }

    /// Sends a record, and returns its number when it is in the owner's memory.
    ///
    /// # Errors
    /// As [`push`](SharedRing::push). After [`RingError::Ended`] or a timeout ([`RingError::Late`]) the record may arrive all the
    /// same, and [`resume`](SharedRing::resume) sends it again if the owner has it not.
    pub async fn send(&self, data: &[u8]) -> Result<u64, RingError> {
        let number = self.push(data).await?;
        self.reach(number + 1).await?;
        Ok(number)
    }

    /// Waits until all records so far are in the owner's memory.
    ///
    /// # Errors
    /// As [`send`](SharedRing::send).
    pub async fn flush(&self) -> Result<(), RingError> {
        let next = self.state.lock().next();
        self.reach(next).await
    }

    /// Goes on after the owner, or the connection, has ended: `key` leads to an empty ring whose first record is number `next`
    /// ([`RingReader::starting_at`](crate::RingReader::starting_at)). Records from there on that are here are sent again.
    ///
    /// The earlier connection must have ended: what it writes late would break the ring, if it leads to the same memory.
    ///
    /// # Errors
    /// [`RingError::Gone`] if the owner wants records that it had told to have taken. Nothing has changed then.
    pub fn resume(&self, qp: Q, key: RemoteKey, next: u64) -> Result<(), RingError> {
        let waker = Waker::from(Arc::clone(&self.wakers));
        let mut state = self.state.lock();
        state.resume(qp, key, next)?;
        state.advance(&mut Context::from_waker(&waker));
        drop(state);
        waker.wake();
        Ok(())
    }

    /// The number of the next record.
    pub fn number(&self) -> u64 {
        self.state.lock().next()
    }

    /// Records that are kept, because the owner may not have taken them.
    pub fn kept(&self) -> usize {
        self.state.lock().kept()
    }

    /// Waits until the records before that number are in the owner's memory.
    async fn reach(&self, number: u64) -> Result<(), RingError> {
        let reached = self.drive(|state| (state.done() >= number).then_some(Ok(())));
        within(self.options.timeout, reached).await.unwrap_or(Err(RingError::Late(self.options.timeout)))
    }

    /// Goes on with all that is under way until `ready` gives something.
    async fn drive<T>(
        &self,
        mut ready: impl FnMut(&mut SharedRingState<Q>) -> Option<Result<T, RingError>>,
    ) -> Result<T, RingError> {
        let waker = Waker::from(Arc::clone(&self.wakers));
        poll_fn(|task| {
            // First: a completion that comes meanwhile wakes this task, too.
            self.wakers.add(task.waker());
            let (mut state, mut all) = (self.state.lock(), Context::from_waker(&waker));
            state.advance(&mut all);
            if let Some(done) = ready(&mut state) {
                return Poll::Ready(done);
            }
            // `ready` may want something that is possible at once.
            state.advance(&mut all);
            if let Some(done) = ready(&mut state) {
                return Poll::Ready(done);
            }
            match state.failure() {
                Some(failure) => Poll::Ready(Err(failure)),
                None => Poll::Pending,
            }
        })
        .await
    }
}
