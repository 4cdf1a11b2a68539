//! Listeners.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::connect::{EventKind, Param};
use parking_lot::Mutex;
use provider::cm::{Event, Id};

use super::Incoming;
use super::accept::Handshakes;
use super::attempts::space;
use super::cm_connection::CmConnection;
use super::dispatch::{CmEventHandler, Dispatcher};
use super::waiters::{WaiterSlot, Waiters};
use crate::error::{ConnectError, OpenError, Refusal};
use crate::open_device::Device;
use crate::qp::{Rc, Service};
use crate::wait::park;

/// Requests that wait to be accepted at most. Further ones are refused.
const BACKLOG: usize = 1024;

/// Listens for peers that [`connect`](crate::connect), or that [look
/// up](crate::UdQueuePair::look_up) the destination of datagrams.
///
/// The ports of RC, of UC and of datagrams are different ones, and none of them is TCP's or UDP's. Dropping
/// the listener frees the port and refuses waiting requests; accepted connections stay.
pub struct Listener<S = Rc> {
    listening: Arc<ListeningId>,
    handshakes: Handshakes,
    local: SocketAddr,
    service: PhantomData<S>,
}

impl<S: Service> Listener<S> {
    pub(super) fn open(dispatcher: &Arc<Dispatcher>, address: SocketAddr) -> Result<Listener<S>, ConnectError> {
        let listening = ListeningId::open(dispatcher, address, S::TYPE)?;
        let local = listening.id.local_addr().unwrap_or(address);
        Ok(Listener { listening, handshakes: Handshakes::default(), local, service: PhantomData })
    }

    /// The address it listens at.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Opens the device of its address, for a domain that its connections share. With a wildcard it is the default
    /// device. Devices of the system share no domains: a program with several takes that of each
    /// [`Incoming`](Incoming::open_device).
    ///
    /// # Errors
    /// If the device is gone.
    pub fn open_device(&self) -> Result<Device, OpenError> {
        let provider = self.listening.id.provider();
        match self.listening.id.binding().filter(|_| !self.local.ip().is_unspecified()) {
            Some(binding) => Device::open_on(Some(provider), Some(binding.device)),
            None => Device::open_by(provider),
        }
    }

    /// Waits for the next request, to look at it before it is accepted. The result is a future; it can be awaited
    /// on any executor, or [waited for](NextIncoming::wait) by a thread. Dropping it loses no request.
    ///
    /// ```no_run
    /// # async fn example(domain: longarm::ProtectionDomain, cq: longarm::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = longarm::Listener::bind("0.0.0.0:7471").await?;
    /// let incoming = listener.incoming().await?;
    /// let connection = match incoming.private_data().starts_with(b"hello") {
    ///     true => incoming.accept(domain.rc(&cq), b"welcome").await?,
    ///     false => return Ok(incoming.reject(b"say hello")?),
    /// };
    /// # Ok(())
    /// # }
    /// ```
    pub fn incoming(&self) -> NextIncoming<'_, S> {
        NextIncoming { listener: self, slot: WaiterSlot::default() }
    }

    /// All requests from now on, as a [`Stream`](futures_core::Stream) that never ends.
    pub fn incoming_stream(&self) -> IncomingStream<'_, S> {
        IncomingStream { next: self.incoming() }
    }
}

impl<S> Listener<S> {
    pub(super) fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    /// True if this process made it, not one that it was forked from.
    pub(super) fn is_ours(&self) -> bool {
        self.listening.dispatcher.is_ours()
    }

    /// Wakes all futures that wait for a request.
    pub(super) fn wake_others(&self) {
        if self.is_ours() {
            let wakers = self.listening.inner.lock().waiters.take();
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl<S> fmt::Debug for Listener<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.local)
    }
}

/// A future of the next [`Incoming`], from [`Listener::incoming`].
#[must_use = "it does nothing until it is awaited or waited for"]
pub struct NextIncoming<'l, S> {
    listener: &'l Listener<S>,
    slot: WaiterSlot,
}

impl<S: Service> NextIncoming<'_, S> {
    /// Waits with the thread, at most `timeout`.
    ///
    /// # Errors
    /// If nobody came in time, or this process is a fork of the listener's.
    pub fn wait(mut self, timeout: Duration) -> Result<Incoming<S>, ConnectError> {
        let found = park(timeout, |task| Pin::new(&mut self).poll(task));
        found.unwrap_or_else(|| Err(ConnectError::TimedOut { who: "somebody who connects".into(), timeout }))
    }
}

impl<'l, S> NextIncoming<'l, S> {
    pub(super) fn listener(&self) -> &'l Listener<S> {
        self.listener
    }

    /// Wakes `task` at the next request, or by [`Listener::wake_others`].
    pub(super) fn note(&mut self, task: &mut Context<'_>) {
        let NextIncoming { listener, slot } = self;
        listener.listening.inner.lock().waiters.note(slot, task.waker());
    }
}

impl<S: Service> Future for NextIncoming<'_, S> {
    type Output = Result<Incoming<S>, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let NextIncoming { listener, slot } = &mut *self;
        listener.listening.poll(task, slot).map_ok(|pending| Incoming::new(pending.cm, pending.param))
    }
}

impl<S> Drop for NextIncoming<'_, S> {
    fn drop(&mut self) {
        self.listener.listening.forget(&self.slot);
    }
}

impl<S> fmt::Debug for NextIncoming<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NextIncoming({:?})", self.listener)
    }
}

/// The requests that come to a listener, from [`Listener::incoming_stream`].
#[derive(Debug)]
pub struct IncomingStream<'l, S> {
    next: NextIncoming<'l, S>,
}

impl<S: Service> futures_core::Stream for IncomingStream<'_, S> {
    type Item = Result<Incoming<S>, ConnectError>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.next).poll(task).map(Some)
    }
}

/// A listening id, and the requests that came to it.
struct ListeningId {
    dispatcher: Arc<Dispatcher>,
    id: Id,
    inner: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<PendingRequest>,
    waiters: Waiters,
}

struct PendingRequest {
    cm: Arc<CmConnection>,
    param: Param,
}

impl ListeningId {
    fn open(
        dispatcher: &Arc<Dispatcher>,
        address: SocketAddr,
        qp_type: transport::QpType,
    ) -> Result<Arc<ListeningId>, ConnectError> {
        let id = Id::new(dispatcher.queue(), space(qp_type), qp_type)?;
        id.bind(address).map_err(|error| ConnectError::binding(error, address))?;
        let listening = Arc::new(ListeningId { dispatcher: Arc::clone(dispatcher), id, inner: Mutex::default() });
        let handler: Arc<dyn CmEventHandler> = listening.clone();
        dispatcher.enter(listening.id.key(), Arc::downgrade(&handler));
        listening.id.listen(0).map_err(|error| ConnectError::binding(error, address))?;
        Ok(listening)
    }

    /// The oldest request whose peer has not given up.
    fn poll(&self, task: &mut Context<'_>, slot: &mut WaiterSlot) -> Poll<Result<PendingRequest, ConnectError>> {
        if !self.dispatcher.is_ours() {
            return Poll::Ready(Err(ConnectError::Forked));
        }
        let mut given_up = Vec::new();
        let mut inner = self.inner.lock();
        while let Some(pending) = inner.requests.pop_front() {
            if pending.cm.is_waiting() {
                drop(inner);
                return Poll::Ready(Ok(pending));
            }
            given_up.push(pending);
        }
        inner.waiters.note(slot, task.waker());
        drop(inner);
        drop(given_up);
        Poll::Pending
    }

    fn forget(&self, slot: &WaiterSlot) {
        if self.dispatcher.is_ours() {
            self.inner.lock().waiters.forget(slot);
        }
    }

    fn requested(&self, id: Id, param: Param) {
        let Ok(cm) = CmConnection::new(&self.dispatcher, id) else { return };
        let wakers = {
            let mut inner = self.inner.lock();
            if inner.requests.len() >= BACKLOG {
                inner.requests.retain(|pending| pending.cm.is_waiting());
            }
            if inner.requests.len() >= BACKLOG {
                drop(inner);
                // The peer may have gone already.
                let _ = cm.reject(Refusal::BUSY, &[]);
                return;
            }
            inner.requests.push_back(PendingRequest { cm, param });
            inner.waiters.take()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl CmEventHandler for ListeningId {
    fn handle(&self, event: Event) {
        if event.kind == EventKind::ConnectRequest {
            self.requested(event.id, event.param);
        }
    }
}

impl Drop for ListeningId {
    fn drop(&mut self) {
        if !self.dispatcher.is_ours() {
            return;
        }
        self.dispatcher.forget(self.id.key());
        self.id.destroy();
        for pending in std::mem::take(&mut self.inner.get_mut().requests) {
            // The peer may have given up.
            let _ = pending.cm.reject(Refusal::NO_LISTENER, &[]);
        }
    }
}
