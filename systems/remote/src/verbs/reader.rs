//! Readers of a table: lookups on a queue pair.

use std::ops::Deref;
use std::time::{Duration, Instant};

use longarm::{Buffer, Failure, InFlight, ProtectionDomain, QueuePair, RemoteKey};

use crate::cache::LocationCache;
use crate::layout::TableLayout;
use crate::local::LookupError;
use crate::lookup::{FoundObject, KeyLookup, LookupStep, ReadRequest};
use crate::object::{Location, ObjectHeader, ReadGrain, TornCheck};
use crate::root::RootCopy;
use crate::update::{OneSidedUpdate, UpdateRefusal, UpdateStep};
use crate::verbs::ReadError;

/// The least length of a reader's buffers.
const BUFFER_BYTES: usize = 16 << 10;

/// Choices of a reader.
#[derive(Clone, Copy, Debug)]
pub struct ReaderOptions {
    /// Locations to remember.
    pub locations: usize,
    /// Lookups under way at a time in a multi-get. The queue pair's depth limits them, too.
    pub outstanding: usize,
    /// A request that has no completion by then has failed.
    pub timeout: Duration,
    /// A lookup that finds writers in between each time is repeated for so long.
    pub patience: Duration,
    /// The pieces that READs copy whole. [`Line`](ReadGrain::Line) is a promise of the caller: no device makes it.
    pub grain: ReadGrain,
}

impl Default for ReaderOptions {
    fn default() -> ReaderOptions {
        ReaderOptions {
            locations: 1 << 16,
            outstanding: 16,
            timeout: Duration::from_secs(10),
            patience: Duration::from_secs(1),
            grain: ReadGrain::Word,
        }
    }
}

/// Where an object is, and its first word: for updates, and for compare-and-swap by the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundPlace {
    /// The object's first word: version, incarnation, state.
    pub header: ObjectHeader,
    /// Where it is.
    pub location: Location,
}

/// Figures of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderStats {
    /// Keys that were looked up.
    pub lookups: u64,
    /// READs of all kinds.
    pub reads: u64,
    /// Lookups that found writers in between each time, and were repeated.
    pub busy: u64,
}

/// One lookup, and the buffer for its READs.
struct LookupLane<L: TableLayout, C> {
    lookup: KeyLookup<L, C>,
    buffer: Option<Buffer>,
    /// The key's number in a multi-get, and its READ.
    under_way: Option<(usize, InFlight<Buffer>)>,
    /// The time when this key's lookup first found writers in between each time.
    busy_since: Option<Instant>,
}

/// A reader of one table: it looks keys up by READs, and updates objects alone if it has the right.
pub struct TableReader<Q, L: TableLayout, C> {
    qp: Q,
    domain: ProtectionDomain,
    key: RemoteKey,
    lanes: Vec<LookupLane<L, C>>,
    root: Option<RootCopy>,
    cache: LocationCache,
    update: OneSidedUpdate<C>,
    options: ReaderOptions,
    stats: ReaderStats,
}

impl<Q: Deref<Target = QueuePair>, L: TableLayout, C: TornCheck> TableReader<Q, L, C> {
    /// A reader of the table that `key` leads to, on a queue pair that is connected to its owner.
    ///
    /// # Errors
    /// If the check needs more than the options promise.
    pub fn new(qp: Q, key: RemoteKey, options: ReaderOptions) -> Result<Self, ReadError> {
        if C::NEEDS > options.grain {
            return Err(ReadError::GrainTooFine { check: C::NAME, needs: C::NEEDS, grain: options.grain });
        }
        let lane =
            || LookupLane { lookup: KeyLookup::new(key.len_bytes()), buffer: None, under_way: None, busy_since: None };
        Ok(TableReader {
            domain: qp.protection_domain().clone(),
            qp,
            key,
            lanes: (0..options.outstanding.max(1)).map(|_| lane()).collect(),
            root: None,
            cache: LocationCache::new(options.locations),
            update: OneSidedUpdate::new(),
            options,
            stats: ReaderStats::default(),
        })
    }

    /// Its figures.
    pub fn stats(&self) -> ReaderStats {
        self.stats
    }

    /// The locations that it remembers.
    pub fn cache(&self) -> &LocationCache {
        &self.cache
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
        let done = self.look_up_all(keys, &mut each);
        if done.is_err() {
            // The device keeps the buffers of READs under way until it is done with them.
            self.lanes.iter_mut().for_each(|lane| lane.under_way = None);
        }
        done
    }

    fn look_up_all<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        each: &mut impl FnMut(usize, Option<FoundObject<'_>>),
    ) -> Result<(), ReadError> {
        let (mut next, mut ended) = (0, 0);
        let lanes = self.lanes.len().min(keys.len());
        while ended < keys.len() {
            for lane in 0..lanes {
                match self.lanes[lane].under_way.take() {
                    None if next < keys.len() => {
                        self.stats.lookups += 1;
                        self.lanes[lane].busy_since = None;
                        self.start(lane, next, keys[next].as_ref())?;
                        next += 1;
                    }
                    None => {}
                    Some((number, read)) => {
                        let buffer = read.wait(self.options.timeout).map_err(Failure::into_error)?;
                        let key = keys[number].as_ref();
                        ended += usize::from(self.advance(lane, number, key, buffer, each)?);
                    }
                }
            }
        }
        Ok(())
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
                    if began.elapsed() < self.options.patience =>
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
        let (root, timeout) = (self.root.ok_or(LookupError::Busy)?, self.options.timeout);
        let step = self.update.start(&root, (place.header, place.location), holder, key, value)?;
        let UpdateStep::CompareSwap { at, compare, swap } = step else { return Ok(None) };
        let swapped = self.qp.compare_swap(&self.key.word(at)?, compare.to_le(), swap.to_le()).wait(timeout);
        let before = u64::from_le(swapped.map_err(Failure::into_error)?);
        let UpdateStep::Write { at, body, header_at, header } = self.update.swapped(before) else { return Ok(None) };
        let (body_key, header_key) = (self.key.at(at, body.len() as u64)?, self.key.word(header_at)?);
        // WRITEs of one queue pair are carried out in order.
        let written = self.qp.write(self.domain.allocate(body.len())?.with(body), &body_key).start();
        let unlocked = self.qp.write_inline(&header.word().to_le_bytes(), &header_key).wait(timeout);
        unlocked.map_err(Failure::into_error)?;
        written.wait(timeout).map_err(Failure::into_error)?;
        Ok(Some(header))
    }

    /// Begins the lookup of a key in a lane.
    fn start(&mut self, lane: usize, number: usize, key: &[u8]) -> Result<(), ReadError> {
        let lookup = &mut self.lanes[lane].lookup;
        if let Some(root) = self.root {
            lookup.learn(root);
        }
        let remembered = lookup.tag_of(key).and_then(|tag| self.cache.get(tag));
        match lookup.start(key, remembered) {
            LookupStep::Read(wanted) => self.read(lane, number, wanted),
            LookupStep::OtherFormat => Err(LookupError::OtherFormat.into()),
            _ => Err(LookupError::Busy.into()),
        }
    }

    /// Posts a READ.
    fn read(&mut self, lane: usize, number: usize, wanted: ReadRequest) -> Result<(), ReadError> {
        let from = self.key.at(wanted.at, wanted.len_bytes)?;
        let lane = &mut self.lanes[lane];
        let len_bytes = wanted.len_bytes as usize;
        let buffer = lane.buffer.take().filter(|buffer| buffer.capacity() >= len_bytes);
        let mut buffer = match buffer {
            Some(buffer) => buffer,
            None => self.domain.allocate(len_bytes.max(BUFFER_BYTES))?,
        };
        buffer.set_len(len_bytes);
        self.stats.reads += 1;
        lane.under_way = Some((number, self.qp.read(buffer, &from).start()));
        Ok(())
    }

    /// Feeds the bytes of a READ. Returns true if the lookup has ended.
    fn advance(
        &mut self,
        lane: usize,
        number: usize,
        key: &[u8],
        buffer: Buffer,
        each: &mut impl FnMut(usize, Option<FoundObject<'_>>),
    ) -> Result<bool, ReadError> {
        let place = &mut self.lanes[lane];
        let mut known = None;
        let next = match place.lookup.feed(key, &buffer) {
            LookupStep::Read(wanted) => Some(wanted),
            LookupStep::Found(found) => {
                known = Some(found.location);
                each(number, Some(found));
                None
            }
            LookupStep::Absent => {
                each(number, None);
                None
            }
            LookupStep::OtherFormat => return Err(LookupError::OtherFormat.into()),
            LookupStep::Busy if place.busy_since.get_or_insert_with(Instant::now).elapsed() > self.options.patience => {
                return Err(LookupError::Busy.into());
            }
            LookupStep::Busy => {
                place.buffer = Some(buffer);
                self.stats.busy += 1;
                std::thread::yield_now();
                self.start(lane, number, key)?;
                return Ok(false);
            }
        };
        place.buffer = Some(buffer);
        match next {
            Some(wanted) => self.read(lane, number, wanted).map(|()| false),
            None => {
                self.root = place.lookup.root();
                if let Some(tag) = place.lookup.tag_of(key) {
                    match known {
                        Some(location) => self.cache.put(tag, location),
                        None => self.cache.forget(tag),
                    }
                }
                Ok(true)
            }
        }
    }
}
