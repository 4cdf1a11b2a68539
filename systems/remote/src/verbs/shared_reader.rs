//! Readers that many tasks share: lookups as futures, without a runtime of their own.

use std::ops::Deref;
use std::sync::Arc;

use async_lock::Mutex;
use longarm::{QueuePair, RemoteKey};

use crate::layout::TableLayout;
use crate::lookup::{FoundObject, KeyLookup};
use crate::object::TornCheck;
use crate::tree::{KeyRange, NodeCache, ScanItem, TreeLookup};
use crate::verbs::lane_read::must_serve;
use crate::verbs::shared_lanes::SharedLanes;
use crate::verbs::shared_writer::SharedUpdate;
use crate::verbs::tree_reader::NODES;
use crate::verbs::{ReadError, ReaderOptions, ReaderStats};

/// A reader of one table that many tasks share. Its lookups are futures, and so are its updates.
///
/// [`ReaderOptions::outstanding`] lookups are under way at a time, and further ones wait for their turn. A lookup that is dropped
/// leaves nothing behind. No runtime is needed: the device wakes the tasks.
///
/// ```no_run
/// use longarm::{Connection, RemoteKey};
/// use longarm_remote::{Cluster, Crc64, ReadError, ReaderOptions, SharedTableReader};
///
/// # async fn example(connection: Connection, key: RemoteKey) -> Result<(), ReadError> {
/// let reader = SharedTableReader::<_, Cluster, Crc64>::new(connection, key, ReaderOptions::default())?;
/// let value = reader.get(b"key", |found| found.map(|found| found.value.to_vec())).await?;
/// # drop(value);
/// # Ok(())
/// # }
/// ```
pub struct SharedTableReader<Q, L: TableLayout, C: TornCheck> {
    pub(super) lanes: Arc<SharedLanes<Q, KeyLookup<L, C>>>,
    pub(super) writing: Arc<Mutex<SharedUpdate<C>>>,
}

impl<Q: Deref<Target = QueuePair>, L: TableLayout, C: TornCheck> SharedTableReader<Q, L, C> {
    /// A reader of the table that `key` leads to, on a queue pair that is connected to its owner.
    ///
    /// # Errors
    /// If the check needs more than the options promise.
    pub fn new(qp: Q, key: RemoteKey, options: ReaderOptions) -> Result<Self, ReadError> {
        must_serve::<C>(&qp, &options)?;
        let lanes = Arc::new(SharedLanes::new(qp, key, options, ()));
        Ok(SharedTableReader { lanes, writing: SharedUpdate::new() })
    }

    /// Looks a key up, and returns the result of `take` for its object.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn get<T>(&self, key: &[u8], take: impl FnOnce(Option<FoundObject<'_>>) -> T) -> Result<T, ReadError> {
        self.lanes.get(key, take).await
    }

    /// Its figures.
    pub fn stats(&self) -> ReaderStats {
        self.lanes.stats()
    }
}

/// A reader of one tree that many tasks share, as [`SharedTableReader`] is one of a table.
pub struct SharedTreeReader<Q, C: TornCheck> {
    lanes: SharedLanes<Q, TreeLookup<C>>,
}

impl<Q: Deref<Target = QueuePair>, C: TornCheck> SharedTreeReader<Q, C> {
    /// A reader of the tree that `key` leads to, on a queue pair that is connected to its owner.
    ///
    /// # Errors
    /// If the check needs more than the options promise.
    pub fn new(qp: Q, key: RemoteKey, options: ReaderOptions) -> Result<Self, ReadError> {
        options.must_suffice::<C>()?;
        Ok(SharedTreeReader { lanes: SharedLanes::new(qp, key, options, NodeCache::new(NODES)) })
    }

    /// Looks a key up, and returns the result of `take` for its object.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn get<T>(&self, key: &[u8], take: impl FnOnce(Option<FoundObject<'_>>) -> T) -> Result<T, ReadError> {
        self.lanes.get(key, take).await
    }

    /// Calls `each` with at most `limit` keys of a range and their objects, in the order of the keys. It promises what
    /// [`TreeReader::scan`](crate::TreeReader::scan) does.
    ///
    /// Its READs wait in turn with those of lookups. On one host a scan lets other tasks run after some windows of objects.
    ///
    /// # Errors
    /// See [`ReadError`]. Items that were found before have been told.
    pub async fn scan(&self, range: &KeyRange, limit: usize, each: impl FnMut(ScanItem<'_>)) -> Result<(), ReadError> {
        self.lanes.scan(range, limit, each).await
    }

    /// Its figures.
    pub fn stats(&self) -> ReaderStats {
        self.lanes.stats()
    }
}
