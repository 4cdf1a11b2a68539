//! The table that the access path reads: one gate per slot. Chunks are made when they are first needed and
//! never freed before the table, so that no reader ever waits.

use std::sync::OnceLock;

use crate::gate::Gate;
use crate::grant::Grant;
use crate::keys::MAX_SLOTS;

/// Entries of a chunk.
const CHUNK: usize = 1024;
const CHUNKS: usize = MAX_SLOTS as usize / CHUNK;

/// A table entry on its own cache lines, since pinning writes to it.
#[repr(align(64))]
pub(crate) struct GrantEntry(Gate<Grant>);

// The second line holds the fields that only peers on the same host need.
const _: () = assert!(size_of::<GrantEntry>() == 128);

type GrantChunk = Box<[GrantEntry]>;

/// The chunks of a table. They do not move when the table moves.
pub(crate) type Chunks = [OnceLock<GrantChunk>; CHUNKS];

/// The entries of all slots.
pub(crate) struct GrantTable {
    chunks: Box<Chunks>,
}

impl GrantTable {
    pub(crate) fn new() -> GrantTable {
        let chunks: Box<[OnceLock<GrantChunk>]> = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        let Ok(chunks) = chunks.try_into() else { unreachable!("as many as were counted") };
        GrantTable { chunks }
    }

    pub(crate) fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// The entry of a slot; `None` if no slot of its chunk was ever used.
    #[inline(always)]
    pub(crate) fn get(&self, slot: u32) -> Option<&Gate<Grant>> {
        let chunk = self.chunks.get(slot as usize / CHUNK)?.get()?;
        Some(&chunk[slot as usize % CHUNK].0)
    }

    /// The entry of a slot, made if necessary.
    pub(crate) fn make(&self, slot: u32) -> &Gate<Grant> {
        let chunk = self.chunks[slot as usize / CHUNK].get_or_init(new_chunk);
        &chunk[slot as usize % CHUNK].0
    }
}

/// True if an access is in progress, at this moment, in a region that should have this address mapped. Safe
/// to call from a signal handler.
pub(crate) fn is_accessed(chunks: &Chunks, address: usize) -> bool {
    let entries = chunks.iter().filter_map(OnceLock::get).flat_map(|chunk| chunk.iter());
    let mut accessed = entries.filter_map(|entry| entry.0.pinned());
    accessed.any(|grant| grant.maps(address))
}

fn new_chunk() -> GrantChunk {
    (0..CHUNK).map(|_| GrantEntry(Gate::closed(Grant::NONE))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::far::Backing;

    #[test]
    fn only_pinned_memory_that_stays_mapped_is_accessed() {
        let table = GrantTable::new();
        let start = core::ptr::without_provenance_mut(0x10000);
        let region = Grant { start, ..Grant::NONE }.sized(0x1000);
        let everything = Grant { backing: Backing::OnDemand, ..Grant::NONE }.sized(u64::MAX);
        for (slot, grant) in [(1, region), (2000, everything)] {
            table.make(slot).open(grant);
        }
        let accessed = || [0xffff, 0x10000, 0x10fff, 0x11000].map(|address| is_accessed(table.chunks(), address));
        let _whole_space = table.make(2000).pin();
        assert_eq!(accessed(), [false; 4], "no access is pinned");
        let _region = table.make(1).pin();
        assert_eq!(accessed(), [false, true, true, false]);
    }

    #[test]
    fn entries_come_in_chunks_and_are_told_apart() {
        let table = GrantTable::new();
        assert!(table.get(0).is_none() && table.get(MAX_SLOTS - 1).is_none());
        table.make(5);
        assert!(table.get(1023).is_some() && table.get(1024).is_none());
        table.make(MAX_SLOTS - 1);
        assert!(table.get(MAX_SLOTS).is_none());
        let entries = [table.make(5), table.make(6), table.make(MAX_SLOTS - 1)];
        assert!(!std::ptr::eq(entries[0], entries[1]));
        assert!(std::ptr::eq(entries[2], table.make(MAX_SLOTS - 1)));
    }
}
