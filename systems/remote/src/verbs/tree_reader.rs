//! Readers of a tree: lookups and scans on a queue pair.

use std::ops::Deref;
use std::time::Instant;

use longarm::{Buffer, Failure, InFlight, QueuePair, RemoteKey};

use crate::cache::LocationCache;
use crate::local::LookupError;
use crate::lookup::FoundObject;
use crate::object::TornCheck;
use crate::tree::{KeyRange, NodeCache, ScanItem, ScanStep, TreeLookup, TreeRoot, TreeScan};
use crate::verbs::lanes::SearchLanes;
use crate::verbs::{FoundPlace, ReadError, ReaderOptions, ReaderStats};

/// Inner nodes of which a reader keeps copies: 4 MiB.
pub(super) const NODES: usize = 4096;

/// A reader of one tree: it looks keys up and scans ranges by READs.
pub struct TreeReader<Q, C> {
    lanes: SearchLanes<Q, TreeLookup<C>, TreeRoot, NodeCache>,
    scan: TreeScan<C>,
    buffers: Vec<Buffer>,
    under_way: Vec<InFlight<Buffer>>,
}

impl<Q: Deref<Target = QueuePair>, C: TornCheck> TreeReader<Q, C> {
    /// A reader of the tree that `key` leads to, on a queue pair that is connected to its owner.
    ///
    /// # Errors
    /// If the check needs more than the options promise.
    pub fn new(qp: Q, key: RemoteKey, options: ReaderOptions) -> Result<Self, ReadError> {
        options.must_suffice::<C>()?;
        let scan = TreeScan::new(key.len_bytes(), options.outstanding);
        let lanes = SearchLanes::new(qp, key, options, NodeCache::new(NODES));
        Ok(TreeReader { lanes, scan, buffers: Vec::new(), under_way: Vec::new() })
    }

    /// Keeps copies of so many inner nodes, 1 KiB each, instead of 4096. Forgets those that it has.
    pub fn set_nodes(&mut self, nodes: usize) {
        self.lanes.shared = NodeCache::new(nodes);
    }

    /// Its figures.
    pub fn stats(&self) -> ReaderStats {
        self.lanes.stats
    }

    /// The locations that it remembers.
    pub fn cache(&self) -> &LocationCache {
        &self.lanes.cache
    }

    /// The inner nodes of which it has copies.
    pub fn nodes(&self) -> &NodeCache {
        &self.lanes.shared
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

    /// Calls `each` with at most `limit` keys of a range and their objects, in the order of the keys.
    ///
    /// Up to the limit, each key of the range comes that was present during the whole scan. None comes twice. Each has a
    /// value that it had during the scan. It is no snapshot: values of two keys may be of two times.
    ///
    /// # Errors
    /// See [`ReadError`]. Items that were found before have been told.
    pub fn scan(
        &mut self,
        range: &KeyRange,
        limit: usize,
        mut each: impl FnMut(ScanItem<'_>),
    ) -> Result<(), ReadError> {
        if let Some(root) = self.lanes.root {
            self.scan.learn(root);
        }
        let mut busy_since: Option<Instant> = None;
        let mut step = self.scan.start(range, limit, &mut self.lanes.shared);
        loop {
            match step {
                ScanStep::Reads => {
                    let done = self.read_all();
                    self.under_way.clear();
                    done?;
                }
                ScanStep::Items => {
                    self.scan.items().for_each(&mut each);
                    busy_since = None;
                }
                ScanStep::Done => break,
                ScanStep::OtherFormat => return Err(LookupError::OtherFormat.into()),
                ScanStep::Busy
                    if busy_since.get_or_insert_with(Instant::now).elapsed() > self.lanes.options.patience =>
                {
                    return Err(LookupError::Busy.into());
                }
                ScanStep::Busy => {
                    self.lanes.stats.busy += 1;
                    std::thread::yield_now();
                }
            }
            step = self.scan.advance(&mut self.lanes.shared);
        }
        self.lanes.root = self.scan.root();
        Ok(())
    }

    /// Carries the READs of a step out, several at a time.
    fn read_all(&mut self) -> Result<(), ReadError> {
        let (count, width) = (self.scan.reads().len(), self.lanes.options.outstanding.max(1));
        for first in (0..count).step_by(width) {
            for number in first..count.min(first + width) {
                let read = self.lanes.post(self.buffers.pop(), self.scan.reads()[number])?;
                self.under_way.push(read);
            }
            for (number, read) in (first..).zip(self.under_way.drain(..)) {
                let buffer = read.wait(self.lanes.options.timeout).map_err(Failure::into_error)?;
                self.scan.feed(number, &buffer);
                self.buffers.push(buffer);
            }
        }
        Ok(())
    }
}
