//! Connections.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use super::link::CmConnection;
use super::waiters::WaiterSlot;
use crate::qp::{Connected, QueuePair};
use crate::wait::park;

/// A connected queue pair, and the connection that it is part of. It dereferences to the
/// [`QueuePair`].
///
/// When the peer ends the connection, or its process dies, the queue pair fails: what has arrived by then is
/// delivered, and whatever else is on its way is flushed. (A peer whose whole host is gone says nothing;
/// requests that get no answer find that out.) Dropping the connection ends it, as
/// [`disconnect`](Connection::disconnect) does.
pub struct Connection<S: Connected> {
    qp: QueuePair<S>,
    link: Arc<CmConnection>,
    local: Option<SocketAddr>,
    private_data: Vec<u8>,
}

impl<S: Connected> Connection<S> {
    pub(super) fn new(qp: QueuePair<S>, link: Arc<CmConnection>, private_data: Vec<u8>) -> Connection<S> {
        let local = link.id().local_addr();
        Connection { qp, link, local, private_data }
    }

    /// Our address and port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local.unwrap_or_else(|| SocketAddr::new(self.peer_addr().ip(), 0))
    }

    /// The peer's.
    pub fn peer_addr(&self) -> SocketAddr {
        self.link.peer_addr()
    }

    /// What the peer has handed us, as long as the message had room, with zeros behind it: 56 bytes from who
    /// has connected, 196 bytes from who has accepted.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Ends the connection without dropping the queue pair. Whatever is on its way is flushed at once, and
    /// the peer is told; [`disconnected`](Connection::disconnected) waits until it agrees.
    pub fn disconnect(&self) {
        self.link.disconnect();
    }

    /// Whether neither side has ended it.
    pub fn is_connected(&self) -> bool {
        self.link.is_up()
    }

    /// Waits until the connection has ended, whoever ended it. The future holds no part of the connection.
    pub fn disconnected(&self) -> Disconnected {
        Disconnected { link: Arc::clone(&self.link), place: WaiterSlot::default() }
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
        self.link.end();
    }
}

impl<S: Connected> fmt::Debug for Connection<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({:?}, from {} to {})", self.qp, self.local_addr(), self.peer_addr())
    }
}

/// A future of the end of a [`Connection`].
#[must_use = "it does nothing until it is awaited or waited for"]
pub struct Disconnected {
    link: Arc<CmConnection>,
    place: WaiterSlot,
}

impl Disconnected {
    /// Waits with the thread, at most `timeout`; returns whether the connection has ended.
    pub fn wait(mut self, timeout: Duration) -> bool {
        park(timeout, |task| Pin::new(&mut self).poll(task)).is_some()
    }
}

impl Future for Disconnected {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<()> {
        let Disconnected { link, place } = &mut *self;
        link.poll_over(task, place)
    }
}

impl Drop for Disconnected {
    fn drop(&mut self) {
        self.link.forget(&self.place);
    }
}

impl fmt::Debug for Disconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Disconnected(from {})", self.link.peer_addr())
    }
}
