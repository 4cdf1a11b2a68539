//! Readers of tables of any layout.

use longarm::{Connection, RemoteKey};
use remote::{
    AloneError, AloneOutcome, AtomicReads, Cluster, Crc64, Cuckoo, FoundObject, Hopscotch, KeyRange, ObjectHeader,
    ReadError, ReaderOptions, ReaderStats, ScanItem, TableLayout, TableReader, TornCheck, TreeReader, WriterPass,
};

use crate::server::KvLayout;

/// The outcome of a lookup.
pub(crate) enum LookedUp<'a> {
    /// The object's first word and its bytes.
    Object(ObjectHeader, &'a [u8]),
    Absent,
    /// Only the server itself can tell.
    AskServer,
}

impl<'a> From<Option<FoundObject<'a>>> for LookedUp<'a> {
    fn from(found: Option<FoundObject<'a>>) -> LookedUp<'a> {
        found.map_or(LookedUp::Absent, |found| LookedUp::Object(found.header, found.value))
    }
}

/// Takes the number of a key and the outcome of its lookup.
pub(crate) type EachFound<'a> = &'a mut dyn FnMut(usize, LookedUp<'_>);

/// A key of a range, the object's first word and its bytes.
pub(crate) type EachScanned<'a> = &'a mut dyn FnMut(&[u8], ObjectHeader, &[u8]);

/// A reader of a table of some layout.
pub(crate) trait RemoteReader: Send {
    /// Tells at most `limit` keys of a range in their order. `None`: the table has no order.
    fn scan(&mut self, _: &KeyRange, _: usize, _: EachScanned<'_>) -> Option<Result<(), ReadError>> {
        None
    }
    fn look_up(&mut self, keys: &[&[u8]], each: EachFound<'_>) -> Result<(), ReadError>;
    fn stats(&self) -> ReaderStats;
    /// Gives a present key a new value alone, once. `value_of` makes it from the stored bytes that a lookup finds. `None`:
    /// there is no right to it.
    fn put_alone(&mut self, _: &[u8], _: MakeValue<'_>) -> Option<Result<AloneOutcome, AloneError>> {
        None
    }
}

/// Makes the new stored bytes from an object's first word and the old ones; false declines.
pub(crate) type MakeValue<'a> = &'a mut dyn FnMut(ObjectHeader, &[u8], &mut Vec<u8>) -> bool;

/// A reader of a table with slots, and its right to write.
struct SlotReader<L: TableLayout, C> {
    table: TableReader<Connection, L, C>,
    writer: Option<WriterPass>,
}

impl<L: TableLayout, C: TornCheck> RemoteReader for SlotReader<L, C> {
    fn look_up(&mut self, keys: &[&[u8]], each: EachFound<'_>) -> Result<(), ReadError> {
        self.table.multi_get(keys, |number, found| each(number, found.into()))
    }

    fn stats(&self) -> ReaderStats {
        self.table.stats()
    }

    fn put_alone(&mut self, key: &[u8], value_of: MakeValue<'_>) -> Option<Result<AloneOutcome, AloneError>> {
        let pass = self.writer?;
        Some(self.table.update_alone(key, &pass, |found, value| value_of(found.header, found.value, value)))
    }
}

impl RemoteReader for TreeReader<Connection, Crc64> {
    fn scan(&mut self, range: &KeyRange, limit: usize, each: EachScanned<'_>) -> Option<Result<(), ReadError>> {
        let tell = |item: ScanItem<'_>| each(item.key, item.object.header, item.object.value);
        Some(TreeReader::scan(self, range, limit, tell))
    }

    fn look_up(&mut self, keys: &[&[u8]], each: EachFound<'_>) -> Result<(), ReadError> {
        self.multi_get(keys, |number, found| each(number, found.into()))
    }

    fn stats(&self) -> ReaderStats {
        TreeReader::stats(self)
    }
}

/// A reader of the table that the key leads to, with the right to write if there is one.
pub(super) fn reader_of(
    layout: KvLayout,
    connection: Connection,
    (key, writer): (RemoteKey, Option<WriterPass>),
    options: ReaderOptions,
) -> Result<Box<dyn RemoteReader>, ReadError> {
    Ok(match layout {
        KvLayout::Cluster => {
            Box::new(SlotReader { table: TableReader::<_, Cluster, Crc64>::new(connection, key, options)?, writer })
        }
        KvLayout::Hopscotch => {
            Box::new(SlotReader { table: TableReader::<_, Hopscotch, Crc64>::new(connection, key, options)?, writer })
        }
        KvLayout::Cuckoo => {
            Box::new(SlotReader { table: TableReader::<_, Cuckoo, Crc64>::new(connection, key, options)?, writer })
        }
        KvLayout::ClusterAtomic => Box::new(SlotReader {
            table: TableReader::<_, Cluster, AtomicReads>::new(connection, key, options)?,
            writer,
        }),
        KvLayout::Tree => Box::new(TreeReader::<_, Crc64>::new(connection, key, options)?),
    })
}
