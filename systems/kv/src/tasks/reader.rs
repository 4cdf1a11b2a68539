//! GETs by READs: the connection for them, and readers of any layout that tasks share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm::{Connection, RemoteKey, Route};
use remote::{
    AtomicReads, Cluster, Crc64, Cuckoo, Hopscotch, KeyRange, ObjectHeader, ReadError, ReaderOptions, ReaderStats,
    SharedTableReader, SharedTreeReader,
};

use crate::client::{GetWay, LOCKED, LookedUp, NoDeviceGets, Repeat};
use crate::error::KvError;
use crate::protocol::{ATTACH, AttachReply, AttachRequest, encode};
use crate::server::{KvLayout, private_data};
use crate::tasks::core::TaskCore;
use crate::tasks::device::TaskDevice;
use crate::tasks::pause::{by, pause};

/// The pause between two questions whether the server has the connection, too.
const PAUSE: Duration = Duration::from_micros(100);
/// The pause between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(5);

/// A reader of a table of some layout.
pub(super) enum TaskReader {
    Cluster(SharedTableReader<Connection, Cluster, Crc64>),
    Hopscotch(SharedTableReader<Connection, Hopscotch, Crc64>),
    Cuckoo(SharedTableReader<Connection, Cuckoo, Crc64>),
    ClusterAtomic(SharedTableReader<Connection, Cluster, AtomicReads>),
    Tree(SharedTreeReader<Connection, Crc64>),
    Device(TaskDevice),
}

impl TaskReader {
    fn new(layout: KvLayout, qp: Connection, key: RemoteKey, options: ReaderOptions) -> Result<TaskReader, ReadError> {
        Ok(match layout {
            KvLayout::Cluster => TaskReader::Cluster(SharedTableReader::new(qp, key, options)?),
            KvLayout::Hopscotch => TaskReader::Hopscotch(SharedTableReader::new(qp, key, options)?),
            KvLayout::Cuckoo => TaskReader::Cuckoo(SharedTableReader::new(qp, key, options)?),
            KvLayout::ClusterAtomic => TaskReader::ClusterAtomic(SharedTableReader::new(qp, key, options)?),
            KvLayout::Tree => TaskReader::Tree(SharedTreeReader::new(qp, key, options)?),
        })
    }

    pub(super) async fn get<T>(&self, key: &[u8], take: impl FnOnce(LookedUp<'_>) -> T) -> Result<T, ReadError> {
        match self {
            TaskReader::Cluster(reader) => reader.get(key, |found| take(found.into())).await,
            TaskReader::Hopscotch(reader) => reader.get(key, |found| take(found.into())).await,
            TaskReader::Cuckoo(reader) => reader.get(key, |found| take(found.into())).await,
            TaskReader::ClusterAtomic(reader) => reader.get(key, |found| take(found.into())).await,
            TaskReader::Tree(reader) => reader.get(key, |found| take(found.into())).await,
            TaskReader::Device(device) => device.get(key, take).await,
        }
    }

    /// Tells at most `limit` keys of a range in their order; none, if the table has no order.
    pub(super) async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        mut each: impl FnMut(&[u8], ObjectHeader, &[u8]),
    ) -> Result<(), ReadError> {
        let TaskReader::Tree(reader) = self else { return Ok(()) };
        reader.scan(range, limit, |item| each(item.key, item.object.header, item.object.value)).await
    }

    pub(super) fn stats(&self) -> ReaderStats {
        match self {
            TaskReader::Cluster(reader) => reader.stats(),
            TaskReader::Hopscotch(reader) => reader.stats(),
            TaskReader::Cuckoo(reader) => reader.stats(),
            TaskReader::ClusterAtomic(reader) => reader.stats(),
            TaskReader::Tree(reader) => reader.stats(),
            TaskReader::Device(_) => ReaderStats::default(),
        }
    }
}

impl TaskCore {
    /// The reader. If there is none, or `failed` is the present one, one task makes another, and the others wait.
    pub(super) async fn reader(
        &self,
        failed: Option<&Arc<TaskReader>>,
        until: Instant,
    ) -> Result<Arc<TaskReader>, KvError> {
        let present = || {
            let reader = self.state.lock().reader.clone();
            reader.filter(|reader| failed.is_none_or(|failed| !Arc::ptr_eq(reader, failed)))
        };
        if let Some(reader) = present() {
            return Ok(reader);
        }
        let _making = self.making.lock().await;
        if let Some(reader) = present() {
            return Ok(reader);
        }
        self.detach();
        loop {
            // The server says whether we still have the right. One that was started anew gives us another.
            self.confirm(until).await?;
            match self.attach(until).await {
                Ok(reader) => {
                    let (mut state, reader) = (self.state.lock(), Arc::new(reader));
                    state.stats.attached += 1;
                    state.reader = Some(Arc::clone(&reader));
                    return Ok(reader);
                }
                Err(KvError::NotAttached(..)) if pause(AGAIN, until).await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Drops the connection for READs.
    fn detach(&self) {
        let mut state = self.state.lock();
        let lost = state.reader.take();
        state.stats.reads += lost.as_ref().map_or(0, |lost| lost.stats().reads);
        drop(state);
        drop(lost);
    }

    async fn attach(&self, until: Instant) -> Result<TaskReader, KvError> {
        let opened = self.open_alone(until).await?;
        let layout: KvLayout = opened.layout.parse().map_err(|_| {
            KvError::Invalid(format!("the table has the layout {:?}, which this client cannot read", opened.layout))
        })?;
        let mut attempt = [0; 8];
        getrandom::fill(&mut attempt).map_err(|error| self.not_attached(error))?;
        let attempt = u64::from_le_bytes(attempt);
        let connecting = self.connect(opened.data_port, private_data(&opened.grant, attempt, false));
        let connection = by(until, connecting).await.unwrap_or_else(|| Err(self.not_attached("no answer")))?;
        let key = loop {
            match self.ask_for_key(opened.grant, attempt, until).await? {
                Some(bytes) => break RemoteKey::from_bytes(&bytes).map_err(|error| self.not_attached(error))?,
                None if !connection.is_connected() => return Err(self.not_attached("the server ended the connection")),
                None if pause(PAUSE, until).await => {}
                None => return Err(self.not_attached("the server has not accepted it")),
            }
        };
        let options = ReaderOptions {
            locations: self.options.locations,
            outstanding: self.options.outstanding,
            timeout: self.options.timeout,
            patience: if opened.writable { LOCKED } else { self.options.timeout },
            ..ReaderOptions::default()
        };
        if self.options.get == GetWay::Device {
            return self.device_reader(connection, key, until).await;
        }
        TaskReader::new(layout, connection, key, options).map_err(KvError::Read)
    }

    async fn device_reader(
        &self,
        connection: Connection,
        key: RemoteKey,
        until: Instant,
    ) -> Result<TaskReader, KvError> {
        let (outstanding, timeout) = (self.options.outstanding, self.options.timeout);
        match TaskDevice::open(connection, key, outstanding, timeout).await {
            Ok(device) => Ok(TaskReader::Device(device)),
            Err(NoDeviceGets::Failed(error)) => Err(self.not_attached(error)),
            Err(NoDeviceGets::Refused(error)) => {
                // A right that was revoked meanwhile looks the same.
                self.confirm(until).await?;
                Err(KvError::NoDeviceGets(error.to_string()))
            }
        }
    }

    async fn ask_for_key(&self, grant: [u8; 16], attempt: u64, until: Instant) -> Result<Option<Vec<u8>>, KvError> {
        let mut request = Vec::new();
        encode(&AttachRequest { grant, attempt }, &[], &mut request);
        match self.exchange(ATTACH, request, until).await {
            Ok(reply) => Ok(crate::protocol::decode::<AttachReply>(&reply)?.0.key),
            Err(status) => {
                self.after(status, Repeat::Always, Some(grant), until).await?;
                Err(self.not_attached("the connection to the server was lost"))
            }
        }
    }

    async fn connect(&self, data_port: u16, private_data: [u8; 25]) -> Result<Connection, KvError> {
        let refused = |why: &dyn std::fmt::Display| self.not_attached(why);
        let mut server = Route::to(self.address.as_str()).await.map_err(|error| refused(&error))?.peer_addr();
        server.set_port(data_port);
        let device = Route::to(server).await.and_then(|route| Ok(route.open_device()?));
        let domain = device.map_err(|error| refused(&error))?.protection_domain().map_err(|error| refused(&error))?;
        let queue = domain.device().completion_queue().map_err(|error| refused(&error))?;
        longarm::connect(server, domain.rc(&queue), &private_data).await.map_err(|error| refused(&error))
    }

    fn not_attached(&self, why: impl std::fmt::Display) -> KvError {
        KvError::NotAttached(self.options.timeout, why.to_string())
    }
}
