//! Updates by a peer that may die: a copy first, then lock, WRITE, unlock.

use std::ops::Deref;

use longarm::{Failure, QueuePair};

use crate::layout::TableLayout;
use crate::local::LookupError;
use crate::lookup::FoundObject;
use crate::object::{Location, ObjectHeader, TornCheck};
use crate::verbs::alone_write::AloneLink;
use crate::verbs::{ReadError, TableReader};

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

/// The object that an update is for: its first word and its place.
pub(super) type AlonePlace = (ObjectHeader, Location);

/// Judges an object, and lets `value_of` make its new value. `None`: the key is absent.
pub(super) fn target_of(
    found: Option<FoundObject<'_>>,
    pass: &WriterPass,
    value_of: &mut impl FnMut(&FoundObject<'_>, &mut Vec<u8>) -> bool,
    value: &mut Vec<u8>,
) -> Option<Result<AlonePlace, AloneOutcome>> {
    let found = found?;
    Some(match value_of(&found, value) {
        false => Err(AloneOutcome::Declined),
        true if found.location.class().bytes() > pass.copy_bytes => Err(AloneOutcome::OwnerOnly),
        true => Ok((found.header, found.location)),
    })
}

/// The place to write to. `Err` of the inner result: the outcome without any.
pub(super) fn after_lookup(
    looked: Result<(), ReadError>,
    target: Option<Result<AlonePlace, AloneOutcome>>,
) -> Result<Result<AlonePlace, AloneOutcome>, AloneError> {
    match looked {
        // A writer that is gone may have left a lock.
        Err(ReadError::Lookup(LookupError::Busy)) => Ok(Err(AloneOutcome::Contended)),
        Err(error) => Err(AloneError::NotBegun(error)),
        Ok(()) => Ok(target.unwrap_or(Err(AloneOutcome::OwnerOnly))),
    }
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
        let (mut target, mut value) = (None, std::mem::take(&mut self.value));
        value.clear();
        let looked = self.multi_get(&[key], |_, found| target = target_of(found, pass, &mut value_of, &mut value));
        let done = match after_lookup(looked, target) {
            Ok(Ok(place)) => self.write_alone(place, key, &value, pass),
            Ok(Err(outcome)) => Ok(outcome),
            Err(error) => Err(error),
        };
        self.value = value;
        done
    }

    fn write_alone(
        &mut self,
        place: (ObjectHeader, Location),
        key: &[u8],
        value: &[u8],
        pass: &WriterPass,
    ) -> Result<AloneOutcome, AloneError> {
        let root = self.lanes.root.ok_or_else(|| AloneError::NotBegun(LookupError::Busy.into()))?;
        let link = AloneLink { qp: &self.lanes.qp, domain: &self.lanes.domain, key: self.lanes.key };
        let timeout = self.lanes.options.timeout;
        let unknown = |failure: Failure| AloneError::Unknown(failure.into_error().into());
        let lock = match link.begin(&mut self.update, (&root, place), (key, value), pass, &mut self.spare)? {
            Ok(lock) => lock,
            Err(outcome) => return Ok(outcome),
        };
        let (word, body_to) = lock.places();
        let before = lock.swap.wait(timeout).map_err(unknown)?;
        let mut buffer = lock.copy.wait(timeout).map_err(unknown)?;
        let Some(unlock) = link.write(&self.update, (&word, &body_to), before, &mut buffer)? else {
            self.spare = buffer;
            return Ok(AloneOutcome::Contended);
        };
        unlock.unlocked.wait(timeout).map_err(unknown)?;
        self.spare = unlock.body.wait(timeout).map_err(unknown)?;
        Ok(AloneOutcome::Updated(unlock.header))
    }
}
