//! Connections.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::cm_connection::CmConnection;
use super::waiters::WaiterSlot;
use crate::qp::{Connected, QueuePair, Rc};
use crate::wait::park;

/// A connected queue pair, and the connection that it is part of. It dereferences to the
/// [`QueuePair`].
///
/// When the peer ends the connection, or its process dies, the queue pair fails: messages that have arrived by
/// then are delivered, all other requests are flushed. (If the peer's whole host dies, no message says so;
/// then requests fail because they get no answer.) Dropping the connection ends it, as
/// [`disconnect`](Connection::disconnect) does.
pub struct Connection<S: Connected = Rc> {
    qp: QueuePair<S>,
    cm: Arc<CmConnection>,
    local: Option<SocketAddr>,
    private_data: Vec<u8>,
}

impl<S: Connected> Connection<S> {
    pub(super) fn new(qp: QueuePair<S>, cm: Arc<CmConnection>, private_data: Vec<u8>) -> Connection<S> {
        let local = cm.id().local_addr();
        Connection { qp, cm, local, private_data }
    }

    /// Our address and port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local.unwrap_or_else(|| SocketAddr::new(self.peer_addr().ip(), 0))
    }

    /// The peer's.
    pub fn peer_addr(&self) -> SocketAddr {
        self.cm.peer_addr()
    }

    /// The peer's private data, followed by zeros: 56 bytes from a peer that has
    /// connected, 196 bytes from a peer that has accepted.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Ends the connection without dropping the queue pair. Outstanding requests are flushed immediately, and
    /// the peer is told; [`disconnected`](Connection::disconnected) waits until it agrees.
    pub fn disconnect(&self) {
        self.cm.disconnect();
    }

    /// True if neither peer has ended it.
    pub fn is_connected(&self) -> bool {
        self.cm.is_up()
    }

    /// Waits until either peer has ended the connection. The future holds no part of the connection.
    pub fn disconnected(&self) -> Disconnected {
        Disconnected { cm: Arc::clone(&self.cm), slot: WaiterSlot::default() }
    }
}

impl<S: Connected> Deref for Connection<S> {
    type Target = QueuePair<S>;

    fn deref(&self) -> &QueuePair<S> {
        &self.qp
    }
}

impl<S: Connected> Drop for Connection<S> {
    fn drop(&mut self) {
        self.cm.end();
    }
}

impl<S: Connected> fmt::Debug for Connection<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({:?}, from {} to {})", self.qp, self.local_addr(), self.peer_addr())
    }
}

/// A future of the end of a [`Connection`].
///
/// ```no_run
/// # async fn example(connection: longarm::Connection) {
/// connection.disconnected().await;
/// println!("{} has gone", connection.peer_addr());
/// # }
/// ```
#[must_use = "it does nothing until it is awaited or waited for"]
pub struct Disconnected {
    cm: Arc<CmConnection>,
    slot: WaiterSlot,
}

impl Disconnected {
    /// Waits with the thread, at most `timeout`; returns whether the connection has ended.
    pub fn wait(mut self, timeout: Duration) -> bool {
        park(timeout, |task| Pin::new(&mut self).poll(task)).is_some()
    }
}

impl Future for Disconnected {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        let Disconnected { cm, slot } = &mut *self;
        cm.poll_over(task, slot)
    }
}

impl Drop for Disconnected {
    fn drop(&mut self) {
        self.cm.forget(&self.slot);
    }
}

impl fmt::Debug for Disconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Disconnected(from {})", self.cm.peer_addr())
    }
}
