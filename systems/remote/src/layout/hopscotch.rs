//! Hopscotch hashing with chains. (Dragojević, Narayanan, Hodson, Castro: "FaRM: Fast Remote Memory", NSDI 2014, section 6.)
//!
//! ```text
//!  bucket: | slot 0: location 8, tag 8 | … | slot 3 | number of the next bucket 8 | unused 8 |
//! ```
//! A key is in its bucket, in the one behind it, or in its bucket's chain. One READ fetches the two buckets: the neighbourhood of
//! 8 slots. An insertion moves other keys to get a free slot there, and takes the chain if it cannot.

use crate::layout::bucket::{CandidateList, SLOT_BYTES, fill_slot, location_in};
use crate::layout::table_layout::{IndexSearch, SearchStep, TableFull, TableLayout, TableShape, bucket_of};
use crate::memory::{WordMemory, word_at};
use crate::object::Location;

/// Slots of a bucket: half of the neighbourhood.
const SLOTS: u64 = 4;
const LINK_AT: u64 = SLOTS * SLOT_BYTES;
const BUCKET_BYTES: u64 = LINK_AT + 16;
/// Buckets that an insertion looks at for a free slot.
const MAX_DISTANCE: u64 = 128;
/// A chain that has more buckets than this is a circle that a hostile owner made.
const MAX_HOPS: u32 = 4096;

/// FaRM's layout. For N keys there are N/4 buckets, and N/16 further ones for chains.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hopscotch;

/// A search in a [`Hopscotch`] table.
#[derive(Clone, Copy, Debug)]
pub struct HopscotchSearch {
    shape: TableShape,
    tag: u64,
    bucket: Option<u64>,
    hops: u32,
    found: CandidateList,
}

/// Chain buckets that are in use.
#[derive(Clone, Copy, Debug, Default)]
pub struct HopscotchNotes {
    linked: u64,
}

fn bucket_at(shape: &TableShape, bucket: u64) -> u64 {
    shape.area.wrapping_add(bucket.wrapping_mul(BUCKET_BYTES))
}

fn slot_at(shape: &TableShape, bucket: u64, slot: u64) -> u64 {
    bucket_at(shape, bucket) + slot * SLOT_BYTES
}

/// Main buckets have a last one that no key calls its own: the neighbour of the one before it.
fn chain_bucket(shape: &TableShape, link: u64) -> Option<u64> {
    (link > 0 && link <= shape.spare).then(|| shape.main.wrapping_add(link))
}

fn free_slot<M: WordMemory>(memory: &M, shape: &TableShape, bucket: u64) -> Option<u64> {
    (0..SLOTS).map(|slot| slot_at(shape, bucket, slot)).find(|at| location_in(memory, *at).is_none())
}

impl IndexSearch for HopscotchSearch {
    fn step(&mut self) -> SearchStep {
        if let Some(candidate) = self.found.next() {
            return SearchStep::Candidate(candidate);
        }
        let buckets = if self.hops == 0 { 2 } else { 1 };
        match self.bucket {
            Some(_) if self.hops > MAX_HOPS => SearchStep::Torn,
            Some(bucket) => SearchStep::Read { at: bucket_at(&self.shape, bucket), len_bytes: buckets * BUCKET_BYTES },
            None => SearchStep::Absent,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let Some(bucket) = self.bucket.take() else { return };
        self.found.clear();
        for offset in (0..bytes.len() as u64).step_by(BUCKET_BYTES as usize) {
            for slot in 0..SLOTS {
                let offset = offset + slot * SLOT_BYTES;
                self.found.look(bytes, offset, bucket_at(&self.shape, bucket) + offset, self.tag, u64::MAX);
            }
        }
        self.bucket = chain_bucket(&self.shape, word_at(bytes, LINK_AT as usize));
        self.hops += 1;
    }
}

/// Moves a free slot one bucket back: an entry of the bucket before, whose own bucket that is, moves into it. Returns the
/// slot that is free then.
fn hop<M: WordMemory>(
    memory: &M,
    shape: &TableShape,
    free_at: u64,
    free_bucket: u64,
    moving: &mut dyn FnMut(),
) -> Option<u64> {
    let before = free_bucket.checked_sub(1)?;
    for slot in 0..SLOTS {
        let at = slot_at(shape, before, slot);
        let Some(location) = location_in(memory, at) else { continue };
        let tag = memory.load(at + 8);
        if bucket_of(tag, shape.main) == before {
            moving();
            fill_slot(memory, free_at, tag, location);
            memory.store(at, Location::EMPTY.word());
            return Some(at);
        }
    }
    None
}

/// A free slot in the neighbourhood of a bucket, if entries behind it can make one.
fn make_room<M: WordMemory>(memory: &M, shape: &TableShape, home: u64, moving: &mut dyn FnMut()) -> Option<u64> {
    let end = (home + MAX_DISTANCE).min(shape.main);
    let found = (home + 2..=end).find_map(|bucket| Some((bucket, free_slot(memory, shape, bucket)?)));
    let (mut bucket, mut at) = found?;
    while bucket > home + 1 {
        at = hop(memory, shape, at, bucket, moving)?;
        bucket -= 1;
    }
    Some(at)
}

/// A free slot in the chain of a bucket, and where to link a new chain bucket if it needs one.
fn chain_slot<M: WordMemory>(
    memory: &M,
    shape: &TableShape,
    notes: &mut HopscotchNotes,
    home: u64,
) -> Option<(u64, Option<u64>)> {
    let mut bucket = home;
    // A chain with more buckets than there are is a circle that a peer made.
    for _ in 0..=shape.spare {
        let link_at = bucket_at(shape, bucket) + LINK_AT;
        match chain_bucket(shape, memory.load(link_at)) {
            Some(next) => {
                if let Some(at) = free_slot(memory, shape, next) {
                    return Some((at, None));
                }
                bucket = next;
            }
            None if notes.linked == shape.spare => return None,
            None => {
                notes.linked += 1;
                return Some((slot_at(shape, shape.main + notes.linked, 0), Some(link_at)));
            }
        }
    }
    None
}

impl TableLayout for Hopscotch {
    const CODE: u8 = 2;
    const NAME: &'static str = "hopscotch";
    type Search = HopscotchSearch;
    type Notes = HopscotchNotes;

    fn shape(keys: u64) -> TableShape {
        let main = keys.div_ceil(SLOTS).clamp(1, 1 << 40);
        TableShape { area: 0, main, spare: main.div_ceil(4), extra: 0 }
    }

    fn area_bytes(shape: &TableShape) -> u64 {
        (shape.main + 1 + shape.spare) * BUCKET_BYTES
    }

    fn search(shape: &TableShape, tag: u64) -> HopscotchSearch {
        let bucket = Some(bucket_of(tag, shape.main));
        HopscotchSearch { shape: *shape, tag, bucket, hops: 0, found: CandidateList::new() }
    }

    fn insert<M: WordMemory>(
        memory: &M,
        shape: &TableShape,
        notes: &mut HopscotchNotes,
        tag: u64,
        location: Location,
        moving: &mut dyn FnMut(),
    ) -> Result<(), TableFull> {
        let home = bucket_of(tag, shape.main);
        let near = [home, home + 1].into_iter().find_map(|bucket| free_slot(memory, shape, bucket));
        if let Some(at) = near.or_else(|| make_room(memory, shape, home, moving)) {
            fill_slot(memory, at, tag, location);
            return Ok(());
        }
        let (at, new_link) = chain_slot(memory, shape, notes, home).ok_or(TableFull)?;
        fill_slot(memory, at, tag, location);
        // The entry is in the new bucket before the link leads there.
        if let Some(link_at) = new_link {
            memory.store(link_at, notes.linked);
        }
        Ok(())
    }

    fn relocate<M: WordMemory>(memory: &M, slot_at: u64, _: u64, location: Location) {
        memory.store(slot_at, location.word());
    }

    fn clear<M: WordMemory>(memory: &M, slot_at: u64) {
        memory.store(slot_at, Location::EMPTY.word());
    }

    fn each_location<M: WordMemory>(memory: &M, shape: &TableShape, each: &mut dyn FnMut(Location)) {
        for bucket in 0..shape.main + 1 + shape.spare {
            let slots = (0..SLOTS).filter_map(|slot| location_in(memory, slot_at(shape, bucket, slot)));
            slots.for_each(&mut *each);
        }
    }
}
