//! Cluster hashing: buckets of 8 slots, and chains of further buckets. (Wei, Shi, Chen, Chen, Chen: "Fast In-memory
//! Transaction Processing using RDMA and HTM", SOSP 2015, section 5.2: DrTM-KV.)
//!
//! ```text
//!  | slot 0: location 8, tag 8 | … | slot 7: location 8, tag 4, number of the next bucket 4 |
//! ```
//! One READ fetches a bucket. In the paper the last slot of a full bucket becomes a link, and its entry moves to the next
//! bucket. Here the last slot keeps its entry and half of its tag, and the other half is the link. So no entry ever
//! moves, and the READs per lookup are those of the paper's table.

use crate::layout::bucket::{CandidateList, SLOT_BYTES, fill_slot, location_in};
use crate::layout::table_layout::{IndexSearch, SearchStep, TableFull, TableLayout, TableShape, bucket_of};
use crate::memory::{WordMemory, word_at};
use crate::object::Location;

const SLOTS: u64 = 8;
const LAST: u64 = SLOTS - 1;
const BUCKET_BYTES: u64 = SLOTS * SLOT_BYTES;
/// The half of the last slot's tag that is one.
const TAG_BITS: u64 = 0xffff_ffff;
/// A chain that has more buckets than this is a circle that a hostile owner made.
const MAX_HOPS: u32 = 4096;

/// DrTM-KV's layout. For N keys there are N/8 main buckets, and further ones with N/2 slots.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cluster;

/// A search in a [`Cluster`] table.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSearch {
    shape: TableShape,
    tag: u64,
    bucket: Option<u64>,
    hops: u32,
    found: CandidateList,
}

/// Further buckets that are in use.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterNotes {
    linked: u64,
}

fn bucket_at(shape: &TableShape, bucket: u64) -> u64 {
    shape.area.wrapping_add(bucket.wrapping_mul(BUCKET_BYTES))
}

/// The bucket that a link leads to.
fn linked(shape: &TableShape, last_tag: u64) -> Option<u64> {
    let number = last_tag >> 32;
    (number > 0 && number <= shape.spare).then(|| shape.main + number - 1)
}

impl IndexSearch for ClusterSearch {
    fn step(&mut self) -> SearchStep {
        if let Some(candidate) = self.found.next() {
            return SearchStep::Candidate(candidate);
        }
        match self.bucket {
            Some(_) if self.hops > MAX_HOPS => SearchStep::Torn,
            Some(bucket) => SearchStep::Read { at: bucket_at(&self.shape, bucket), len_bytes: BUCKET_BYTES },
            None => SearchStep::Absent,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let Some(bucket) = self.bucket.take() else { return };
        let (at, tag) = (bucket_at(&self.shape, bucket), self.tag);
        self.found.clear();
        for slot in 0..LAST {
            self.found.look(bytes, slot * SLOT_BYTES, at + slot * SLOT_BYTES, tag, u64::MAX);
        }
        let last = LAST * SLOT_BYTES;
        self.found.look(bytes, last, at + last, tag, TAG_BITS);
        self.bucket = linked(&self.shape, word_at(bytes, last as usize + 8));
        self.hops += 1;
    }
}

impl TableLayout for Cluster {
    const CODE: u8 = 1;
    const NAME: &'static str = "cluster";
    type Search = ClusterSearch;
    type Notes = ClusterNotes;

    fn shape(keys: u64) -> TableShape {
        let main = keys.div_ceil(SLOTS).clamp(1, 1 << 40);
        TableShape { area: 0, main, spare: main.div_ceil(2).min(u64::from(u32::MAX)), extra: 0 }
    }

    fn area_bytes(shape: &TableShape) -> u64 {
        (shape.main + shape.spare) * BUCKET_BYTES
    }

    fn search(shape: &TableShape, tag: u64) -> ClusterSearch {
        let bucket = Some(bucket_of(tag, shape.main));
        ClusterSearch { shape: *shape, tag, bucket, hops: 0, found: CandidateList::new() }
    }

    fn insert<M: WordMemory>(
        memory: &M,
        shape: &TableShape,
        notes: &mut ClusterNotes,
        tag: u64,
        location: Location,
        _: &mut dyn FnMut(),
    ) -> Result<(), TableFull> {
        let mut bucket = bucket_of(tag, shape.main);
        // A chain with more buckets than there are is a circle that a peer made.
        for _ in 0..=shape.spare {
            let at = bucket_at(shape, bucket);
            let free = (0..SLOTS).find(|slot| location_in(memory, at + slot * SLOT_BYTES).is_none());
            let last_at = at + LAST * SLOT_BYTES;
            let last_tag = memory.load(last_at + 8);
            match (free, linked(shape, last_tag)) {
                (Some(LAST), _) => {
                    fill_slot(memory, last_at, last_tag & !TAG_BITS | tag & TAG_BITS, location);
                    return Ok(());
                }
                (Some(slot), _) => {
                    fill_slot(memory, at + slot * SLOT_BYTES, tag, location);
                    return Ok(());
                }
                (None, Some(next)) => bucket = next,
                (None, None) if notes.linked == shape.spare => return Err(TableFull),
                (None, None) => {
                    // The entry is in the new bucket before the link leads there.
                    fill_slot(memory, bucket_at(shape, shape.main + notes.linked), tag, location);
                    notes.linked += 1;
                    memory.store(last_at + 8, notes.linked << 32 | last_tag & TAG_BITS);
                    return Ok(());
                }
            }
        }
        Err(TableFull)
    }

    fn relocate<M: WordMemory>(memory: &M, slot_at: u64, _: u64, location: Location) {
        memory.store(slot_at, location.word());
    }

    fn clear<M: WordMemory>(memory: &M, slot_at: u64) {
        memory.store(slot_at, Location::EMPTY.word());
    }

    fn each_location<M: WordMemory>(memory: &M, shape: &TableShape, each: &mut dyn FnMut(Location)) {
        let slots = (shape.main + shape.spare) * SLOTS;
        (0..slots).filter_map(|slot| location_in(memory, shape.area + slot * SLOT_BYTES)).for_each(each);
    }
}
