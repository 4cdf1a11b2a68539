//! Pending connections.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use device::Provider;

use super::attempt::{AttemptState, PendingAttempt};
use super::attempts::{Attempts, blocks};
use super::cm_connection::{CmConnection, PeerEndpoint, PeerReply};
use super::connectable::Demands;
use super::waiters::WaiterSlot;
use super::{Connectable, Connection, Route, Target};
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
/// answers. Neither the call nor the future blocks: another thread looks names up.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let domain = longarm::Device::open()?.protection_domain()?;
/// # let cq = domain.device().completion_queue()?;
/// let qp = longarm::connect("host.example:7471", domain.rc(&cq), b"hello").await?;
/// println!("connected to {}: {:?}", qp.peer_addr(), qp.private_data());
/// # Ok(())
/// # }
/// ```
pub fn connect<Q: Connectable>(to: impl Into<Target>, qp: Q, private_data: &[u8]) -> Connecting<Q> {
    let (to, private_data) = (to.into(), private_data.to_vec());
    let name = to.to_string();
    let may_block = blocks(&to, qp.demands().provider);
    Connecting { to: name, state: AttemptState::start(may_block, move || begin(to, qp, private_data)) }
}

fn begin<Q: Connectable>(to: Target, qp: Q, private_data: Vec<u8>) -> Result<PendingConnection<Q>, ConnectError> {
    let Demands { provider, device, source } = qp.demands();
    let mut attempts = Attempts::of(to, Q::Service::TYPE, provider)?.from(source);
    attempts.on(device);
    let (id, binding) = attempts.next()?;
    attempts.on(Some(binding.device.clone()));
    let (qp, rest) = qp.place(&binding.device)?;
    let cm = CmConnection::new(&attempts.dispatcher, id)?;
    let connector = qp.connector();
    cm.request(&connector, &private_data)?;
    let blocks = provider != Provider::Longarm;
    let more = FurtherAttempts { attempts, connector, private_data, blocks };
    Ok(PendingConnection { cm, qp, rest, more: Some(more), slot: WaiterSlot::default() })
}

impl Endpoint<Connection<Rc>> {
    /// Connects to a program that listens at an address, on the device that leads there, and hands it up to
    /// 56 bytes of private data. To post receives before, begin with [`Route::rc`].
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use longarm::Endpoint;
    /// let endpoint = Endpoint::connect("host.example:7471", b"hello").wait(Duration::from_secs(5))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect(to: impl Into<Target>, private_data: &[u8]) -> Connecting<Endpoint<Unconnected<Rc>>> {
        let (to, private_data) = (to.into(), private_data.to_vec());
        let name = to.to_string();
        let state = AttemptState::start(true, move || {
            let route = Route::find(None, to)?;
            let endpoint = route.rc()?;
            begin((&route).into(), endpoint, private_data)
        });
        Connecting { to: name, state }
    }
}

/// A pending connection: a future of the connection, or of an
/// [`Endpoint`](crate::Endpoint) with one, if it began as an endpoint.
///
/// The connection comes about even if nobody polls the future. Dropping it ends the attempt.
#[must_use = "dropping it ends the attempt"]
pub struct Connecting<Q: Connectable> {
    to: String,
    state: AttemptState<PendingConnection<Q>>,
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
    /// An attempt blocks its thread.
    blocks: bool,
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
}

impl<Q: Connectable> PendingAttempt for PendingConnection<Q> {
    type Output = Q::Output;

    fn waiting(&mut self) -> (&CmConnection, &mut WaiterSlot) {
        (&self.cm, &mut self.slot)
    }

    fn has_more(&self) -> bool {
        self.more.as_ref().is_some_and(|more| !more.attempts.is_over())
    }

    fn blocks(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.blocks)
    }

    fn give_up(&self) -> bool {
        self.cm.give_up()
    }

    fn again(mut self) -> Result<PendingConnection<Q>, ConnectError> {
        let next = self.more.as_mut().map(FurtherAttempts::next);
        let cm = next.unwrap_or_else(|| Err(ConnectError::Gone(self.cm.peer_addr())))?;
        Ok(PendingConnection { cm, slot: WaiterSlot::default(), ..self })
    }

    fn finish(self, reply: PeerReply) -> Result<Q::Output, ConnectError> {
        let PeerEndpoint::Connected(peer) = reply.endpoint else { return Err(ConnectError::Gone(self.cm.peer_addr())) };
        let connection = Connection::new(self.qp.into_connected(peer), self.cm, reply.private_data);
        Ok(Q::finish(self.rest, connection))
    }
}

impl<Q: Connectable> Connecting<Q> {
    pub(super) fn of(to: SocketAddr, begun: Result<PendingConnection<Q>, ConnectError>) -> Connecting<Q> {
        Connecting { to: to.to_string(), state: AttemptState::of(begun) }
    }

    /// Waits for the connection with the thread, at most `timeout`.
    ///
    /// # Errors
    /// If it could not be made, or not in time; it is given up then.
    pub fn wait(mut self, timeout: Duration) -> Result<Q::Output, ConnectError> {
        let done = park(timeout, |task| Pin::new(&mut self).poll(task));
        done.unwrap_or_else(|| Err(ConnectError::TimedOut { who: self.to, timeout }))
    }
}

impl<Q: Connectable> Future for Connecting<Q> {
    type Output = Result<Q::Output, ConnectError>;

    /// # Panics
    /// If the result was taken already.
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.state.poll(task)
    }
}

impl<Q: Connectable> fmt::Debug for Connecting<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            AttemptState::Failed(error) => write!(f, "Connecting({error})"),
            AttemptState::Over => f.write_str("Connecting(over)"),
            _ => write!(f, "Connecting(to {})", self.to),
        }
    }
}
