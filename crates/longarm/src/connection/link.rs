//! What the connection manager knows of one connection, and the queue pair that goes along.

mod calls;
mod heard;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use ::connect::Id;
use parking_lot::Mutex;

use super::dispatch::{CmEventHandler, Dispatcher};
use super::waiters::{WaiterSlot, Waiters};
use crate::address::AddressHandle;
use crate::error::ConnectError;
use crate::qp::{ConnectionInfo, QpConnector};

/// One attempt to connect, and the connection that it becomes.
///
/// The dispatcher's thread takes the queue pair along as messages arrive; futures only look. So a
/// future that nobody polls holds nobody up, the peer least of all.
pub(super) struct CmConnection {
    dispatcher: Arc<Dispatcher>,
    id: Id,
    peer: SocketAddr,
    inner: Mutex<Inner>,
}

struct Inner {
    phase: Phase,
    connector: Option<QpConnector>,
    /// What was learned of the peer, until somebody takes it.
    far: Option<PeerReply>,
    waiters: Waiters,
}

enum Phase {
    /// An answer is awaited: the peer's, or our own.
    Waiting,
    Up,
    /// It was up.
    Over,
    /// It never was; why, until somebody asks.
    Failed(Option<ConnectError>),
}

/// What was learned of the peer.
pub(super) struct PeerReply {
    pub(super) what: PeerEndpoint,
    pub(super) private_data: Vec<u8>,
}

/// The peer's end.
pub(super) enum PeerEndpoint {
    /// A queue pair that ours is connected to.
    Connected(ConnectionInfo),
    /// One that takes datagrams.
    Datagrams(AddressHandle),
}

impl CmConnection {
    /// For an id that has a peer; its events come here from now on.
    pub(super) fn new(dispatcher: &Arc<Dispatcher>, id: Id) -> Result<Arc<CmConnection>, ConnectError> {
        let peer = id.peer_addr().ok_or(ConnectError::Malformed("the request names no address"))?;
        let inner = Inner { phase: Phase::Waiting, connector: None, far: None, waiters: Waiters::default() };
        let link = Arc::new(CmConnection { dispatcher: Arc::clone(dispatcher), id, peer, inner: Mutex::new(inner) });
        let concerned: Arc<dyn CmEventHandler> = link.clone();
        dispatcher.enter(link.id.key(), Arc::downgrade(&concerned));
        Ok(link)
    }

    pub(super) fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    /// Whether an answer of ours still makes sense.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.inner.lock().phase, Phase::Waiting)
    }

    pub(super) fn is_up(&self) -> bool {
        self.dispatcher.is_ours() && matches!(self.inner.lock().phase, Phase::Up)
    }

    /// What became of the attempt. To be asked until it is ready, and not again.
    pub(super) fn poll_up(
        &self,
        task: &mut TaskContext<'_>,
        place: &mut WaiterSlot,
    ) -> Poll<Result<PeerReply, ConnectError>> {
        if !self.dispatcher.is_ours() {
            return Poll::Ready(Err(ConnectError::Forked));
        }
        let mut inner = self.inner.lock();
        let Inner { phase, far, waiters, .. } = &mut *inner;
        let failed = match phase {
            Phase::Waiting => {
                waiters.note(place, task.waker());
                return Poll::Pending;
            }
            // It may be over already; what the peer sent before that is there.
            Phase::Up | Phase::Over => None,
            Phase::Failed(error) => error.take(),
        };
        Poll::Ready(far.take().filter(|_| failed.is_none()).ok_or(failed.unwrap_or(ConnectError::Gone(self.peer))))
    }

    /// Waits until it is over.
    pub(super) fn poll_over(&self, task: &mut TaskContext<'_>, place: &mut WaiterSlot) -> Poll<()> {
        if !self.dispatcher.is_ours() {
            return Poll::Ready(());
        }
        let mut inner = self.inner.lock();
        match inner.phase {
            Phase::Waiting | Phase::Up => {
                inner.waiters.note(place, task.waker());
                Poll::Pending
            }
            Phase::Over | Phase::Failed(_) => Poll::Ready(()),
        }
    }

    /// A future gives its place up.
    pub(super) fn forget(&self, place: &WaiterSlot) {
        if self.dispatcher.is_ours() {
            self.inner.lock().waiters.forget(place);
        }
    }

    /// Ends the connection: flushes the queue pair and tells the peer, who will agree.
    pub(super) fn disconnect(&self) {
        if !self.dispatcher.is_ours() {
            return;
        }
        self.stop();
        // It may be over already.
        let _ = self.id.disconnect();
    }

    /// Ends everything: the caller is going.
    pub(super) fn end(&self) {
        if !self.dispatcher.is_ours() {
            return;
        }
        self.stop();
        self.dispatcher.forget(self.id.key());
        self.id.destroy();
        self.enter(Phase::Over, None);
    }

    fn stop(&self) {
        let connector = self.inner.lock().connector.clone();
        if let Some(connector) = connector {
            connector.stop();
        }
    }

    /// Goes on to another phase and tells who waits. Nothing comes after the end, though an event
    /// may be under way when the program ends it.
    fn enter(&self, phase: Phase, far: Option<PeerReply>) {
        let wakers = {
            let mut inner = self.inner.lock();
            if matches!(inner.phase, Phase::Over | Phase::Failed(_)) {
                return;
            }
            inner.phase = phase;
            inner.far = far.or(inner.far.take());
            inner.waiters.take()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The queue pair is left alone: it may be of use for another attempt, and goes with the future.
    fn fail(&self, error: ConnectError) {
        self.enter(Phase::Failed(Some(error)), None);
    }
}

impl Drop for CmConnection {
    fn drop(&mut self) {
        if self.dispatcher.is_ours() {
            self.dispatcher.forget(self.id.key());
            self.id.destroy();
        }
    }
}
