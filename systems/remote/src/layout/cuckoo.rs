//! Cuckoo hashing with three functions and one slot for each. (Mitchell, Geng, Li: "Using One-Sided RDMA Reads to Build a
//! Fast, CPU-Efficient Key-Value Store", USENIX ATC 2013, section 3.2: Pilaf.)
//!
//! ```text
//!  | location 8 | tag 8 | checksum of both and the place 8 | unused 8 |
//! ```
//! Entries verify themselves: a reader that gets the words of two entries reads again. A reader looks at the three places one
//! after the other.

use crate::layout::table_layout::{Candidate, IndexSearch, SearchStep, TableFull, TableLayout, TableShape, bucket_of};
use crate::memory::{WordMemory, word_at};
use crate::object::{Location, SlotKind, mixed};

const ENTRY_BYTES: u64 = 32;
const FUNCTIONS: usize = 3;
/// Entries that an insertion looks at for a way to a free place.
const MAX_SEARCHED: usize = 4096;

/// Pilaf's layout: room for exactly N entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuckoo;

/// A search in a [`Cuckoo`] table.
#[derive(Clone, Copy, Debug)]
pub struct CuckooSearch {
    places: [u64; FUNCTIONS],
    tag: u64,
    next: usize,
    found: Option<Candidate>,
    is_torn: bool,
}

/// The places of a tag.
fn places(shape: &TableShape, tag: u64) -> [u64; FUNCTIONS] {
    let hashes = [tag, mixed(tag ^ 0x9e37_79b9_7f4a_7c15), mixed(tag ^ 0x3c6e_f372_fe94_f82a)];
    hashes.map(|hash| shape.area.wrapping_add(bucket_of(hash, shape.main).wrapping_mul(ENTRY_BYTES)))
}

fn checksum(at: u64, location: Location, tag: u64) -> u64 {
    mixed(mixed(location.word() ^ mixed(tag)) ^ at)
}

fn store<M: WordMemory>(memory: &M, at: u64, tag: u64, location: Location) {
    memory.store(at + 8, tag);
    memory.store(at + 16, checksum(at, location, tag));
    memory.store(at, location.word());
}

/// The entry at a place: location and tag.
fn entry_at<M: WordMemory>(memory: &M, at: u64) -> Option<(Location, u64)> {
    let location = Location::from_word(memory.load(at));
    (location.kind() == SlotKind::Object).then(|| (location, memory.load(at + 8)))
}

impl IndexSearch for CuckooSearch {
    fn step(&mut self) -> SearchStep {
        if let Some(candidate) = self.found.take() {
            return SearchStep::Candidate(candidate);
        }
        match self.places.get(self.next) {
            _ if self.is_torn => SearchStep::Torn,
            Some(at) => SearchStep::Read { at: *at, len_bytes: ENTRY_BYTES },
            None => SearchStep::Absent,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let Some(slot_at) = self.places.get(self.next).copied() else { return };
        self.next += 1;
        let (location, tag) = (Location::from_word(word_at(bytes, 0)), word_at(bytes, 8));
        if location.kind() == SlotKind::Empty {
            return;
        }
        self.is_torn = word_at(bytes, 16) != checksum(slot_at, location, tag);
        if tag == self.tag && !self.is_torn {
            self.found = Some(Candidate { location, slot_at, tag_mask: u64::MAX });
        }
    }
}

/// An entry that an insertion may move, and the one that would take its place.
struct CuckooStep {
    at: u64,
    before: Option<usize>,
}

/// A way from one of the `places` to a free place, by breadth first: the places along it, the free one first.
fn way_to_free<M: WordMemory>(memory: &M, shape: &TableShape, starts: [u64; FUNCTIONS]) -> Option<Vec<u64>> {
    let mut steps: Vec<CuckooStep> = starts.iter().map(|at| CuckooStep { at: *at, before: None }).collect();
    let mut next = 0;
    while next < steps.len() && steps.len() < MAX_SEARCHED {
        let at = steps[next].at;
        match entry_at(memory, at) {
            None => return Some(way_back(&steps, next)),
            Some((_, tag)) => {
                let others = places(shape, tag).into_iter().filter(|other| *other != at);
                steps.extend(others.map(|at| CuckooStep { at, before: Some(next) }));
            }
        }
        next += 1;
    }
    None
}

fn way_back(steps: &[CuckooStep], last: usize) -> Vec<u64> {
    std::iter::successors(Some(last), |step| steps[*step].before).map(|step| steps[step].at).collect()
}

/// True if no place comes twice: then each entry of the way moves to the place before it.
fn is_simple(way: &[u64]) -> bool {
    way.iter().enumerate().all(|(number, at)| !way[..number].contains(at))
}

impl TableLayout for Cuckoo {
    const CODE: u8 = 3;
    const NAME: &'static str = "cuckoo";
    type Search = CuckooSearch;
    type Notes = ();

    fn shape(keys: u64) -> TableShape {
        TableShape { main: keys.max(8), ..TableShape::default() }
    }

    fn area_bytes(shape: &TableShape) -> u64 {
        shape.main * ENTRY_BYTES
    }

    fn search(shape: &TableShape, tag: u64) -> CuckooSearch {
        CuckooSearch { places: places(shape, tag), tag, next: 0, found: None, is_torn: false }
    }

    fn insert<M: WordMemory>(
        memory: &M,
        shape: &TableShape,
        (): &mut (),
        tag: u64,
        location: Location,
        moving: &mut dyn FnMut(),
    ) -> Result<(), TableFull> {
        let way = way_to_free(memory, shape, places(shape, tag)).filter(|way| is_simple(way)).ok_or(TableFull)?;
        for pair in way.windows(2) {
            moving();
            // Each entry is in its new place before its old one is overwritten.
            if let Some((moved, its_tag)) = entry_at(memory, pair[1]) {
                store(memory, pair[0], its_tag, moved);
            }
        }
        if let Some(at) = way.last() {
            store(memory, *at, tag, location);
        }
        Ok(())
    }

    fn relocate<M: WordMemory>(memory: &M, slot_at: u64, tag: u64, location: Location) {
        store(memory, slot_at, tag, location);
    }

    fn clear<M: WordMemory>(memory: &M, slot_at: u64) {
        memory.store(slot_at, Location::EMPTY.word());
    }

    fn each_location<M: WordMemory>(memory: &M, shape: &TableShape, each: &mut dyn FnMut(Location)) {
        let places = (0..shape.main).map(|number| shape.area + number * ENTRY_BYTES);
        places.filter_map(|at| entry_at(memory, at)).for_each(|(location, _)| each(location));
    }
}
