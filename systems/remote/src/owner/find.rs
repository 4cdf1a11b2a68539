//! The owner's own search for a key.

use crate::layout::{Candidate, IndexSearch, SearchStep, TableLayout};
use crate::memory::WordMemory;
use crate::object::{Location, ObjectHeader, TornCheck};
use crate::owner::{OwnObject, OwnerError, TableOwner};

/// The longest READ of an index.
const INDEX_READ_BYTES: usize = 2048;
/// Bytes that a processor fetches together.
const CACHE_LINE: usize = 64;

impl<M: WordMemory, L: TableLayout, C: TornCheck> TableOwner<M, L, C> {
    /// The live object of a key. One that a peer has locked must be unlocked first, because its bytes may be changing.
    pub(super) fn find(&mut self, key: &[u8]) -> Result<Option<OwnObject>, OwnerError> {
        // One buffer for all searches: to clear a new one took as long as to read a bucket.
        let mut bytes = std::mem::take(&mut self.index_bytes);
        bytes.resize(INDEX_READ_BYTES, 0);
        let found = self.find_by(key, &mut bytes);
        self.index_bytes = bytes;
        found
    }

    fn find_by(&mut self, key: &[u8], bytes: &mut [u8]) -> Result<Option<OwnObject>, OwnerError> {
        let mut search = L::search(&self.root.shape, L::tag(self.root.salt, key));
        loop {
            match search.step() {
                SearchStep::Read { at, len_bytes } => {
                    let wanted = bytes.get_mut(..len_bytes as usize).ok_or(OwnerError::Broken)?;
                    self.objects.memory.copy_out(at, wanted);
                    search.feed(wanted);
                }
                SearchStep::Candidate(Candidate { location, slot_at, .. }) => {
                    if let Some(found) = self.objects.look((location, slot_at), key)? {
                        return Ok(Some(found));
                    }
                }
                SearchStep::Absent => return Ok(None),
                SearchStep::Torn => return Err(OwnerError::Broken),
            }
        }
    }

    /// Reads the first part of the index that a search for this key will read. Reads for several keys overlap in the processor,
    /// where searches would wait for the memory one after the other. Returns bits of no meaning, for which the reads happen.
    pub fn look_ahead(&self, key: &[u8]) -> u64 {
        match L::search(&self.root.shape, L::tag(self.root.salt, key)).step() {
            SearchStep::Read { at, len_bytes } => {
                (0..len_bytes).step_by(CACHE_LINE).fold(0, |bits, line| bits ^ self.objects.memory.load(at + line))
            }
            _ => 0,
        }
    }

    /// Calls `each` with the key and the first word of each object, in no order.
    ///
    /// # Errors
    /// If a peer has broken the index. Keys that were found before have been told.
    pub fn each_key(&mut self, mut each: impl FnMut(&[u8], ObjectHeader)) -> Result<(), OwnerError> {
        for location in self.locations() {
            self.objects.copy_key(location)?;
            each(&self.objects.scratch, ObjectHeader::from_word(self.objects.memory.load(location.offset())));
        }
        Ok(())
    }

    /// The locations in all slots.
    pub(super) fn locations(&self) -> Vec<Location> {
        let mut locations = Vec::new();
        L::each_location(&self.objects.memory, &self.root.shape, &mut |location| locations.push(location));
        locations
    }
}
