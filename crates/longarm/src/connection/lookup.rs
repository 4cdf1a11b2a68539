//! Lookups of the destinations of datagrams.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use device::Provider;
use transport::QpType;

use super::Target;
use super::attempt::{AttemptState, PendingAttempt};
use super::attempts::{Attempts, blocks};
use super::cm_connection::{CmConnection, PeerEndpoint, PeerReply};
use super::waiters::WaiterSlot;
use crate::address::AddressHandle;
use crate::error::ConnectError;
use crate::qp::UdQueuePair;
use crate::wait::park;

impl UdQueuePair {
    /// Asks who [listens](crate::Listener::bind_ud) at an address where datagrams to it go, and hands it up to
    /// 180 bytes of private data. The question goes out now; the result is a future.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use longarm::Route;
    /// # const SECOND: Duration = Duration::from_secs(1);
    /// let endpoint = Route::to("192.0.2.7:7471").wait(SECOND)?.ud()?; // on the device that leads there
    /// let found = endpoint.look_up("192.0.2.7:7471", b"who?").wait(SECOND)?;
    /// endpoint.send_inline_to(b"hello", &found.address).wait(SECOND)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn look_up(&self, to: impl Into<Target>, private_data: &[u8]) -> Lookup {
        let (to, private_data) = (to.into(), private_data.to_vec());
        let (provider, device) = (self.device().provider(), self.device().info().name);
        let name = to.to_string();
        let state = AttemptState::start(blocks(&to, provider), move || {
            let mut attempts = Attempts::of(to, QpType::Ud, provider)?;
            attempts.on(Some(device));
            let cm = ask(&mut attempts, &private_data)?;
            let blocks = provider != Provider::Longarm;
            Ok(PendingLookup { cm, attempts, private_data, blocks, slot: WaiterSlot::default() })
        });
        Lookup { to: name, state }
    }
}

fn ask(attempts: &mut Attempts, private_data: &[u8]) -> Result<Arc<CmConnection>, ConnectError> {
    let (id, _) = attempts.next()?;
    let cm = CmConnection::new(&attempts.dispatcher, id)?;
    cm.look_up(private_data)?;
    Ok(cm)
}

/// The result of a lookup.
///
/// It comes from [`UdQueuePair::look_up`](crate::UdQueuePair).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdPeer {
    /// The destination for datagrams.
    pub address: AddressHandle,
    /// The address of the program that answered.
    pub peer_addr: SocketAddr,
    /// The peer's private data, followed by zeros: 136 bytes.
    pub private_data: Vec<u8>,
}

/// A pending lookup: a future of its result, [`UdPeer`].
///
/// It comes from [`UdQueuePair::look_up`](crate::UdQueuePair).
#[must_use = "dropping it ends the attempt"]
pub struct Lookup {
    to: String,
    state: AttemptState<PendingLookup>,
}

struct PendingLookup {
    cm: Arc<CmConnection>,
    attempts: Attempts,
    private_data: Vec<u8>,
    /// An attempt blocks its thread.
    blocks: bool,
    slot: WaiterSlot,
}

impl PendingAttempt for PendingLookup {
    type Output = UdPeer;

    fn waiting(&mut self) -> (&CmConnection, &mut WaiterSlot) {
        (&self.cm, &mut self.slot)
    }

    fn has_more(&self) -> bool {
        !self.attempts.is_over()
    }

    fn blocks(&self) -> bool {
        self.blocks
    }

    fn give_up(&self) -> bool {
        self.cm.give_up()
    }

    fn again(mut self) -> Result<PendingLookup, ConnectError> {
        let cm = ask(&mut self.attempts, &self.private_data)?;
        Ok(PendingLookup { cm, slot: WaiterSlot::default(), ..self })
    }

    fn finish(self, reply: PeerReply) -> Result<UdPeer, ConnectError> {
        let peer_addr = self.cm.peer_addr();
        match reply.endpoint {
            PeerEndpoint::Datagrams(address) => Ok(UdPeer { address, peer_addr, private_data: reply.private_data }),
            PeerEndpoint::Connected(_) => Err(ConnectError::Gone(peer_addr)),
        }
    }
}

impl Lookup {
    /// Waits for the answer with the thread, at most `timeout`.
    ///
    /// # Errors
    /// If nobody answers in time, or the answer is no.
    pub fn wait(mut self, timeout: Duration) -> Result<UdPeer, ConnectError> {
        let done = park(timeout, |task| Pin::new(&mut self).poll(task));
        done.unwrap_or(Err(ConnectError::TimedOut { who: self.to, timeout }))
    }
}

impl Future for Lookup {
    type Output = Result<UdPeer, ConnectError>;

    /// # Panics
    /// If the result was taken already.
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.state.poll(task)
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            AttemptState::Failed(error) => write!(f, "Lookup({error})"),
            AttemptState::Over => f.write_str("Lookup(over)"),
            _ => write!(f, "Lookup(at {})", self.to),
        }
    }
}
