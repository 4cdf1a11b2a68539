//! The requests of an update by a peer that may die: a copy and the lock, then the object and its first word. Readers of one
//! thread wait for them, those of tasks await them.

use std::time::Duration;

use longarm::error::{PostError, WorkError};
use longarm::{Buffer, Failure, InFlight, Outcome, ProtectionDomain, QueuePair, RemoteKey};

use crate::object::{Location, ObjectHeader, TornCheck};
use crate::root::RootCopy;
use crate::update::{OneSidedUpdate, UpdateRefusal, UpdateStep};
use crate::verbs::writer::{AloneError, AloneOutcome, WriterPass};

/// Objects up to this length travel in the request itself.
const INLINE_BYTES: usize = 192;
/// The least length of the buffer for longer ones.
const BUFFER_BYTES: usize = 4 << 10;

/// The connection and the table's key.
pub(super) struct AloneLink<'q> {
    pub(super) qp: &'q QueuePair,
    pub(super) domain: &'q ProtectionDomain,
    pub(super) key: RemoteKey,
}

/// A WRITE of bytes of the object.
pub(super) enum BytesWrite {
    Inline(InFlight<()>),
    Buffer(InFlight<Buffer>),
}

/// The first two requests: the copy and the compare-and-swap.
pub(super) struct AloneLock {
    pub(super) copy: BytesWrite,
    pub(super) swap: InFlight<u64>,
    word: RemoteKey,
    body_to: RemoteKey,
}

/// The last two requests: the object, and its first word without the lock.
pub(super) struct AloneUnlock {
    pub(super) body: BytesWrite,
    pub(super) unlocked: InFlight<()>,
    pub(super) header: ObjectHeader,
}

impl AloneLink<'_> {
    /// Posts the copy and the compare-and-swap. `Err` of the inner result: no request is under way, and that is the outcome.
    ///
    /// Requests of one queue pair are carried out in order: the copy is whole before the lock is taken.
    pub(super) fn begin<C: TornCheck>(
        &self,
        update: &mut OneSidedUpdate<C>,
        (root, place): (&RootCopy, (ObjectHeader, Location)),
        (key, value): (&[u8], &[u8]),
        pass: &WriterPass,
        spare: &mut Option<Buffer>,
    ) -> Result<Result<AloneLock, AloneOutcome>, AloneError> {
        let not_begun = AloneError::NotBegun;
        let (at, compare, swap) = match update.start(root, place, pass.holder, key, value) {
            Ok(UpdateStep::CompareSwap { at, compare, swap }) => (at, compare, swap),
            Ok(_) | Err(UpdateRefusal::Locked(_)) => return Ok(Err(AloneOutcome::Contended)),
            Err(_) => return Ok(Err(AloneOutcome::OwnerOnly)),
        };
        let image_bytes = update.image().len();
        let word = self.key.word(at).map_err(|error| not_begun(error.into()))?;
        let body_to = self.key.at(at + 8, image_bytes as u64 - 8).map_err(|error| not_begun(error.into()))?;
        let copy_to = self.key.at(pass.copy_at, image_bytes as u64).map_err(|error| not_begun(error.into()))?;
        let mut copy = if image_bytes <= INLINE_BYTES {
            BytesWrite::Inline(self.qp.write_inline(update.image(), &copy_to).start())
        } else {
            let buffer = match spare.take().filter(|buffer| buffer.capacity() >= image_bytes) {
                Some(buffer) => buffer,
                None => {
                    let allocated = self.domain.allocate(image_bytes.max(BUFFER_BYTES));
                    allocated.map_err(|error| not_begun(error.into()))?
                }
            };
            BytesWrite::Buffer(self.qp.write(buffer.with(update.image()), &copy_to).start())
        };
        // Without a copy nobody could complete the change of a peer that is gone.
        if let Some(refused) = copy.refused() {
            return contended_if_full(refused);
        }
        let mut swap = self.qp.compare_swap(&word, compare.to_le(), swap.to_le()).start();
        if let Some(refused) = refusal(&mut swap) {
            return contended_if_full(refused);
        }
        Ok(Ok(AloneLock { copy, swap, word, body_to }))
    }

    /// Posts the object and its first word, if the word before the compare-and-swap was the right one. `buffer` is that of the
    /// copy. `None`: another writer was faster.
    pub(super) fn write<C: TornCheck>(
        &self,
        update: &OneSidedUpdate<C>,
        (word, body_to): (&RemoteKey, &RemoteKey),
        before: u64,
        buffer: &mut Option<Buffer>,
    ) -> Result<Option<AloneUnlock>, AloneError> {
        let UpdateStep::Write { body, header, .. } = update.swapped(u64::from_le(before)) else { return Ok(None) };
        let mut body = match buffer.take() {
            None => BytesWrite::Inline(self.qp.write_inline(body, body_to).start()),
            Some(buffer) => BytesWrite::Buffer(self.qp.write(buffer.with(body), body_to).start()),
        };
        // An unlocked object without its bytes would be lost. The owner ends the lock of a connection that has ended.
        if let Some(refused) = body.refused() {
            return Err(AloneError::Unknown(refused.into()));
        }
        let unlocked = self.qp.write_inline(&header.word().to_le_bytes(), word).start();
        Ok(Some(AloneUnlock { body, unlocked, header }))
    }
}

impl AloneLock {
    /// The places of the object's first word and of its other bytes.
    pub(super) fn places(&self) -> (RemoteKey, RemoteKey) {
        (self.word, self.body_to)
    }
}

impl BytesWrite {
    fn refused(&mut self) -> Option<WorkError> {
        match self {
            BytesWrite::Inline(write) => refusal(write),
            BytesWrite::Buffer(write) => refusal(write),
        }
    }

    /// Waits until it is done. Returns its buffer.
    pub(super) fn wait(self, timeout: Duration) -> Result<Option<Buffer>, Failure> {
        match self {
            BytesWrite::Inline(write) => write.wait(timeout).map(|()| None),
            BytesWrite::Buffer(write) => write.wait(timeout).map(Some),
        }
    }

    /// The same, for a task.
    pub(super) async fn done(self) -> Result<Option<Buffer>, Failure> {
        match self {
            BytesWrite::Inline(write) => write.await.map(|()| None),
            BytesWrite::Buffer(write) => write.await.map(Some),
        }
    }
}

/// The reason why a request was not posted.
fn refusal<T: Outcome>(request: &mut InFlight<T>) -> Option<WorkError> {
    if request.is_posted() {
        return None;
    }
    request.wait_for(Duration::ZERO)?.err().map(Failure::into_error)
}

/// Nothing has happened yet. A full queue has room later.
fn contended_if_full(refused: WorkError) -> Result<Result<AloneLock, AloneOutcome>, AloneError> {
    match refused {
        WorkError::NotPosted(PostError::QueueFull { .. }) => Ok(Err(AloneOutcome::Contended)),
        refused => Err(AloneError::NotBegun(refused.into())),
    }
}
