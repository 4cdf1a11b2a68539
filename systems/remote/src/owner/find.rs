//! The owner's own search for a key.

use crate::layout::{Candidate, IndexSearch, SearchStep, TableLayout};
use crate::memory::WordMemory;
use crate::object::{Location, ObjectHeader, ObjectState, TornCheck};
use crate::owner::{OwnerError, TableOwner};

/// An object of a key, as the owner finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnObject {
    pub(super) location: Location,
    pub(super) slot_at: u64,
    pub(super) header: ObjectHeader,
    pub(super) value_bytes: u64,
}

/// The longest READ of an index.
const INDEX_READ_BYTES: usize = 2048;

impl<M: WordMemory, L: TableLayout, C: TornCheck> TableOwner<M, L, C> {
    /// The live object of a key. One that a peer has locked must be unlocked first, because its bytes may be changing.
    pub(super) fn find(&mut self, key: &[u8]) -> Result<Option<OwnObject>, OwnerError> {
        let mut search = L::search(&self.root.shape, L::tag(self.root.salt, key));
        let mut bytes = [0; INDEX_READ_BYTES];
        loop {
            match search.step() {
                SearchStep::Read { at, len_bytes } => {
                    let wanted = bytes.get_mut(..len_bytes as usize).ok_or(OwnerError::Broken)?;
                    self.memory.copy_out(at, wanted);
                    search.feed(wanted);
                }
                SearchStep::Candidate(candidate) => {
                    if let Some(found) = self.look(candidate, key)? {
                        return Ok(Some(found));
                    }
                }
                SearchStep::Absent => return Ok(None),
                SearchStep::Torn => return Err(OwnerError::Broken),
            }
        }
    }

    /// Calls `each` with the key and the first word of each object, in no order.
    ///
    /// # Errors
    /// If a peer has broken the index. Keys that were found before have been told.
    pub fn each_key(&mut self, mut each: impl FnMut(&[u8], ObjectHeader)) -> Result<(), OwnerError> {
        for location in self.locations() {
            self.copy_key(location)?;
            each(&self.scratch, ObjectHeader::from_word(self.memory.load(location.offset())));
        }
        Ok(())
    }

    /// The locations in all slots.
    pub(super) fn locations(&self) -> Vec<Location> {
        let mut locations = Vec::new();
        L::each_location(&self.memory, &self.root.shape, &mut |location| locations.push(location));
        locations
    }

    /// Copies the key of an object to the scratch memory.
    pub(super) fn copy_key(&mut self, location: Location) -> Result<(), OwnerError> {
        let (at, class) = (location.offset(), location.class());
        if !self.blocks.is_held(at, class) {
            return Err(OwnerError::Broken);
        }
        let (key_bytes, _) = C::lengths(&self.memory, at, class.bytes()).ok_or(OwnerError::Broken)?;
        self.scratch.clear();
        C::copy_content(&self.memory, at, 0, &mut self.scratch, key_bytes);
        Ok(())
    }

    /// The candidate's object, if it has this key.
    fn look(&mut self, candidate: Candidate, key: &[u8]) -> Result<Option<OwnObject>, OwnerError> {
        let Candidate { location, slot_at, .. } = candidate;
        let (at, block_bytes) = (location.offset(), location.class().bytes());
        if !self.blocks.is_held(at, location.class()) {
            return Err(OwnerError::Broken);
        }
        let header = ObjectHeader::from_word(self.memory.load(at));
        if header.state() != ObjectState::Live {
            return Err(OwnerError::Broken);
        }
        let (key_bytes, value_bytes) = C::lengths(&self.memory, at, block_bytes).ok_or(OwnerError::Broken)?;
        if key_bytes != key.len() as u64 {
            return Ok(None);
        }
        self.scratch.clear();
        C::copy_content(&self.memory, at, 0, &mut self.scratch, key_bytes);
        Ok((self.scratch == key).then_some(OwnObject { location, slot_at, header, value_bytes }))
    }
}
