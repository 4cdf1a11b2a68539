//! The way to a server: sessions for requests, and connections for READs. A device has them, and so has a simulation.

use std::time::{Duration, Instant};

use longarm::RemoteKey;
use longarm_rpc::{CallId, ClientOptions, Method, NotStarted, Status};
use remote::{ReadError, ReaderOptions, WriterPass};

use crate::client::device::NoDeviceGets;
use crate::client::remote_reader::RemoteReader;
use crate::server::KvLayout;

/// Takes a call that has ended, with the bytes of its answer.
pub(crate) type EachEnded<'a> = &'a mut dyn FnMut(CallId, Result<&[u8], Status>);

/// A session for requests, as a [`Client`](longarm_rpc::Client) has it.
pub(crate) trait Requester: Send {
    /// See [`Client::start`](longarm_rpc::Client::start).
    fn start(&mut self, method: Method, body: &[u8], deadline: Option<Instant>) -> Result<CallId, NotStarted>;
    /// See [`Client::poll`](longarm_rpc::Client::poll).
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
