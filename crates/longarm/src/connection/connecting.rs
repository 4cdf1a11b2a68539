//! Pending connections.

use std::fmt;
use std::future::Future;
use std::net::ToSocketAddrs;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use super::attempts::{Attempts, is_worth_another};
use super::cm_connection::{CmConnection, PeerEndpoint, PeerReply};
use super::connectable::Demands;
use super::waiters::WaiterSlot;
use super::{Connectable, Connection, Route};
use crate::endpoint::Endpoint;
use crate::error::ConnectError;
use crate::qp::{QpConnector, Rc, Service, Unconnected};
use crate::wait::park;

/// Connects to a program that listens at an address, and hands it up to 56 bytes of private data.
///
/// The request goes out now. The result is a future; it can be awaited on any executor, or
/// [waited for](Connecting::wait) by a thread. Dropping it withdraws the request.
///
/// The addresses of a name are tried in order, as far as the device of `qp` leads to them, until a listener
/// answers. Looking a name up blocks the thread; give a [`SocketAddr`](std::net::SocketAddr) where that matters.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let domain = longarm::Context::open()?.protection_domain()?;
/// # let cq = domain.context().completion_queue()?;
/// let qp = longarm::connect("192.0.2.7:7471", domain.rc(&cq), b"hello").await?;
/// println!("connected to {}: {:?}", qp.peer_addr(), qp.private_data());
/// # Ok(())
/// # }
/// ```
pub fn connect<Q: Connectable>(to: impl ToSocketAddrs, qp: Q, private_data: &[u8]) -> Connecting<Q> {
    Connecting::of(begin(to, qp, private_data))
}

fn begin<Q: Connectable>(
    to: impl ToSocketAddrs,
    qp: Q,
    private_data: &[u8],
) -> Result<PendingConnection<Q>, ConnectError> {
    let Demands { provider, device, source } = qp.demands();
    let mut attempts = Attempts::of(to, Q::Service::TYPE, Some(provider))?.from(source);
    attempts.on(device);
    let (id, binding) = attempts.next()?;
    attempts.on(Some(binding.device.clone()));
    let (qp, rest) = qp.place(&binding.device)?;
    let cm = CmConnection::new(&attempts.dispatcher, id)?;
    let connector = qp.connector();
    cm.request(&connector, private_data)?;
    let more = FurtherAttempts { attempts, connector, private_data: private_data.to_vec() };
    Ok(PendingConnection { cm, qp, rest, more: Some(more), slot: WaiterSlot::default() })
}

impl Endpoint<Connection<Rc>> {
    /// Connects to a program that listens at an address, on the device that leads there, and hands it up to
    /// 56 bytes of private data. To post receives before, begin with [`Route::rc`].
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use longarm::Endpoint;
    /// let endpoint = Endpoint::connect("192.0.2.7:7471", b"hello").wait(Duration::from_secs(5))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect(to: impl ToSocketAddrs, private_data: &[u8]) -> Connecting<Endpoint<Unconnected<Rc>>> {
        let endpoint = Route::to(to).and_then(|route| Ok((route.rc()?, route)));
        match endpoint {
            Ok((endpoint, route)) => connect(route, endpoint, private_data),
            Err(error) => Connecting { state: ConnectingState::Failed(error) },
        }
    }
}

/// A pending connection: a future of the connection, or of an
/// [`Endpoint`](crate::Endpoint) with one, if it began as an endpoint.
///
/// The connection comes about even if nobody polls the future. Dropping it ends the attempt.
#[must_use = "dropping it ends the attempt"]
pub struct Connecting<Q: Connectable> {
    state: ConnectingState<Q>,
}

enum ConnectingState<Q: Connectable> {
    Failed(ConnectError),
    Pending(Box<PendingConnection<Q>>),
    Over,
}

pub(super) struct PendingConnection<Q: Connectable> {
    cm: Arc<CmConnection>,
    qp: Unconnected<Q::Service>,
    rest: Q::Rest,
    more: Option<FurtherAttempts>,
    slot: WaiterSlot,
}

/// The arguments of further attempts.
struct FurtherAttempts {
    attempts: Attempts,
    connector: QpConnector,
    private_data: Vec<u8>,
}

impl FurtherAttempts {
    fn next(&mut self) -> Result<Arc<CmConnection>, ConnectError> {
        let (id, _) = self.attempts.next()?;
        let cm = CmConnection::new(&self.attempts.dispatcher, id)?;
        cm.request(&self.connector, &self.private_data)?;
        Ok(cm)
    }
}

impl<Q: Connectable> PendingConnection<Q> {
    /// Accepted by us, the peer has to confirm.
    pub(super) fn accepted(cm: Arc<CmConnection>, qp: Unconnected<Q::Service>, rest: Q::Rest) -> PendingConnection<Q> {
        PendingConnection { cm, qp, rest, more: None, slot: WaiterSlot::default() }
    }

    fn poll(&mut self, task: &mut TaskContext<'_>) -> Poll<Result<PeerReply, ConnectError>> {
        loop {
            let error = match self.cm.poll_up(task, &mut self.slot) {
                Poll::Ready(Err(error)) if is_worth_another(&error) => error,
                other => return other,
            };
            // If no other attempt is possible, the first error says more.
            match self.more.as_mut().map(FurtherAttempts::next) {
                Some(Ok(cm)) => (self.cm, self.slot) = (cm, WaiterSlot::default()),
                _ => return Poll::Ready(Err(error)),
            }
        }
    }

    fn finish(self, reply: PeerReply) -> Result<Q::Output, ConnectError> {
        let PeerEndpoint::Connected(peer) = reply.endpoint else { return Err(ConnectError::Gone(self.cm.peer_addr())) };
        let connection = Connection::new(self.qp.into_connected(peer), self.cm, reply.private_data);
        Ok(Q::finish(self.rest, connection))
    }
}

impl<Q: Connectable> Connecting<Q> {
    pub(super) fn of(begun: Result<PendingConnection<Q>, ConnectError>) -> Connecting<Q> {
        let state = match begun {
            Ok(pending) => ConnectingState::Pending(Box::new(pending)),
            Err(error) => ConnectingState::Failed(error),
        };
        Connecting { state }
    }

    /// Waits for the connection with the thread, at most `timeout`.
    ///
    /// # Errors
    /// If it could not be made, or not in time; it is given up then.
    pub fn wait(mut self, timeout: Duration) -> Result<Q::Output, ConnectError> {
        let done = park(timeout, |task| Pin::new(&mut self).poll(task));
        done.unwrap_or_else(|| Err(ConnectError::TimedOut { who: self.peer_name(), timeout }))
    }

    fn peer_name(&self) -> String {
        match &self.state {
            ConnectingState::Pending(pending) => pending.cm.peer_addr().to_string(),
            _ => "the peer".into(),
        }
    }
}

impl<Q: Connectable> Future for Connecting<Q> {
    type Output = Result<Q::Output, ConnectError>;

    /// # Panics
    /// If the result was taken already.
    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let polled = match &mut self.state {
            ConnectingState::Pending(pending) => match pending.poll(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(polled) => Some(polled),
            },
            _ => None,
        };
        Poll::Ready(match (std::mem::replace(&mut self.state, ConnectingState::Over), polled) {
            (ConnectingState::Pending(pending), Some(polled)) => polled.and_then(|reply| pending.finish(reply)),
            (ConnectingState::Failed(error), _) => Err(error),
            _ => panic!("the result of this attempt was taken already"),
        })
    }
}

impl<Q: Connectable> fmt::Debug for Connecting<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            ConnectingState::Failed(error) => write!(f, "Connecting({error})"),
            ConnectingState::Pending(pending) => write!(f, "Connecting(to {})", pending.cm.peer_addr()),
            ConnectingState::Over => f.write_str("Connecting(over)"),
        }
    }
}
