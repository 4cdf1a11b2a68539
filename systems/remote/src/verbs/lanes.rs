//! Searches of one kind on a queue pair, several at a time.

use std::ops::Deref;
use std::time::{Duration, Instant};

use longarm::{Buffer, InFlight, ProtectionDomain, QueuePair, RemoteKey};

use crate::cache::LocationCache;
use crate::layout::TableLayout;
use crate::local::LookupError;
use crate::lookup::{FoundObject, KeyLookup, LookupStep, ReadRequest};
use crate::object::{Location, ReadGrain, TornCheck};
use crate::root::RootCopy;
use crate::tree::{NodeCache, TreeLookup, TreeRoot};
use crate::verbs::ReadError;
use crate::verbs::lane_read::LaneRead;

/// The least length of a reader's buffers.
pub(crate) const BUFFER_BYTES: usize = 16 << 10;

/// Choices of a reader.
#[derive(Clone, Copy, Debug)]
pub struct ReaderOptions {
    /// Locations to remember.
    pub locations: usize,
    /// Lookups under way at a time in a multi-get, and objects in a scan. The queue pair's depth limits them, too.
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

impl ReaderOptions {
    /// Refuses a check that needs larger pieces than the options promise. READs of objects at one moment are no promise of
    /// the caller: the queue pair has them, or not.
    pub(crate) fn must_suffice<C: TornCheck>(&self) -> Result<(), ReadError> {
        let refusal = ReadError::GrainTooFine { check: C::NAME, needs: C::NEEDS, grain: self.grain };
        if C::NEEDS > self.grain { Err(refusal) } else { Ok(()) }
    }
}

/// Figures of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderStats {
    /// Keys that were looked up.
    pub lookups: u64,
    /// READs of all kinds.
    pub reads: u64,
    /// Lookups and scans that found writers in between each time, and were repeated.
    pub busy: u64,
}

/// A search for one key at a time, as a state machine.
pub(crate) trait LaneSearch {
    /// The record from which it starts.
    type Root: Copy;
    /// Copies that the searches of a reader share.
    type Shared;
    fn create(memory_bytes: u64) -> Self;
    fn root(&self) -> Option<Self::Root>;
    fn learn(&mut self, root: Self::Root);
    fn tag_of(&self, key: &[u8]) -> Option<u64>;
    /// The lock of the wanted object, if its READ has to be one at one moment.
    fn object_lock(&self) -> Option<u64>;
    fn start(&mut self, key: &[u8], place: Option<Location>, shared: &mut Self::Shared) -> LookupStep<'static>;
    fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8], shared: &mut Self::Shared) -> LookupStep<'a>;
}

impl<L: TableLayout, C: TornCheck> LaneSearch for KeyLookup<L, C> {
    type Root = RootCopy;
    type Shared = ();
    fn create(memory_bytes: u64) -> Self {
        KeyLookup::new(memory_bytes)
    }
    fn root(&self) -> Option<RootCopy> {
        KeyLookup::root(self)
    }
    fn learn(&mut self, root: RootCopy) {
        KeyLookup::learn(self, root);
    }
    fn tag_of(&self, key: &[u8]) -> Option<u64> {
        KeyLookup::tag_of(self, key)
    }
    fn object_lock(&self) -> Option<u64> {
        KeyLookup::object_lock(self)
    }
    fn start(&mut self, key: &[u8], place: Option<Location>, (): &mut ()) -> LookupStep<'static> {
        KeyLookup::start(self, key, place)
    }
    fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8], (): &mut ()) -> LookupStep<'a> {
        KeyLookup::feed(self, key, bytes)
    }
}

impl<C: TornCheck> LaneSearch for TreeLookup<C> {
    type Root = TreeRoot;
    type Shared = NodeCache;
    fn create(memory_bytes: u64) -> Self {
        TreeLookup::new(memory_bytes)
    }
    fn root(&self) -> Option<TreeRoot> {
        TreeLookup::root(self)
    }
    fn learn(&mut self, root: TreeRoot) {
        TreeLookup::learn(self, root);
    }
    fn tag_of(&self, key: &[u8]) -> Option<u64> {
        TreeLookup::tag_of(self, key)
    }
    /// Readers of trees refuse checks that need it.
    fn object_lock(&self) -> Option<u64> {
        None
    }
    fn start(&mut self, key: &[u8], place: Option<Location>, shared: &mut NodeCache) -> LookupStep<'static> {
        TreeLookup::start(self, key, place, shared)
    }
    fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8], shared: &mut NodeCache) -> LookupStep<'a> {
        TreeLookup::feed(self, key, bytes, shared)
    }
}

/// One search, and the buffer for its READs.
pub(super) struct SearchLane<S> {
    pub(super) search: S,
    /// The bytes of READs that are no requests.
    pub(super) direct: Vec<u8>,
    buffer: Option<Buffer>,
    /// The key's number in a multi-get, and its READ.
    under_way: Option<(usize, LaneRead)>,
    /// The time when this key's search first found writers in between each time.
    busy_since: Option<Instant>,
}

/// The searches of a reader: `R` is the record from which they start, `H` the copies that they share.
pub(crate) struct SearchLanes<Q, S, R, H> {
    pub(crate) qp: Q,
    pub(crate) domain: ProtectionDomain,
    pub(crate) key: RemoteKey,
    pub(crate) root: Option<R>,
    pub(crate) shared: H,
    pub(crate) cache: LocationCache,
    pub(crate) options: ReaderOptions,
    pub(crate) stats: ReaderStats,
    pub(super) lanes: Vec<SearchLane<S>>,
}

impl<Q, S, R, H> SearchLanes<Q, S, R, H>
where
    Q: Deref<Target = QueuePair>,
    S: LaneSearch<Root = R, Shared = H>,
    R: Copy,
{
    pub(crate) fn new(qp: Q, key: RemoteKey, options: ReaderOptions, shared: H) -> Self {
        let lane = || SearchLane {
            search: S::create(key.len_bytes()),
            direct: Vec::new(),
            buffer: None,
            under_way: None,
            busy_since: None,
        };
        SearchLanes {
            lanes: (0..options.outstanding.max(1)).map(|_| lane()).collect(),
            domain: qp.protection_domain().clone(),
            qp,
            key,
            root: None,
            shared,
            cache: LocationCache::new(options.locations),
            options,
            stats: ReaderStats::default(),
        }
    }

    /// Looks keys up, and calls `each` with the number of a key and its object, in any order.
    pub(crate) fn look_up<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        each: &mut impl FnMut(usize, Option<FoundObject<'_>>),
    ) -> Result<(), ReadError> {
        let first = self.look_up_now(keys, each)?;
        if first == keys.len() {
            return Ok(());
        }
        let done = self.look_up_all(&keys[first..], &mut |number, found| each(first + number, found));
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
                        let buffer = read.wait(self.options.timeout)?;
                        let key = keys[number].as_ref();
                        ended += usize::from(self.advance(lane, number, key, buffer, each)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins the lookup of a key in a lane.
    fn start(&mut self, lane: usize, number: usize, key: &[u8]) -> Result<(), ReadError> {
        let search = &mut self.lanes[lane].search;
        if let Some(root) = self.root {
            search.learn(root);
        }
        let remembered = search.tag_of(key).and_then(|tag| self.cache.get(tag));
        match search.start(key, remembered, &mut self.shared) {
            LookupStep::Read(wanted) => self.read(lane, number, wanted),
            LookupStep::OtherFormat => Err(LookupError::OtherFormat.into()),
            _ => Err(LookupError::Busy.into()),
        }
    }

    fn read(&mut self, lane: usize, number: usize, wanted: ReadRequest) -> Result<(), ReadError> {
        let buffer = self.lanes[lane].buffer.take();
        let lock = self.lanes[lane].search.object_lock();
        let (buffer, from) = self.prepare(buffer, wanted)?;
        self.lanes[lane].under_way = Some((number, LaneRead::start(&self.qp, buffer, &from, lock)));
        Ok(())
    }

    /// Posts a READ, into this buffer if it is long enough.
    pub(crate) fn post(&mut self, buffer: Option<Buffer>, wanted: ReadRequest) -> Result<InFlight<Buffer>, ReadError> {
        let (buffer, from) = self.prepare(buffer, wanted)?;
        Ok(self.qp.read(buffer, &from).start())
    }

    fn prepare(&mut self, buffer: Option<Buffer>, wanted: ReadRequest) -> Result<(Buffer, RemoteKey), ReadError> {
        let from = self.key.at(wanted.at, wanted.len_bytes)?;
        let len_bytes = wanted.len_bytes as usize;
        let mut buffer = match buffer.filter(|buffer| buffer.capacity() >= len_bytes) {
            Some(buffer) => buffer,
            None => self.domain.allocate(len_bytes.max(BUFFER_BYTES))?,
        };
        buffer.set_len(len_bytes);
        self.stats.reads += 1;
        Ok((buffer, from))
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
        let next = match place.search.feed(key, &buffer, &mut self.shared) {
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
                self.root = place.search.root();
                if let Some(tag) = place.search.tag_of(key) {
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
