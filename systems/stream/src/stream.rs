//! Connections.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rsocket::tasks::TaskStream;

use crate::address::StreamAddress;
use crate::attention::Attention;
use crate::config::StreamConfig;
use crate::error::Doing;
use crate::halves::{RdmaReadHalf, RdmaWriteHalf, ReuniteError};
use crate::provider;

/// A byte stream to a peer, as a TCP stream is one.
///
/// With the feature `tokio` it has tokio's `AsyncRead` and `AsyncWrite`, with `futures-io` those of futures-io. The
/// functions `poll_…` are the same for every runtime.
///
/// - Reading and writing are cancel-safe: a future that is dropped has taken or sent no byte that it did not report.
/// - Writing copies into a buffer; [the peer's full buffer](StreamConfig::recv_buffer) makes it wait.
/// - Shutting the stream down ends our direction, and is ready when the peer's device has everything. The peer reads the
///   rest and then the end. Our reading goes on.
/// - Dropping the stream closes it behind the caller's back. Bytes that were written still arrive while the process
///   lives, so shut it down before the process ends.
/// - When the peer's program dies, reads and writes give `ConnectionReset`.
#[derive(Debug)]
pub struct RdmaStream {
    read: RdmaReadHalf,
    write: RdmaWriteHalf,
}

impl RdmaStream {
    /// Connects to `"host:port"`, a `(host, port)`, or a `SocketAddr`. If a name has several addresses, the first that
    /// answers counts. Dropping the future withdraws the request.
    ///
    /// # Errors
    /// `ConnectionRefused`, `TimedOut`, `HostUnreachable` and so on; `InvalidData` if the listener does not speak
    /// rsockets; `Unsupported` if `LONGARM_PROVIDER` asks for the devices of the system.
    pub async fn connect(address: impl Into<StreamAddress>) -> io::Result<RdmaStream> {
        StreamConfig::new().connect(address).await
    }

    pub(crate) async fn connect_with(address: StreamAddress, config: &StreamConfig) -> io::Result<RdmaStream> {
        provider::check()?;
        let mut error = None;
        for peer in address.resolve().await? {
            match TaskStream::connect(peer, config.settings()).await {
                Ok(stream) => return Ok(RdmaStream::new(stream, config.busy_poll_time())),
                Err(errno) => error = Some(Doing::Connecting(peer).failed(errno)),
            }
        }
        Err(error.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address")))
    }

    pub(crate) fn new(stream: TaskStream, busy_poll: Duration) -> RdmaStream {
        let shared = Arc::new(stream);
        let half = || (Arc::clone(&shared), Attention::new(busy_poll));
        let ((read, its), (write, other)) = (half(), half());
        RdmaStream { read: RdmaReadHalf::new(read, its), write: RdmaWriteHalf::new(write, other) }
    }

    /// The address of this end.
    ///
    /// # Errors
    /// None for a connected stream.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.read.local_addr()
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// None for a connected stream.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.read.peer_addr()
    }

    /// Two halves that can go to two tasks. Dropping the writing half ends our direction.
    pub fn into_split(self) -> (RdmaReadHalf, RdmaWriteHalf) {
        (self.read, self.write)
    }

    /// Reads into `parts`, in order. Zero bytes are the end.
    ///
    /// # Errors
    /// `ConnectionReset` if the peer ended without closing, `TimedOut` if it does not answer, `InvalidData` if it broke
    /// the protocol.
    pub fn poll_read_parts(&mut self, task: &mut Context<'_>, parts: &mut [IoSliceMut<'_>]) -> Poll<io::Result<usize>> {
        self.read.poll_read_parts(task, parts)
    }

    /// Writes the first bytes of `parts`, in order: at least one, unless there is none.
    ///
    /// # Errors
    /// `BrokenPipe` after a shutdown, `ConnectionReset` if the peer has gone, `TimedOut` if it does not answer.
    pub fn poll_write_parts(&mut self, task: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.write.poll_write_parts(task, parts)
    }

    /// Ends our direction. Ready when everything that was written has arrived.
    ///
    /// # Errors
    /// If the connection broke before that.
    pub fn poll_finish(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write.poll_finish(task)
    }

    /// Ends our direction, as [`poll_finish`](RdmaStream::poll_finish).
    ///
    /// # Errors
    /// As there.
    pub async fn finish(&mut self) -> io::Result<()> {
        poll_fn(|task| self.poll_finish(task)).await
    }
}

impl From<RdmaStream> for (RdmaReadHalf, RdmaWriteHalf) {
    fn from(stream: RdmaStream) -> (RdmaReadHalf, RdmaWriteHalf) {
        stream.into_split()
    }
}

impl RdmaReadHalf {
    /// The stream of both halves.
    ///
    /// # Errors
    /// If they are of two streams.
    pub fn reunite(self, write: RdmaWriteHalf) -> Result<RdmaStream, ReuniteError> {
        match self.is_of_one_stream(&write) {
            true => Ok(RdmaStream { read: self, write }),
            false => Err(ReuniteError(self, write)),
        }
    }
}
