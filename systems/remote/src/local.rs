//! Lookups in memory of this process: for tests, and for the owner's own reads.

use std::sync::atomic::{Ordering, fence};

use crate::layout::TableLayout;
use crate::lookup::{FoundObject, KeyLookup, LookupStep, ReadRequest};
use crate::memory::WordMemory;
use crate::object::{Location, TornCheck};
use crate::tree::{KeyRange, NodeCache, ScanItem, ScanStep, TreeLookup, TreeScan};

/// Copies of one object that are tried before it counts as busy: as many as the device tries.
const COPIES: u32 = 16;

/// The end of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The value.
    Value(Vec<u8>),
    /// The key is absent.
    Absent,
}

/// Serves the READs of lookups by copies.
#[derive(Debug)]
pub struct LocalReads<M> {
    memory: M,
    buffer: Vec<u8>,
    location: Option<Location>,
}

/// The reason why a lookup has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Writers were in between each time.
    #[error("writers changed the table or the object during each attempt")]
    Busy,
    /// The memory has no table, or one with another layout or check.
    #[error("the memory has no table with this layout and check")]
    OtherFormat,
}

impl<M: WordMemory> LocalReads<M> {
    /// Serves READs from that memory.
    pub fn new(memory: M) -> LocalReads<M> {
        LocalReads { memory, buffer: Vec::new(), location: None }
    }

    /// The location of the object that the last lookup found.
    pub fn location(&self) -> Option<Location> {
        self.location
    }

    /// Looks a key up, from a remembered location if there is one.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub fn run<L: TableLayout, C: TornCheck>(
        &mut self,
        lookup: &mut KeyLookup<L, C>,
        key: &[u8],
        remembered: Option<Location>,
    ) -> Result<Found, LookupError> {
        let mut step = lookup.start(key, remembered);
        while let LookupStep::Read(wanted) = step {
            let lock = lookup.object_lock();
            step = lookup.feed(key, copied_object(&self.memory, &mut self.buffer, wanted, lock));
        }
        found_by(step, &mut self.location)
    }

    /// Looks a key up, and returns the result of `take` for its object. `None`: it would take a copy of more than `most_bytes`.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub fn find<L: TableLayout, C: TornCheck, T>(
        &mut self,
        lookup: &mut KeyLookup<L, C>,
        key: &[u8],
        most_bytes: u64,
        take: impl FnOnce(Option<FoundObject<'_>>) -> T,
    ) -> Result<Option<T>, LookupError> {
        let mut step = lookup.start(key, None);
        while let LookupStep::Read(wanted) = step {
            if wanted.len_bytes > most_bytes {
                return Ok(None);
            }
            let lock = lookup.object_lock();
            step = lookup.feed(key, copied_object(&self.memory, &mut self.buffer, wanted, lock));
        }
        taken_by(step, take)
    }

    /// As [`find`](LocalReads::find), in a tree.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub fn find_in_tree<C: TornCheck, T>(
        &mut self,
        lookup: &mut TreeLookup<C>,
        key: &[u8],
        most_bytes: u64,
        take: impl FnOnce(Option<FoundObject<'_>>) -> T,
    ) -> Result<Option<T>, LookupError> {
        let mut cache = NodeCache::new(0);
        let mut step = lookup.start(key, None, &mut cache);
        while let LookupStep::Read(wanted) = step {
            if wanted.len_bytes > most_bytes {
                return Ok(None);
            }
            step = lookup.feed(key, copied(&self.memory, &mut self.buffer, wanted), &mut cache);
        }
        taken_by(step, take)
    }

    /// Looks a key of a tree up, from a remembered location if there is one.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub fn run_tree<C: TornCheck>(
        &mut self,
        lookup: &mut TreeLookup<C>,
        key: &[u8],
        remembered: Option<Location>,
        cache: &mut NodeCache,
    ) -> Result<Found, LookupError> {
        let mut step = lookup.start(key, remembered, cache);
        while let LookupStep::Read(wanted) = step {
            step = lookup.feed(key, copied(&self.memory, &mut self.buffer, wanted), cache);
        }
        found_by(step, &mut self.location)
    }

    /// Scans a range of a tree, and calls `each` with its items, in the order of their keys.
    ///
    /// # Errors
    /// See [`LookupError`]. Items that were found before have been told.
    pub fn scan<C: TornCheck>(
        &mut self,
        scan: &mut TreeScan<C>,
        range: &KeyRange,
        limit: usize,
        cache: &mut NodeCache,
        mut each: impl FnMut(ScanItem<'_>),
    ) -> Result<(), LookupError> {
        let mut step = scan.start(range, limit, cache);
        loop {
            match step {
                ScanStep::Reads => {
                    for number in 0..scan.reads().len() {
                        let wanted = scan.reads()[number];
                        scan.feed(number, copied(&self.memory, &mut self.buffer, wanted));
                    }
                }
                ScanStep::Items => scan.items().for_each(&mut each),
                ScanStep::Done => return Ok(()),
                ScanStep::Busy => return Err(LookupError::Busy),
                ScanStep::OtherFormat => return Err(LookupError::OtherFormat),
            }
            step = scan.advance(cache);
        }
    }
}

/// The bytes that a READ gets.
fn copied<'a>(memory: &impl WordMemory, buffer: &'a mut Vec<u8>, wanted: ReadRequest) -> &'a [u8] {
    buffer.resize(wanted.len_bytes as usize, 0);
    memory.copy_out(wanted.at, buffer);
    buffer
}

/// The bytes of a READ; with a lock those of an object at one moment, or its first word if a writer has it.
fn copied_object<'a>(
    memory: &impl WordMemory,
    buffer: &'a mut Vec<u8>,
    wanted: ReadRequest,
    lock: Option<u64>,
) -> &'a [u8] {
    let Some(lock) = lock else { return copied(memory, buffer, wanted) };
    for _ in 0..COPIES {
        let before = memory.load(wanted.at);
        if before & lock != 0 {
            std::hint::spin_loop();
            continue;
        }
        copied(memory, buffer, wanted);
        // The copy comes before the second look at the word.
        fence(Ordering::Acquire);
        if memory.load(wanted.at) == before {
            buffer[..8].copy_from_slice(&before.to_le_bytes());
            return buffer;
        }
    }
    buffer.resize(8, 0);
    buffer.copy_from_slice(&memory.load(wanted.at).to_le_bytes());
    buffer
}

fn taken_by<T>(
    step: LookupStep<'_>,
    take: impl FnOnce(Option<FoundObject<'_>>) -> T,
) -> Result<Option<T>, LookupError> {
    match step {
        LookupStep::Found(object) => Ok(Some(take(Some(object)))),
        LookupStep::Absent => Ok(Some(take(None))),
        LookupStep::Busy | LookupStep::Read(_) => Err(LookupError::Busy),
        LookupStep::OtherFormat => Err(LookupError::OtherFormat),
    }
}

/// The end of a lookup, by its last step.
fn found_by(step: LookupStep<'_>, location: &mut Option<Location>) -> Result<Found, LookupError> {
    match step {
        LookupStep::Found(object) => {
            *location = Some(object.location);
            Ok(Found::Value(object.value.to_vec()))
        }
        LookupStep::Absent => Ok(Found::Absent),
        LookupStep::Busy | LookupStep::Read(_) => Err(LookupError::Busy),
        LookupStep::OtherFormat => Err(LookupError::OtherFormat),
    }
}
