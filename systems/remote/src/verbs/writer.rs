//! Updates by a peer that may die: a copy first, then lock, WRITE, unlock.

use std::ops::Deref;
use std::time::Duration;

use longarm::{Buffer, InFlight, QueuePair};

use crate::layout::TableLayout;
use crate::local::LookupError;
use crate::lookup::FoundObject;
use crate::object::{ObjectHeader, TornCheck};
use crate::update::{UpdateRefusal, UpdateStep};
use crate::verbs::{ReadError, TableReader};

/// Objects up to this length travel in the request itself.
const INLINE_BYTES: usize = 192;
/// The least length of the buffer for longer ones.
const BUFFER_BYTES: usize = 4 << 10;

/// The right of a peer to update objects, as the owner of the table gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterPass {
    /// Its number as the holder of locks.
    pub holder: u16,
    /// Where its block for copies begins ([`PeerTable::lend_copy`](crate::PeerTable::lend_copy)).
    pub copy_at: u64,
    /// The length of that block. Objects in longer blocks are their owner's.
    pub copy_bytes: u64,
}

/// The outcome of an update by a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AloneOutcome {
    /// Done: the object's first word.
    Updated(ObjectHeader),
    /// Another writer was faster, or has the lock. Nothing has changed.
    Contended,
    /// Only the owner can do it: the key is absent, or the value does not fit. Nothing has changed.
    OwnerOnly,
    /// The caller wanted no update. Nothing has changed.
    Declined,
}

/// A request that failed after the update had begun: nobody but the owner knows whether it happened.
#[derive(Debug, thiserror::Error)]
pub enum AloneError {
    /// It certainly did not.
    #[error(transparent)]
    NotBegun(ReadError),
    /// It may have happened.
    #[error("the connection failed in the middle of an update: {0}")]
    Unknown(ReadError),
}

impl<Q: Deref<Target = QueuePair>, L: TableLayout, C: TornCheck> TableReader<Q, L, C> {
    /// Gives a present key a new value, once. `value_of` makes it from the object that a lookup finds, into the vector, or
    /// returns false.
    ///
    /// The update of a peer that dies meanwhile happens all the same, or not at all: the owner has its copy. So the first
    /// word that this returns stays true.
    ///
    /// # Errors
    /// See [`AloneError`]. The connection is good for nothing then.
    pub fn update_alone(
        &mut self,
        key: &[u8],
        pass: &WriterPass,
        mut value_of: impl FnMut(&FoundObject<'_>, &mut Vec<u8>) -> bool,
    ) -> Result<AloneOutcome, AloneError> {
        let (mut place, mut is_wanted, mut value) = (None, false, std::mem::take(&mut self.value));
        value.clear();
        let looked = self.multi_get(&[key], |_, found| {
            if let Some(found) = found {
                place = Some((found.header, found.location));
                is_wanted = value_of(&found, &mut value);
            }
        });
        let done = match (looked, place) {
            // A writer that is gone may have left a lock.
            (Err(ReadError::Lookup(LookupError::Busy)), _) => Ok(AloneOutcome::Contended),
            (Err(error), _) => Err(AloneError::NotBegun(error)),
            (Ok(()), None) => Ok(AloneOutcome::OwnerOnly),
            (Ok(()), Some(_)) if !is_wanted => Ok(AloneOutcome::Declined),
            (Ok(()), Some((_, location))) if location.class().bytes() > pass.copy_bytes => Ok(AloneOutcome::OwnerOnly),
            (Ok(()), Some(place)) => self.write_alone(place, key, &value, pass),
        };
        self.value = value;
        done
    }

    fn write_alone(
        &mut self,
        place: (ObjectHeader, crate::object::Location),
        key: &[u8],
        value: &[u8],
        pass: &WriterPass,
    ) -> Result<AloneOutcome, AloneError> {
        let not_begun = AloneError::NotBegun;
        let root = self.lanes.root.ok_or(LookupError::Busy).map_err(|error| not_begun(error.into()))?;
        let (qp, lanes_key) = (&self.lanes.qp, self.lanes.key);
        let (at, compare, swap) = match self.update.start(&root, place, pass.holder, key, value) {
            Ok(UpdateStep::CompareSwap { at, compare, swap }) => (at, compare, swap),
            Ok(_) | Err(UpdateRefusal::Locked(_)) => return Ok(AloneOutcome::Contended),
            Err(_) => return Ok(AloneOutcome::OwnerOnly),
        };
        let image_bytes = self.update.image().len();
        let word = lanes_key.word(at).map_err(|error| not_begun(error.into()))?;
        let body_to = lanes_key.at(at + 8, image_bytes as u64 - 8).map_err(|error| not_begun(error.into()))?;
        let copy_to = lanes_key.at(pass.copy_at, image_bytes as u64).map_err(|error| not_begun(error.into()))?;
        let timeout = self.lanes.options.timeout;
        let unknown = |error: longarm::error::WorkError| AloneError::Unknown(error.into());

        // Requests of one queue pair are carried out in order: the copy is whole before the lock is taken.
        let mut bytes = if image_bytes <= INLINE_BYTES {
            drop(qp.write_inline(self.update.image(), &copy_to).start());
            None
        } else {
            let buffer = match self.spare.take().filter(|buffer| buffer.capacity() >= image_bytes) {
                Some(buffer) => buffer,
                None => self
                    .lanes
                    .domain
                    .allocate(image_bytes.max(BUFFER_BYTES))
                    .map_err(|error| not_begun(error.into()))?,
            };
            Some(qp.write(buffer.with(self.update.image()), &copy_to).start())
        };
        let swapped = qp.compare_swap(&word, compare.to_le(), swap.to_le()).wait(timeout);
        let before = swapped.map_err(|failure| unknown(failure.into_error()))?;
        let buffer = take_back(&mut bytes, timeout)?;
        let UpdateStep::Write { body, header, .. } = self.update.swapped(u64::from_le(before)) else {
            self.spare = buffer;
            return Ok(AloneOutcome::Contended);
        };
        let mut bytes = match buffer {
            None => {
                drop(qp.write_inline(body, &body_to).start());
                None
            }
            Some(buffer) => Some(qp.write(buffer.with(body), &body_to).start()),
        };
        let unlocked = qp.write_inline(&header.word().to_le_bytes(), &word).wait(timeout);
        unlocked.map_err(|failure| unknown(failure.into_error()))?;
        self.spare = take_back(&mut bytes, timeout)?;
        Ok(AloneOutcome::Updated(header))
    }
}

/// The buffer of a WRITE, when it is done.
fn take_back(bytes: &mut Option<InFlight<Buffer>>, timeout: Duration) -> Result<Option<Buffer>, AloneError> {
    let Some(write) = bytes.take() else { return Ok(None) };
    let done = write.wait(timeout);
    done.map(Some).map_err(|failure| AloneError::Unknown(failure.into_error().into()))
}
