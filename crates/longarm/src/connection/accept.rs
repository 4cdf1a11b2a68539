//! Accepting connections as they come, each with an endpoint of its own.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Connecting, Connection, Incoming, Listener, NextIncoming};
use crate::endpoint::Endpoint;
use crate::error::ConnectError;
use crate::qp::{Connected, Unconnected};
use crate::wait::park;

/// Connections at most that wait for their peers' confirmation. Further requests wait in the listener's queue.
const HANDSHAKES: usize = 64;

/// The accepted connections whose peers have still to confirm. Each is a [`Handshake`] of the listener's service.
#[derive(Default)]
pub(super) struct Handshakes(Mutex<Vec<Box<dyn Any + Send>>>);

type Handshake<S> = Connecting<Endpoint<Unconnected<S>>>;

impl<S: Connected> Listener<S> {
    /// Waits for the next connection, and gives it an endpoint of its own. The result is a future; it can be awaited
    /// on any executor, or [waited for](Accept::wait) by a thread.
    ///
    /// Dropping the future loses no connection. Peers that are slow to confirm do not keep others waiting, and those
    /// that give up in between are passed over. To see a request before, or to choose the queue pair, its domain and
    /// its receives, use [`incoming`](Listener::incoming). On iWARP, a message that finds no posted receive ends the
    /// connection ([`Capabilities::initiator_sends_first`](crate::Capabilities)). If the peer may send at once there,
    /// use `incoming`, and post receives before accepting.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = longarm::Listener::bind("0.0.0.0:7471").await?;
    /// loop {
    ///     let endpoint = listener.accept().await?;
    ///     let message = endpoint.recv(endpoint.allocate(4096)?).await?;
    ///     println!("{} says {:?}", endpoint.peer_addr(), &message[..]);
    /// }
    /// # }
    /// ```
    pub fn accept(&self) -> Accept<'_, S> {
        Accept { next: self.incoming() }
    }
}

/// A future of the next connection, from [`Listener::accept`].
#[must_use = "it does nothing until it is awaited or waited for"]
pub struct Accept<'l, S: Connected> {
    next: NextIncoming<'l, S>,
}

impl<S: Connected> Accept<'_, S> {
    /// Waits with the thread, at most `timeout`.
    ///
    /// # Errors
    /// If nobody connected in time, the device has no resources left, or this process is a fork of the listener's.
    pub fn wait(mut self, timeout: Duration) -> Result<Endpoint<Connection<S>>, ConnectError> {
        let found = park(timeout, |task| Pin::new(&mut self).poll(task));
        found.unwrap_or_else(|| Err(ConnectError::TimedOut { who: "somebody who connects".into(), timeout }))
    }

    /// Begins handshakes with those who wait.
    fn begin(&mut self, task: &mut Context<'_>) -> Result<(), ConnectError> {
        let listener = self.next.listener();
        while listener.handshakes().0.lock().len() < HANDSHAKES {
            let Poll::Ready(incoming) = Pin::new(&mut self.next).poll(task) else { return Ok(()) };
            let handshake: Handshake<S> = begin(incoming?)?;
            listener.handshakes().0.lock().push(Box::new(handshake));
        }
        self.next.note(task);
        Ok(())
    }

    /// The first connection that its peer has confirmed.
    fn confirmed(&self, task: &mut Context<'_>) -> Option<Endpoint<Connection<S>>> {
        let mut handshakes = self.next.listener().handshakes().0.lock();
        let mut at = 0;
        while let Some(handshake) = handshakes.get_mut(at) {
            let handshake = handshake.downcast_mut::<Handshake<S>>().expect("a listener has one service");
            match Pin::new(handshake).poll(task) {
                Poll::Pending => at += 1,
                Poll::Ready(done) => {
                    handshakes.swap_remove(at);
                    // Those that failed were given up by their peers.
                    if let Ok(endpoint) = done {
                        return Some(endpoint);
                    }
                }
            }
        }
        None
    }
}

fn begin<S: Connected>(incoming: Incoming<S>) -> Result<Handshake<S>, ConnectError> {
    let endpoint = incoming.endpoint()?;
    Ok(incoming.accept(endpoint, b""))
}

impl<S: Connected> Future for Accept<'_, S> {
    type Output = Result<Endpoint<Connection<S>>, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        // In a forked child, a thread of the parent may have held the locks.
        if !self.next.listener().is_ours() {
            return Poll::Ready(Err(ConnectError::Forked));
        }
        let begun = self.begin(task);
        match self.confirmed(task) {
            Some(endpoint) => Poll::Ready(Ok(endpoint)),
            None => begun.map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending),
        }
    }
}

impl<S: Connected> Drop for Accept<'_, S> {
    /// Another future may wait for the handshakes whose wakers were this one's.
    fn drop(&mut self) {
        self.next.listener().wake_others();
    }
}

impl<S: Connected> fmt::Debug for Accept<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accept({:?})", self.next.listener())
    }
}
