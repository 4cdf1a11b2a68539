//! GETs by READs: the connection for them, and readers of any layout.

use std::time::{Duration, Instant};

use longarm::{Connection, RemoteKey};
use remote::{
    AloneError, AloneOutcome, AtomicReads, Cluster, Crc64, Cuckoo, FoundObject, Hopscotch, KeyRange, ObjectHeader,
    ReadError, ReaderOptions, ReaderStats, ScanItem, TableLayout, TableReader, TornCheck, TreeReader, WriterPass,
};

use crate::client::device::NoDeviceGets;
use crate::client::link::DataLink;
use crate::client::options::{GetWay, PutWay};
use crate::client::session::{ATTEMPT, Repeat, TableSession};
use crate::error::KvError;
use crate::protocol::{ATTACH, AttachReply, AttachRequest, WriterRight, encode};
use crate::server::{KvLayout, private_data};
use crate::surroundings::{instant, sleep};

/// The pause between two questions whether the server has the connection, too.
const PAUSE: Duration = Duration::from_micros(100);
/// A reader of a table whose clients write waits so long for an object that is being written.
pub(crate) const LOCKED: Duration = Duration::from_millis(1);

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

/// Connects to the server's memory, and makes a reader of the table there.
pub(crate) fn attach(session: &mut TableSession, until: Instant) -> Result<Box<dyn RemoteReader>, KvError> {
    let opened = session.open(until)?;
    let (grant, data_port, writable) = (opened.grant, opened.data_port, opened.writable);
    let layout: KvLayout = opened.layout.parse().map_err(|_| {
        KvError::Invalid(format!("the table has the layout {:?}, which this client cannot read", opened.layout))
    })?;
    let mut attempt = [0; 8];
    getrandom::fill(&mut attempt).map_err(|error| not_attached(session, error))?;
    let attempt = u64::from_le_bytes(attempt);
    let writes = session.options.put == PutWay::OneSided;
    let private_data = private_data(&grant, attempt, writes);
    let connected = session.network().attach(&session.address, data_port, &private_data, until);
    let connection = connected.map_err(|why| not_attached(session, why))?;
    let (key, writer) = loop {
        let reply: AttachReply = session
            .call(ATTACH, Repeat::Always, until, |grant, out| encode(&AttachRequest { grant, attempt }, &[], out))?;
        match reply.key {
            Some(bytes) => {
                let key = RemoteKey::from_bytes(&bytes).map_err(|error| not_attached(session, error))?;
                break (key, reply.writer.map(pass_of));
            }
            None if !connection.is_connected() => return Err(not_attached(session, "the server ended the connection")),
            None if instant() >= until => return Err(not_attached(session, "the server has not accepted it")),
            None => sleep(PAUSE),
        }
    };
    let options = ReaderOptions {
        locations: session.options.locations,
        outstanding: session.options.outstanding,
        timeout: if session.is_impatient { session.options.timeout.min(ATTEMPT) } else { session.options.timeout },
        // A lock may be that of a client that is gone: then the server has to be asked.
        patience: if writable { LOCKED } else { session.options.timeout },
        ..ReaderOptions::default()
    };
    if session.options.get == GetWay::Device {
        return device_reader(session, connection, key, until);
    }
    connection.into_reader(layout, (key, writer), options).map_err(KvError::Read)
}

/// The server tells where the block for copies is. A wrong place only harms the table that it has.
pub(crate) fn pass_of(right: WriterRight) -> WriterPass {
    WriterPass { holder: right.holder, copy_at: right.copy_at, copy_bytes: right.copy_bytes }
}

fn device_reader(
    session: &mut TableSession,
    connection: Box<dyn DataLink>,
    key: RemoteKey,
    until: Instant,
) -> Result<Box<dyn RemoteReader>, KvError> {
    let (outstanding, timeout) = (session.options.outstanding, session.options.timeout);
    match connection.into_device_reader(key, outstanding, timeout) {
        Ok(reader) => Ok(reader),
        Err(NoDeviceGets::Failed(error)) => Err(not_attached(session, error)),
        Err(NoDeviceGets::Refused(error)) => {
            // A right that was revoked meanwhile looks the same.
            session.confirm(until)?;
            Err(KvError::NoDeviceGets(error.to_string()))
        }
    }
}

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

fn not_attached(session: &TableSession, why: impl std::fmt::Display) -> KvError {
    KvError::NotAttached(session.options.timeout, why.to_string())
}
