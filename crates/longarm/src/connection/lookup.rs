//! Lookups of the destinations of datagrams.

use std::fmt;
use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use transport::QpType;

use super::attempts::{Attempts, is_worth_another};
use super::cm_connection::{CmConnection, PeerEndpoint, PeerReply};
use super::waiters::WaiterSlot;
use crate::address::AddressHandle;
use crate::context::Context;
use crate::error::ConnectError;
use crate::qp::UdEndpoint;
use crate::wait::park;

impl UdEndpoint {
    /// Asks who [listens](crate::Listener::bind_ud) at an address where datagrams to it go, and hands it up to
    /// 180 bytes of private data. The question goes out now; the result is a future.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use longarm::Route;
    /// # const SECOND: Duration = Duration::from_secs(1);
    /// let endpoint = Route::to("192.0.2.7:7471")?.ud()?;              // on the device that leads there
    /// let found = endpoint.look_up("192.0.2.7:7471", b"who?").wait(SECOND)?;
    /// endpoint.send_inline_to(b"hello", &found.address).wait(SECOND)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn look_up(&self, to: impl ToSocketAddrs, private_data: &[u8]) -> Lookup {
        look_up(to, self.context(), private_data)
    }
}

fn look_up(to: impl ToSocketAddrs, context: &Context, private_data: &[u8]) -> Lookup {
    let begin = || {
        let mut attempts = Attempts::of(to, QpType::Ud, Some(context.provider()))?;
        attempts.on(Some(context.info().name));
        let cm = ask(&mut attempts, private_data)?;
        Ok(PendingLookup { cm, attempts, private_data: private_data.to_vec(), slot: WaiterSlot::default() })
    };
    Lookup { state: begin().map(Box::new).map_err(Some) }
}

fn ask(attempts: &mut Attempts, private_data: &[u8]) -> Result<Arc<CmConnection>, ConnectError> {
    let (id, _) = attempts.next()?;
    let cm = CmConnection::new(&attempts.dispatcher, id)?;
    cm.look_up(private_data)?;
    Ok(cm)
}

/// The result of a lookup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The destination for datagrams.
    pub address: AddressHandle,
    /// The address of the program that answered.
    pub peer_addr: SocketAddr,
    /// The peer's private data, followed by zeros: 136 bytes.
    pub private_data: Vec<u8>,
}

/// A pending lookup: a future of its result, [`Found`].
#[must_use = "dropping it ends the attempt"]
pub struct Lookup {
    state: Result<Box<PendingLookup>, Option<ConnectError>>,
}

struct PendingLookup {
    cm: Arc<CmConnection>,
    attempts: Attempts,
    private_data: Vec<u8>,
    slot: WaiterSlot,
}

impl PendingLookup {
    fn poll(&mut self, task: &mut TaskContext<'_>) -> Poll<Result<Found, ConnectError>> {
        loop {
            let error = match self.cm.poll_up(task, &mut self.slot) {
                Poll::Ready(Err(error)) if is_worth_another(&error) => error,
                other => return other.map(|reply| self.found(reply?)),
            };
            match ask(&mut self.attempts, &self.private_data) {
                Ok(cm) => (self.cm, self.slot) = (cm, WaiterSlot::default()),
                Err(_) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn found(&self, reply: PeerReply) -> Result<Found, ConnectError> {
        let peer_addr = self.cm.peer_addr();
        match reply.endpoint {
            PeerEndpoint::Datagrams(address) => Ok(Found { address, peer_addr, private_data: reply.private_data }),
            PeerEndpoint::Connected(_) => Err(ConnectError::Gone(peer_addr)),
        }
    }
}

impl Lookup {
    /// Waits for the answer with the thread, at most `timeout`.
    ///
    /// # Errors
    /// If nobody answers in time, or the answer is no.
    pub fn wait(mut self, timeout: Duration) -> Result<Found, ConnectError> {
        let done = park(timeout, |task| Pin::new(&mut self).poll(task));
        let who = || self.state.as_ref().map_or("the peer".into(), |asked| asked.cm.peer_addr().to_string());
        done.unwrap_or_else(|| Err(ConnectError::TimedOut { who: who(), timeout }))
    }
}

impl Future for Lookup {
    type Output = Result<Found, ConnectError>;

    /// # Panics
    /// If the result was taken already.
    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let polled = match &mut self.state {
            Ok(pending) => pending.poll(task),
            Err(error) => Poll::Ready(Err(error.take().expect("the result was not taken already"))),
        };
        if polled.is_ready() {
            self.state = Err(None);
        }
        polled
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            Ok(pending) => write!(f, "Lookup(at {})", pending.cm.peer_addr()),
            Err(error) => write!(f, "Lookup({error:?})"),
        }
    }
}
