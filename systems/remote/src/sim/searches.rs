//! The searches of readers: in tables by key, in trees also by range.

use fastrand::Rng;

use crate::layout::TableLayout;
use crate::lookup::{KeyLookup, LookupStep, ReadRequest};
use crate::object::{Location, ReadGrain, TornCheck};
use crate::tree::{KeyRange, NodeCache, ScanItem, ScanStep, TreeLookup, TreeScan};

/// The bytes of one READ.
pub(crate) type ReadBytes<'a> = dyn FnMut(ReadRequest, &mut Vec<u8>) -> Result<(), String> + 'a;

/// A scan that reads more often than this goes in circles.
const MAX_ROUNDS: u32 = 100_000;

/// A reader's search.
pub(crate) trait SimSearch: Sized {
    const NEEDS: ReadGrain;
    const HAS_SCANS: bool;
    /// True if a writer that stands still may hide keys that it is not working on.
    const MAY_HIDE: bool;
    fn create(memory_bytes: u64, random: &mut Rng) -> Self;
    fn start(&mut self, key: &[u8], remembered: Option<Location>) -> LookupStep<'static>;
    fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8]) -> LookupStep<'a>;
    /// The lock of the wanted object, if its READ has to be one at one moment.
    fn object_lock(&self) -> Option<u64> {
        None
    }
    /// Scans a range. Returns false if writers were in between each time.
    fn scan(
        &mut self,
        range: &KeyRange,
        limit: usize,
        random: &mut Rng,
        read: &mut ReadBytes<'_>,
        each: &mut dyn FnMut(ScanItem<'_>),
    ) -> Result<bool, String>;
}

impl<L: TableLayout, C: TornCheck> SimSearch for KeyLookup<L, C> {
    const NEEDS: ReadGrain = C::NEEDS;
    const HAS_SCANS: bool = false;
    /// The words of one entry are of two moments for as long as the writer stands there.
    const MAY_HIDE: bool = L::CODE == crate::layout::Cuckoo::CODE;

    fn create(memory_bytes: u64, _: &mut Rng) -> Self {
        KeyLookup::new(memory_bytes)
    }

    fn start(&mut self, key: &[u8], remembered: Option<Location>) -> LookupStep<'static> {
        KeyLookup::start(self, key, remembered)
    }

    fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8]) -> LookupStep<'a> {
        KeyLookup::feed(self, key, bytes)
    }

    fn object_lock(&self) -> Option<u64> {
        KeyLookup::object_lock(self)
    }

    fn scan(
        &mut self,
        _: &KeyRange,
        _: usize,
        _: &mut Rng,
        _: &mut ReadBytes<'_>,
        _: &mut dyn FnMut(ScanItem<'_>),
    ) -> Result<bool, String> {
        Err("a table has no scans".into())
    }
}

/// Searches in trees, with copies of inner nodes.
pub(crate) struct TreeSearch<C> {
    lookup: TreeLookup<C>,
    scan: TreeScan<C>,
    nodes: NodeCache,
}

impl<C: TornCheck> SimSearch for TreeSearch<C> {
    const NEEDS: ReadGrain = C::NEEDS;
    const HAS_SCANS: bool = true;
    const MAY_HIDE: bool = false;

    fn create(memory_bytes: u64, random: &mut Rng) -> Self {
        TreeSearch {
            lookup: TreeLookup::new(memory_bytes),
            scan: TreeScan::new(memory_bytes, random.usize(1..40)),
            nodes: NodeCache::new([0, 8, 1000][random.usize(..3)]),
        }
    }

    fn start(&mut self, key: &[u8], remembered: Option<Location>) -> LookupStep<'static> {
        self.lookup.start(key, remembered, &mut self.nodes)
    }

    fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8]) -> LookupStep<'a> {
        self.lookup.feed(key, bytes, &mut self.nodes)
    }

    fn scan(
        &mut self,
        range: &KeyRange,
        limit: usize,
        random: &mut Rng,
        read: &mut ReadBytes<'_>,
        each: &mut dyn FnMut(ScanItem<'_>),
    ) -> Result<bool, String> {
        let (mut step, mut bytes) = (self.scan.start(range, limit, &mut self.nodes), Vec::new());
        let mut rounds = 0;
        loop {
            match step {
                ScanStep::Reads if rounds == MAX_ROUNDS => return Err("a scan has no end".into()),
                ScanStep::Reads => {
                    rounds += 1;
                    let mut order: Vec<usize> = (0..self.scan.reads().len()).collect();
                    random.shuffle(&mut order);
                    for number in order {
                        read(self.scan.reads()[number], &mut bytes)?;
                        self.scan.feed(number, &bytes);
                    }
                }
                ScanStep::Items => self.scan.items().for_each(&mut *each),
                ScanStep::Done => return Ok(true),
                ScanStep::Busy => return Ok(false),
                ScanStep::OtherFormat => return Err("the tree has another format".into()),
            }
            step = self.scan.advance(&mut self.nodes);
        }
    }
}
