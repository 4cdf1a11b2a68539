//! One connection as the connection manager sees it, together with its queue pair.

mod calls;
mod events;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use device::Provider;
use parking_lot::Mutex;
use provider::cm::Id;

use super::dispatch::{CmEventHandler, Dispatcher};
use super::waiters::{WaiterSlot, Waiters};
use crate::address::AddressHandle;
use crate::error::ConnectError;
use crate::qp::{ConnectionInfo, QpConnector};

/// One attempt to connect, and the connection that it becomes.
///
/// The dispatcher's thread moves the queue pair through its states as messages arrive. Futures only
/// read the state, so one that nobody polls delays neither the peer nor others.
pub(super) struct CmConnection {
    dispatcher: Arc<Dispatcher>,
    id: Id,
    peer: SocketAddr,
    progress: Mutex<CmProgress>,
}

struct CmProgress {
    phase: CmPhase,
    connector: Option<QpConnector>,
    /// The peer's reply, until a future takes it.
    reply: Option<PeerReply>,
    waiters: Waiters,
}

enum CmPhase {
    /// An answer is missing: the peer's, or our own.
    Waiting,
    Up,
    /// The connection was up and has ended.
    Over,
    /// The attempt failed. The reason stays until a future takes it.
    Failed(Option<ConnectError>),
}

/// The peer's reply to an attempt.
pub(super) struct PeerReply {
    pub(super) endpoint: PeerEndpoint,
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
        let progress =
            CmProgress { phase: CmPhase::Waiting, connector: None, reply: None, waiters: Waiters::default() };
        let cm =
            Arc::new(CmConnection { dispatcher: Arc::clone(dispatcher), id, peer, progress: Mutex::new(progress) });
        let handler: Arc<dyn CmEventHandler> = cm.clone();
        dispatcher.enter(cm.id.key(), Arc::downgrade(&handler));
        Ok(cm)
    }

    pub(super) fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    /// Forgets the peer's answer. True if dropping it then may block its thread.
    pub(super) fn give_up(&self) -> bool {
        self.dispatcher.forget(self.id.key());
        self.id.provider() != Provider::Longarm && self.dispatcher.is_ours()
    }

    /// True if the peer still waits for our answer.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.progress.lock().phase, CmPhase::Waiting)
    }

    pub(super) fn is_up(&self) -> bool {
        self.dispatcher.is_ours() && matches!(self.progress.lock().phase, CmPhase::Up)
    }

    /// The outcome of the attempt. Callers poll until it is ready, and not again.
    pub(super) fn poll_up(
        &self,
        task: &mut Context<'_>,
        slot: &mut WaiterSlot,
    ) -> Poll<Result<PeerReply, ConnectError>> {
        if !self.dispatcher.is_ours() {
            return Poll::Ready(Err(ConnectError::Forked));
        }
        let mut progress = self.progress.lock();
        let CmProgress { phase, reply, waiters, .. } = &mut *progress;
        let failed = match phase {
            CmPhase::Waiting => {
                waiters.note(slot, task.waker());
                return Poll::Pending;
            }
            // Even if the connection has ended, the peer's reply is still there.
            CmPhase::Up | CmPhase::Over => None,
            CmPhase::Failed(error) => error.take(),
        };
        Poll::Ready(reply.take().filter(|_| failed.is_none()).ok_or(failed.unwrap_or(ConnectError::Gone(self.peer))))
    }

    /// Waits until it is over.
    pub(super) fn poll_over(&self, task: &mut Context<'_>, slot: &mut WaiterSlot) -> Poll<()> {
        if !self.dispatcher.is_ours() {
            return Poll::Ready(());
        }
        let mut progress = self.progress.lock();
        match progress.phase {
            CmPhase::Waiting | CmPhase::Up => {
                progress.waiters.note(slot, task.waker());
                Poll::Pending
            }
            CmPhase::Over | CmPhase::Failed(_) => Poll::Ready(()),
        }
    }

    /// Removes the waker of a future.
    pub(super) fn forget(&self, slot: &WaiterSlot) {
        if self.dispatcher.is_ours() {
            self.progress.lock().waiters.forget(slot);
        }
    }

    /// Ends the connection: flushes the queue pair and tells the peer, who will agree.
    pub(super) fn disconnect(&self) {
        if !self.dispatcher.is_ours() {
            return;
        }
        self.stop();
        // The connection may have ended already.
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
        self.enter(CmPhase::Over, None);
    }

    fn stop(&self) {
        let connector = self.progress.lock().connector.clone();
        if let Some(connector) = connector {
            connector.stop();
        }
    }

    /// Enters another phase and wakes the waiters. Nothing comes after the end, though an event may
    /// be under way when the program ends it.
    fn enter(&self, phase: CmPhase, reply: Option<PeerReply>) {
        let wakers = {
            let mut progress = self.progress.lock();
            if matches!(progress.phase, CmPhase::Over | CmPhase::Failed(_)) {
                return;
            }
            progress.phase = phase;
            progress.reply = reply.or(progress.reply.take());
            progress.waiters.take()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Leaves the queue pair unchanged: another attempt may use it, and the future drops it.
    fn fail(&self, error: ConnectError) {
        self.enter(CmPhase::Failed(Some(error)), None);
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
