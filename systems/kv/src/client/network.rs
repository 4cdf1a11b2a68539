//! The way to servers over this machine's devices.

use std::time::{Duration, Instant};

use longarm::{Connection, RemoteKey, Route};
use longarm_rpc::{CallId, Client, ClientOptions, Method, NotStarted, Status};
use remote::{ReadError, ReaderOptions, WriterPass};

use crate::client::device::{DeviceReader, NoDeviceGets};
use crate::client::link::{DataLink, EachEnded, KvNetwork, Requester};
use crate::client::remote_reader::{RemoteReader, reader_of};
use crate::server::KvLayout;
use crate::surroundings::instant;

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
