//! Listeners.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use rsocket::Errno;
use rsocket::tasks::TaskListener;

use crate::address::StreamAddress;
use crate::config::StreamConfig;
use crate::error::Doing;
use crate::provider;
use crate::stream::RdmaStream;

/// Waits for connections, as a TCP listener does. Its ports are RDMA's: they are not those of TCP.
///
/// Connections are made while nobody accepts, up to the [backlog](StreamConfig::backlog). Dropping the listener frees
/// the port and ends connections that nobody accepted; the others stay.
#[derive(Debug)]
pub struct RdmaListener {
    listener: TaskListener,
    local: SocketAddr,
    busy_poll: Duration,
}

impl RdmaListener {
    /// Listens at an address, which may be a wildcard; that of IPv6 takes IPv4 in as well. Port 0 takes a free one.
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable` if no device has the address, and if no hub can be found or started.
    /// `Unsupported` if `LONGARM_PROVIDER` asks for the devices of the system.
    pub async fn bind(address: impl Into<StreamAddress>) -> io::Result<RdmaListener> {
        StreamConfig::new().bind(address).await
    }

    pub(crate) async fn bind_with(address: StreamAddress, config: &StreamConfig) -> io::Result<RdmaListener> {
        provider::check()?;
        let mut error = None;
        for address in address.resolve().await? {
            match TaskListener::bind(address, config.backlog_len(), config.settings()).await {
                Ok(listener) => {
                    let local = listener.local_addr().unwrap_or(address);
                    return Ok(RdmaListener { listener, local, busy_poll: config.busy_poll_time() });
                }
                Err(errno) => error = Some(Doing::Binding(address).failed(errno)),
            }
        }
        Err(error.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address")))
    }

    /// The next connection. The future may be dropped: no connection is lost.
    ///
    /// # Errors
    /// In a forked child of the process.
    pub async fn accept(&self) -> io::Result<RdmaStream> {
        std::future::poll_fn(|task| self.poll_accept(task)).await
    }

    /// The poll function behind [`accept`](RdmaListener::accept).
    ///
    /// # Errors
    /// As there.
    pub fn poll_accept(&self, task: &mut Context<'_>) -> Poll<io::Result<RdmaStream>> {
        let accepted = self.listener.poll_accept(task);
        accepted.map(|accepted| self.stream(accepted))
    }

    fn stream(&self, accepted: Result<rsocket::tasks::TaskStream, Errno>) -> io::Result<RdmaStream> {
        let stream = accepted.map_err(|errno| Doing::Accepting.failed(errno))?;
        Ok(RdmaStream::new(stream, self.busy_poll))
    }

    /// The connections as a [`Stream`], which does not end.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// use futures::StreamExt;
    /// use longarm_stream::RdmaListener;
    ///
    /// let mut incoming = RdmaListener::bind("0.0.0.0:7471").await?.incoming();
    /// while let Some(stream) = incoming.next().await {
    ///     println!("{} is here", stream?.peer_addr()?);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn incoming(self) -> IncomingStreams {
        IncomingStreams { listener: self }
    }

    /// The address it listens at.
    ///
    /// # Errors
    /// None; the type is that of other listeners.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

/// The connections that come to a listener; [`RdmaListener::incoming`] makes it.
#[derive(Debug)]
pub struct IncomingStreams {
    listener: RdmaListener,
}

impl IncomingStreams {
    /// The listener.
    pub fn listener(&self) -> &RdmaListener {
        &self.listener
    }
}

impl Stream for IncomingStreams {
    type Item = io::Result<RdmaStream>;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<io::Result<RdmaStream>>> {
        self.listener.poll_accept(task).map(Some)
    }
}
