//! The way to a server: sessions for requests, and connections for READs. A device has them, and so has a simulation.

use std::time::{Duration, Instant};

use longarm::{Connection, RemoteKey, Route};
use longarm_rpc::{CallId, Client, ClientOptions, Method, NotStarted, Status};
use remote::{ReadError, ReaderOptions, WriterPass};

use crate::client::device::{DeviceReader, NoDeviceGets};
use crate::client::reader::{RemoteReader, reader_of};
use crate::server::KvLayout;
use crate::surroundings::instant;

/// Takes a call that has ended, with the bytes of its answer.
pub(crate) type EachEnded<'a> = &'a mut dyn FnMut(CallId, Result<&[u8], Status>);

/// A session for requests, as [`Client`] has it.
pub(crate) trait Requester: Send {
    /// See [`Client::start`].
    fn start(&mut self, method: Method, body: &[u8], deadline: Option<Instant>) -> Result<CallId, NotStarted>;
    /// See [`Client::poll`].
    fn poll(&mut self, ended: EachEnded<'_>);
}

/// A connection for READs.
pub(crate) trait DataLink {
    fn is_connected(&self) -> bool;
    /// A reader of the table that the key leads to, with the right to write if there is one.
    fn into_reader(
        self: Box<Self>,
        layout: KvLayout,
        rights: (RemoteKey, Option<WriterPass>),
        options: ReaderOptions,
    ) -> Result<Box<dyn RemoteReader>, ReadError>;
    /// A client whose GETs the server's device carries out.
    fn into_device_reader(
        self: Box<Self>,
        key: RemoteKey,
        outstanding: usize,
        timeout: Duration,
    ) -> Result<Box<dyn RemoteReader>, NoDeviceGets>;
}

/// Servers that can be reached.
pub(crate) trait KvNetwork: Send + Sync {
    fn connect(&self, address: &str, options: &ClientOptions) -> Result<Box<dyn Requester>, Status>;
    /// Connects for READs. The error says in words why that does not come about.
    fn attach(
        &self,
        address: &str,
        data_port: u16,
        private_data: &[u8],
        until: Instant,
    ) -> Result<Box<dyn DataLink>, String>;
}

/// Servers that this machine's devices reach.
pub(crate) struct DeviceNetwork;

impl Requester for Client {
    fn start(&mut self, method: Method, body: &[u8], deadline: Option<Instant>) -> Result<CallId, NotStarted> {
        Client::start(self, method, body, deadline)
    }

    fn poll(&mut self, ended: EachEnded<'_>) {
        Client::poll(self, ended);
    }
}

impl DataLink for Connection {
    fn is_connected(&self) -> bool {
        Connection::is_connected(self)
    }

    fn into_reader(
        self: Box<Self>,
        layout: KvLayout,
        rights: (RemoteKey, Option<WriterPass>),
        options: ReaderOptions,
    ) -> Result<Box<dyn RemoteReader>, ReadError> {
        reader_of(layout, *self, rights, options)
    }

    fn into_device_reader(
        self: Box<Self>,
        key: RemoteKey,
        outstanding: usize,
        timeout: Duration,
    ) -> Result<Box<dyn RemoteReader>, NoDeviceGets> {
        Ok(Box::new(DeviceReader::open(*self, key, outstanding, timeout)?))
    }
}

impl KvNetwork for DeviceNetwork {
    fn connect(&self, address: &str, options: &ClientOptions) -> Result<Box<dyn Requester>, Status> {
        Ok(Box::new(Client::connect(address, options)?))
    }

    fn attach(
        &self,
        address: &str,
        data_port: u16,
        private_data: &[u8],
        until: Instant,
    ) -> Result<Box<dyn DataLink>, String> {
        let left = || until.saturating_duration_since(instant());
        let mut server = Route::to(address).wait(left()).map_err(|error| error.to_string())?.peer_addr();
        server.set_port(data_port);
        let device = Route::to(server).wait(left()).and_then(|route| Ok(route.open_device()?));
        let domain = device.map_err(|error| error.to_string())?.protection_domain();
        let domain = domain.map_err(|error| error.to_string())?;
        let queue = domain.device().completion_queue().map_err(|error| error.to_string())?;
        let connected = longarm::connect(server, domain.rc(&queue), private_data).wait(left());
        Ok(Box::new(connected.map_err(|error| error.to_string())?))
    }
}
