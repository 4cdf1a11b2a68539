//! GETs by READs: the connection for them, and readers of any layout that tasks share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm::{Connection, RemoteKey, Route};
use remote::{ReaderOptions, WriterPass};

use crate::client::{GetWay, LOCKED, NoDeviceGets, PutWay, Repeat, pass_of};
use crate::error::KvError;
use crate::protocol::{ATTACH, AttachReply, AttachRequest, decode, encode};
use crate::server::{KvLayout, private_data};
use crate::tasks::core::TaskCore;
use crate::tasks::device::TaskDevice;
use crate::tasks::layouts::LayoutReader;
use crate::tasks::pause::{by, pause};

/// The pause between two questions whether the server has the connection, too.
const PAUSE: Duration = Duration::from_micros(100);
/// The pause between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(5);

/// The connection for READs.
pub(super) struct TaskReader {
    pub(super) table: LayoutReader,
    /// The right to write, if there is one.
    pub(super) writer: Option<WriterPass>,
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

    /// Drops a connection for READs that has failed. The next operation makes another one.
    pub(super) fn lose(&self, failed: &Arc<TaskReader>) {
        if self.state.lock().reader.as_ref().is_some_and(|reader| Arc::ptr_eq(reader, failed)) {
            self.detach();
        }
    }

    /// Drops the connection for READs.
    fn detach(&self) {
        let mut state = self.state.lock();
        let lost = state.reader.take();
        state.stats.reads += lost.as_ref().map_or(0, |lost| lost.table.stats().reads);
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
        let connecting =
            self.connect(opened.data_port, private_data(&opened.grant, attempt, self.options.put == PutWay::OneSided));
        let connection = by(until, connecting).await.unwrap_or_else(|| Err(self.not_attached("no answer")))?;
        let (key, writer) = loop {
            let AttachReply { key, writer, .. } = self.ask_for_key(opened.grant, attempt, until).await?;
            match key {
                Some(bytes) => {
                    let key = RemoteKey::from_bytes(&bytes).map_err(|error| self.not_attached(error))?;
                    break (key, writer.map(pass_of));
                }
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
            let table = self.device_reader(connection, key, until).await?;
            return Ok(TaskReader { table, writer: None });
        }
        let table = LayoutReader::new(layout, connection, key, options).map_err(KvError::Read)?;
        Ok(TaskReader { table, writer })
    }

    async fn device_reader(
        &self,
        connection: Connection,
        key: RemoteKey,
        until: Instant,
    ) -> Result<LayoutReader, KvError> {
        let (outstanding, timeout) = (self.options.outstanding, self.options.timeout);
        match TaskDevice::open(connection, key, outstanding, timeout).await {
            Ok(device) => Ok(LayoutReader::Device(Box::new(device))),
            Err(NoDeviceGets::Failed(error)) => Err(self.not_attached(error)),
            Err(NoDeviceGets::Refused(error)) => {
                // A right that was revoked meanwhile looks the same.
                self.confirm(until).await?;
                Err(KvError::NoDeviceGets(error.to_string()))
            }
        }
    }

    async fn ask_for_key(&self, grant: [u8; 16], attempt: u64, until: Instant) -> Result<AttachReply, KvError> {
        let mut request = Vec::new();
        encode(&AttachRequest { grant, attempt }, &[], &mut request);
        match self.exchange(ATTACH, request, until).await {
            Ok(reply) => Ok(decode::<AttachReply>(&reply)?.0),
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
