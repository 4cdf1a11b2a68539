//! Readers of a table: lookups on a queue pair.

use std::ops::Deref;
use std::time::Instant;

use longarm::{Buffer, Failure, QueuePair, RemoteKey};

use crate::cache::LocationCache;
use crate::layout::TableLayout;
use crate::local::LookupError;
use crate::lookup::{FoundObject, KeyLookup};
use crate::object::{Location, ObjectHeader, TornCheck};
use crate::root::RootCopy;
use crate::update::{OneSidedUpdate, UpdateRefusal, UpdateStep};
use crate::verbs::lane_read::must_serve;
use crate::verbs::lanes::SearchLanes;
use crate::verbs::{ReadError, ReaderOptions, ReaderStats};

/// Where an object is, and its first word: for updates, and for compare-and-swap by the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundPlace {
    /// The object's first word: version, incarnation, state.
    pub header: ObjectHeader,
    /// Where it is.
    pub location: Location,
}

/// A reader of one table: it looks keys up by READs, and updates objects alone if it has the right.
pub struct TableReader<Q, L: TableLayout, C> {
    pub(super) lanes: SearchLanes<Q, KeyLookup<L, C>, RootCopy, ()>,
    pub(super) update: OneSidedUpdate<C>,
    /// Memory for the bytes of updates, between two of them.
    pub(super) spare: Option<Buffer>,
    pub(super) value: Vec<u8>,
}

impl<Q: Deref<Target = QueuePair>, L: TableLayout, C: TornCheck> TableReader<Q, L, C> {
    /// A reader of the table that `key` leads to, on a queue pair that is connected to its owner.
    ///
    /// # Errors
    /// If the check needs more than the options promise.
    pub fn new(qp: Q, key: RemoteKey, options: ReaderOptions) -> Result<Self, ReadError> {
        must_serve::<C>(&qp, &options)?;
        let lanes = SearchLanes::new(qp, key, options, ());
        Ok(TableReader { lanes, update: OneSidedUpdate::new(), spare: None, value: Vec::new() })
    }

    /// Its figures.
    pub fn stats(&self) -> ReaderStats {
        self.lanes.stats
    }

    /// The locations that it remembers.
    pub fn cache(&self) -> &LocationCache {
        &self.lanes.cache
    }

    /// Copies the value of a key to `value`, and tells the place of its object; `None` if the key is absent.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<FoundPlace>, ReadError> {
        let mut place = None;
        value.clear();
        self.multi_get(&[key], |_, found| {
            if let Some(found) = found {
                value.extend_from_slice(found.value);
                place = Some(FoundPlace { header: found.header, location: found.location });
            }
        })?;
        Ok(place)
    }

    /// Looks keys up, several at a time, and calls `each` with the number of a key and its object, in any order.
    ///
    /// # Errors
    /// See [`ReadError`]. Keys that were found before have been told.
    pub fn multi_get<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        mut each: impl FnMut(usize, Option<FoundObject<'_>>),
    ) -> Result<(), ReadError> {
        self.lanes.look_up(keys, &mut each)
    }

    /// Gives a present key a new value, whatever it was. `holder` is our number among the writers of the table: no two
    /// have the same. Returns the object's first word.
    ///
    /// # Errors
    /// See [`ReadError`]: the owner can do what is refused here.
    pub fn update(&mut self, key: &[u8], value: &[u8], holder: u16) -> Result<ObjectHeader, ReadError> {
        let began = Instant::now();
        loop {
            let mut place = None;
            self.multi_get(&[key], |_, found| {
                place = found.map(|found| FoundPlace { header: found.header, location: found.location });
            })?;
            match self.update_at(place.ok_or(ReadError::Absent)?, key, value, holder) {
                Ok(Some(header)) => return Ok(header),
                Ok(None) | Err(ReadError::Update(UpdateRefusal::Locked(_)))
                    if began.elapsed() < self.lanes.options.patience =>
                {
                    std::thread::yield_now();
                }
                Ok(None) => return Err(LookupError::Busy.into()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives a key a new value, if its object is still the one that [`get`](TableReader::get) found: by compare-and-swap
    /// and two WRITEs. `None` means that another writer was faster.
    ///
    /// # Errors
    /// As [`update`](TableReader::update).
    pub fn update_at(
        &mut self,
        place: FoundPlace,
        key: &[u8],
        value: &[u8],
        holder: u16,
    ) -> Result<Option<ObjectHeader>, ReadError> {
        let (root, timeout) = (self.lanes.root.ok_or(LookupError::Busy)?, self.lanes.options.timeout);
        let step = self.update.start(&root, (place.header, place.location), holder, key, value)?;
        let UpdateStep::CompareSwap { at, compare, swap } = step else { return Ok(None) };
        let swapped =
            self.lanes.qp.compare_swap(&self.lanes.key.word(at)?, compare.to_le(), swap.to_le()).wait(timeout);
        let before = u64::from_le(swapped.map_err(Failure::into_error)?);
        let UpdateStep::Write { at, body, header_at, header } = self.update.swapped(before) else { return Ok(None) };
        let (body_key, header_key) = (self.lanes.key.at(at, body.len() as u64)?, self.lanes.key.word(header_at)?);
        // WRITEs of one queue pair are carried out in order.
        let written = self.lanes.qp.write(self.lanes.domain.allocate(body.len())?.with(body), &body_key).start();
        let unlocked = self.lanes.qp.write_inline(&header.word().to_le_bytes(), &header_key).wait(timeout);
        unlocked.map_err(Failure::into_error)?;
        written.wait(timeout).map_err(Failure::into_error)?;
        Ok(Some(header))
    }
}
