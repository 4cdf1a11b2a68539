//! Readers of a table: the searches of `longarm-remote` over a simulated connection, and its updates by peers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm::RemoteKey;
use longarm::error::{PostError, WorkError};
use remote::sim::Unchecked;
use remote::{
    AloneError, AloneOutcome, AtomicReads, Cluster, Crc64, Cuckoo, FoundObject, Hopscotch, KeyLookup, Location,
    LocationCache, LookupError, LookupStep, NodeCache, ObjectHeader, OneSidedUpdate, ReadError, ReadRequest,
    ReaderOptions, ReaderStats, RootCopy, TableLayout, TornCheck, TreeLookup, UpdateRefusal, UpdateStep, WriterPass,
};

use crate::client::{DataLink, EachFound, LookedUp, MakeValue, NoDeviceGets, RemoteReader};
use crate::envelope::ENVELOPE_BYTES;
use crate::server::KvLayout;
use crate::sim::actor;
use crate::sim::link::LinkEnd;
use crate::sim::plant::Plant;
use crate::sim::world::SimWorld;
use crate::surroundings::{instant, yield_now};

/// A client's end of a connection.
pub(crate) struct SimDataLink {
    pub(crate) world: Arc<SimWorld>,
    pub(crate) link: Arc<LinkEnd>,
}

/// A search for one key at a time, in tables and in trees.
trait SimSearch: Send {
    fn tag_of(&self, key: &[u8]) -> Option<u64>;
    fn object_lock(&self) -> Option<u64>;
    fn root(&self) -> Option<RootCopy>;
    fn start(&mut self, key: &[u8], place: Option<Location>) -> LookupStep<'static>;
    fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8]) -> LookupStep<'a>;
}

impl<L: TableLayout, C: TornCheck> SimSearch for KeyLookup<L, C> {
    fn tag_of(&self, key: &[u8]) -> Option<u64> {
        KeyLookup::tag_of(self, key)
    }
    fn object_lock(&self) -> Option<u64> {
        KeyLookup::object_lock(self)
    }
    fn root(&self) -> Option<RootCopy> {
        KeyLookup::root(self)
    }
    fn start(&mut self, key: &[u8], place: Option<Location>) -> LookupStep<'static> {
        KeyLookup::start(self, key, place)
    }
    fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8]) -> LookupStep<'a> {
        KeyLookup::feed(self, key, bytes)
    }
}

impl SimSearch for (TreeLookup<Crc64>, NodeCache) {
    fn tag_of(&self, key: &[u8]) -> Option<u64> {
        self.0.tag_of(key)
    }
    fn object_lock(&self) -> Option<u64> {
        None
    }
    fn root(&self) -> Option<RootCopy> {
        None
    }
    fn start(&mut self, key: &[u8], place: Option<Location>) -> LookupStep<'static> {
        self.0.start(key, place, &mut self.1)
    }
    fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8]) -> LookupStep<'a> {
        self.0.feed(key, bytes, &mut self.1)
    }
}

impl DataLink for SimDataLink {
    fn is_connected(&self) -> bool {
        self.link.is_up(&self.world)
    }

    fn into_reader(
        self: Box<Self>,
        layout: KvLayout,
        (key, writer): (RemoteKey, Option<WriterPass>),
        options: ReaderOptions,
    ) -> Result<Box<dyn RemoteReader>, ReadError> {
        let bytes = key.len_bytes();
        let is_unchecked = self.world.has(Plant::UncheckedReads);
        Ok(match layout {
            KvLayout::Cluster if is_unchecked => {
                reader::<_, Unchecked>(*self, KeyLookup::<Cluster, Unchecked>::new(bytes), writer, options)
            }
            KvLayout::Cluster => reader::<_, Crc64>(*self, KeyLookup::<Cluster, Crc64>::new(bytes), writer, options),
            KvLayout::Hopscotch => {
                reader::<_, Crc64>(*self, KeyLookup::<Hopscotch, Crc64>::new(bytes), writer, options)
            }
            KvLayout::Cuckoo => reader::<_, Crc64>(*self, KeyLookup::<Cuckoo, Crc64>::new(bytes), writer, options),
            KvLayout::ClusterAtomic => {
                reader::<_, AtomicReads>(*self, KeyLookup::<Cluster, AtomicReads>::new(bytes), writer, options)
            }
            KvLayout::Tree => {
                let search = (TreeLookup::<Crc64>::new(bytes), NodeCache::new(options.locations));
                reader::<_, Crc64>(*self, search, writer, options)
            }
        })
    }

    /// Calls are simulated below: `crates/device`.
    fn into_device_reader(
        self: Box<Self>,
        _: RemoteKey,
        _: usize,
        _: Duration,
    ) -> Result<Box<dyn RemoteReader>, NoDeviceGets> {
        Err(NoDeviceGets::Refused(WorkError::NotPosted(PostError::Unsupported("GETs by calls"))))
    }
}

fn reader<S: SimSearch + 'static, C: TornCheck + 'static>(
    data: SimDataLink,
    search: S,
    writer: Option<WriterPass>,
    options: ReaderOptions,
) -> Box<dyn RemoteReader> {
    let cache = LocationCache::new(options.locations);
    let update = OneSidedUpdate::<C>::new();
    let (stale, stats) = (HashMap::new(), ReaderStats::default());
    Box::new(SimReader { data, search, writer, options, cache, update, stale, stats })
}

struct SimReader<S, C> {
    data: SimDataLink,
    search: S,
    writer: Option<WriterPass>,
    options: ReaderOptions,
    cache: LocationCache,
    update: OneSidedUpdate<C>,
    /// For a planted bug: what READs brought.
    stale: HashMap<(u64, u64), Vec<u8>>,
    stats: ReaderStats,
}

impl<S: SimSearch, C> SimReader<S, C> {
    fn read(&mut self, wanted: ReadRequest, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let (world, link) = (&self.data.world, &self.data.link);
        self.stats.reads += 1;
        if world.has(Plant::StaleReads)
            && let Some(bytes) = self.stale.get(&(wanted.at, wanted.len_bytes))
        {
            out.clone_from(bytes);
            return Ok(());
        }
        out.clear();
        out.resize(wanted.len_bytes as usize, 0);
        match self.search.object_lock() {
            None => link.read(world, wanted.at, out)?,
            Some(lock) => link.read_object(world, wanted.at, lock, out)?,
        }
        if world.has(Plant::StaleReads) && wanted.at >= 4096 && wanted.len_bytes <= 256 {
            self.stale.insert((wanted.at, wanted.len_bytes), out.clone());
        }
        Ok(())
    }

    /// One lookup, from the place that the reader remembers.
    fn look_up_one(&mut self, key: &[u8], take: &mut dyn FnMut(Option<FoundObject<'_>>)) -> Result<(), ReadError> {
        let mut busy_since: Option<Instant> = None;
        let mut bytes = Vec::new();
        loop {
            let remembered = self.search.tag_of(key).and_then(|tag| self.cache.get(tag));
            let mut step = self.search.start(key, remembered);
            let known = loop {
                let wanted = match step {
                    LookupStep::Read(wanted) => wanted,
                    LookupStep::Found(found) => {
                        take(Some(found));
                        break Some(Some(found.location));
                    }
                    LookupStep::Absent => {
                        take(None);
                        break Some(None);
                    }
                    LookupStep::OtherFormat => return Err(LookupError::OtherFormat.into()),
                    LookupStep::Busy => break None,
                };
                self.read(wanted, &mut bytes)?;
                step = self.search.feed(key, &bytes);
            };
            match (known, self.search.tag_of(key)) {
                (Some(Some(location)), Some(tag)) => self.cache.put(tag, location),
                (Some(None), Some(tag)) => self.cache.forget(tag),
                (Some(_), None) => {}
                (None, _) => {
                    if instant().duration_since(*busy_since.get_or_insert_with(instant)) > self.options.patience {
                        return Err(LookupError::Busy.into());
                    }
                    yield_now();
                    continue;
                }
            }
            return Ok(());
        }
    }
}

impl<S: SimSearch, C: TornCheck> SimReader<S, C> {
    /// The copy, the lock, the object and its first word: four accesses in their order.
    fn write_alone(
        &mut self,
        place: (ObjectHeader, Location),
        (key, value): (&[u8], &[u8]),
        pass: &WriterPass,
    ) -> Result<AloneOutcome, AloneError> {
        let (world, link) = (&self.data.world, &self.data.link);
        let root = self.search.root().ok_or_else(|| AloneError::NotBegun(LookupError::Busy.into()))?;
        let (at, compare, swap) = match self.update.start(&root, place, pass.holder, key, value) {
            Ok(UpdateStep::CompareSwap { at, compare, swap }) => (at, compare, swap),
            Ok(_) | Err(UpdateRefusal::Locked(_)) => return Ok(AloneOutcome::Contended),
            Err(_) => return Ok(AloneOutcome::OwnerOnly),
        };
        if !world.has(Plant::NoCopy) {
            link.write(world, pass.copy_at, self.update.image()).map_err(AloneError::Unknown)?;
        }
        let before = link.compare_swap(world, (at, compare, swap)).map_err(AloneError::Unknown)?;
        let UpdateStep::Write { at, body, header_at, header } = self.update.swapped(before) else {
            return Ok(AloneOutcome::Contended);
        };
        if let Some(actor) = actor::current() {
            actor.risk();
        }
        let word = header.word().to_le_bytes();
        let mut writes = [(at, body), (header_at, &word[..])];
        if world.has(Plant::UnlockFirst) {
            writes.reverse();
        }
        for (at, bytes) in writes {
            link.write(world, at, bytes).map_err(AloneError::Unknown)?;
        }
        Ok(AloneOutcome::Updated(header))
    }
}

impl<S: SimSearch, C: TornCheck> RemoteReader for SimReader<S, C> {
    fn look_up(&mut self, keys: &[&[u8]], each: EachFound<'_>) -> Result<(), ReadError> {
        let ignores_expiry = self.data.world.has(Plant::ExpiryIgnored);
        for (number, key) in keys.iter().enumerate() {
            self.look_up_one(key, &mut |found| match found {
                Some(found) if found.value.len() >= ENVELOPE_BYTES && found.value[..8] != [0; 8] && !ignores_expiry => {
                    actor::current().iter().for_each(|actor| actor.risk_time());
                    each(number, Some(found).into());
                }
                Some(found) if ignores_expiry && found.value.len() >= ENVELOPE_BYTES => {
                    let mut stored = found.value.to_vec();
                    stored[..8].fill(0);
                    each(number, LookedUp::Object(found.header, &stored));
                }
                found => each(number, found.into()),
            })?;
            self.stats.lookups += 1;
        }
        Ok(())
    }

    fn stats(&self) -> ReaderStats {
        self.stats
    }

    fn put_alone(&mut self, key: &[u8], value_of: MakeValue<'_>) -> Option<Result<AloneOutcome, AloneError>> {
        let pass = self.writer?;
        let (mut target, mut value) = (None, Vec::new());
        let looked = self.look_up_one(key, &mut |found| {
            target = found.map(|found| match value_of(found.header, found.value, &mut value) {
                false => Err(AloneOutcome::Declined),
                true if found.location.class().bytes() > pass.copy_bytes => Err(AloneOutcome::OwnerOnly),
                true => Ok((found.header, found.location)),
            });
        });
        Some(match (looked, target) {
            (Err(ReadError::Lookup(LookupError::Busy)), _) => Ok(AloneOutcome::Contended),
            (Err(error), _) => Err(AloneError::NotBegun(error)),
            (Ok(()), Some(Ok(place))) => self.write_alone(place, (key, &value), &pass),
            (Ok(()), Some(Err(outcome))) => Ok(outcome),
            (Ok(()), None) => Ok(AloneOutcome::OwnerOnly),
        })
    }
}
