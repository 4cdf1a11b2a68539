//! The trait of layouts, and the searches among slots.

use std::fmt;

use crate::memory::WordMemory;
use crate::object::Location;

/// The numbers that a root record tells about the slots of a table. Their meaning depends on the layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableShape {
    /// Where the area with the slots begins.
    pub area: u64,
    /// Main buckets, or entries.
    pub main: u64,
    /// Further buckets behind them.
    pub spare: u64,
    /// One more number.
    pub extra: u64,
}

/// A slot that may lead to the object of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The object.
    pub location: Location,
    /// Where the slot is.
    pub slot_at: u64,
    /// The bits of the key's tag that the slot has.
    pub tag_mask: u64,
}

/// The next step of a search among slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStep {
    /// These bytes are wanted.
    Read {
        /// Where they begin.
        at: u64,
        /// Their number.
        len_bytes: u64,
    },
    /// This object may be the one.
    Candidate(Candidate),
    /// There is no further slot.
    Absent,
    /// The bytes were those of two moments, or of no table.
    Torn,
}

/// A search for the slots of one key: a state machine that asks for bytes and is fed them.
pub trait IndexSearch: Copy + fmt::Debug + Send {
    /// The next step. After [`Read`](SearchStep::Read) the bytes are fed before the next call.
    fn step(&mut self) -> SearchStep;
    /// The bytes that the last step asked for.
    fn feed(&mut self, bytes: &[u8]);
}

/// A layout: where the slots of a key may be.
pub trait TableLayout: Copy + Default + Send + Sync + 'static {
    /// Its number in root records.
    const CODE: u8;
    /// Its name.
    const NAME: &'static str;
    /// Its searches.
    type Search: IndexSearch;
    /// The owner's notes about the area.
    type Notes: Default + Send;

    /// A shape for at least so many keys, without its area.
    fn shape(keys: u64) -> TableShape;

    /// Bytes of the area of that shape.
    fn area_bytes(shape: &TableShape) -> u64;

    /// The number by which slots know a key.
    fn tag(salt: u64, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, salt)
    }

    /// Begins a search.
    fn search(shape: &TableShape, tag: u64) -> Self::Search;

    /// Puts a location into a free slot. Calls `moving` before it moves other slots.
    ///
    /// # Errors
    /// If there is none; then nothing has changed.
    fn insert<M: WordMemory>(
        memory: &M,
        shape: &TableShape,
        notes: &mut Self::Notes,
        tag: u64,
        location: Location,
        moving: &mut dyn FnMut(),
    ) -> Result<(), TableFull>;

    /// Leads the slot of a key to another object.
    fn relocate<M: WordMemory>(memory: &M, slot_at: u64, tag: u64, location: Location);

    /// Empties a slot.
    fn clear<M: WordMemory>(memory: &M, slot_at: u64);

    /// Calls `each` with the location in each full slot.
    fn each_location<M: WordMemory>(memory: &M, shape: &TableShape, each: &mut dyn FnMut(Location));
}

/// The area has no slot for the key: the table has to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

impl fmt::Display for TableFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the table has no slot for the key: it has to grow")
    }
}

impl std::error::Error for TableFull {}

/// The bucket that a tag's upper bits choose.
pub(crate) fn bucket_of(tag: u64, buckets: u64) -> u64 {
    ((u128::from(tag) * u128::from(buckets)) >> 64) as u64
}
