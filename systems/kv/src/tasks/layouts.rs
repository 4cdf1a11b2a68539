//! Readers of any layout that tasks share.

use longarm::{Connection, RemoteKey};
use remote::{
    AloneError, AloneOutcome, AtomicReads, Cluster, Crc64, Cuckoo, FoundObject, Hopscotch, KeyRange, ObjectHeader,
    ReadError, ReaderOptions, ReaderStats, SharedTableReader, SharedTreeReader, WriterPass,
};

use crate::client::LookedUp;
use crate::server::KvLayout;
use crate::tasks::device::TaskDevice;

/// A reader of a table of some layout, or a client of the server's device.
pub(super) enum LayoutReader {
    Cluster(SharedTableReader<Connection, Cluster, Crc64>),
    Hopscotch(SharedTableReader<Connection, Hopscotch, Crc64>),
    Cuckoo(SharedTableReader<Connection, Cuckoo, Crc64>),
    ClusterAtomic(SharedTableReader<Connection, Cluster, AtomicReads>),
    Tree(Box<SharedTreeReader<Connection, Crc64>>),
    Device(Box<TaskDevice>),
}

/// Makes the new stored bytes from an object's first word and the old ones; false declines.
pub(super) type MakeValue<'a> = &'a mut (dyn FnMut(ObjectHeader, &[u8], &mut Vec<u8>) -> bool + Send);

impl LayoutReader {
    pub(super) fn new(
        layout: KvLayout,
        qp: Connection,
        key: RemoteKey,
        options: ReaderOptions,
    ) -> Result<LayoutReader, ReadError> {
        Ok(match layout {
            KvLayout::Cluster => LayoutReader::Cluster(SharedTableReader::new(qp, key, options)?),
            KvLayout::Hopscotch => LayoutReader::Hopscotch(SharedTableReader::new(qp, key, options)?),
            KvLayout::Cuckoo => LayoutReader::Cuckoo(SharedTableReader::new(qp, key, options)?),
            KvLayout::ClusterAtomic => LayoutReader::ClusterAtomic(SharedTableReader::new(qp, key, options)?),
            KvLayout::Tree => LayoutReader::Tree(Box::new(SharedTreeReader::new(qp, key, options)?)),
        })
    }

    pub(super) async fn get<T>(&self, key: &[u8], take: impl FnOnce(LookedUp<'_>) -> T) -> Result<T, ReadError> {
        match self {
            LayoutReader::Cluster(reader) => reader.get(key, |found| take(found.into())).await,
            LayoutReader::Hopscotch(reader) => reader.get(key, |found| take(found.into())).await,
            LayoutReader::Cuckoo(reader) => reader.get(key, |found| take(found.into())).await,
            LayoutReader::ClusterAtomic(reader) => reader.get(key, |found| take(found.into())).await,
            LayoutReader::Tree(reader) => reader.get(key, |found| take(found.into())).await,
            LayoutReader::Device(device) => device.get(key, take).await,
        }
    }

    /// Tells at most `limit` keys of a range in their order; none, if the table has no order.
    pub(super) async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        mut each: impl FnMut(&[u8], ObjectHeader, &[u8]),
    ) -> Result<(), ReadError> {
        let LayoutReader::Tree(reader) = self else { return Ok(()) };
        reader.scan(range, limit, |item| each(item.key, item.object.header, item.object.value)).await
    }

    /// Gives a present key a new value alone, once. `None`: the table or the way to GET knows no such updates.
    pub(super) async fn put_alone(
        &self,
        key: &[u8],
        pass: &WriterPass,
        make: MakeValue<'_>,
    ) -> Option<Result<AloneOutcome, AloneError>> {
        let value_of = |found: &FoundObject<'_>, new: &mut Vec<u8>| make(found.header, found.value, new);
        Some(match self {
            LayoutReader::Cluster(reader) => reader.update_alone(key, pass, value_of).await,
            LayoutReader::Hopscotch(reader) => reader.update_alone(key, pass, value_of).await,
            LayoutReader::Cuckoo(reader) => reader.update_alone(key, pass, value_of).await,
            LayoutReader::ClusterAtomic(_) | LayoutReader::Tree(_) | LayoutReader::Device(_) => return None,
        })
    }

    pub(super) fn stats(&self) -> ReaderStats {
        match self {
            LayoutReader::Cluster(reader) => reader.stats(),
            LayoutReader::Hopscotch(reader) => reader.stats(),
            LayoutReader::Cuckoo(reader) => reader.stats(),
            LayoutReader::ClusterAtomic(reader) => reader.stats(),
            LayoutReader::Tree(reader) => reader.stats(),
            LayoutReader::Device(_) => ReaderStats::default(),
        }
    }
}
