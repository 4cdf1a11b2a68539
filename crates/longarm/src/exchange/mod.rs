//! Connecting two queue pairs by way of a small TCP exchange.
//!
//! Before they are connected, queue pairs have to learn each other's addresses in some other
//! way. This is one: a TCP connection that carries the two [`ConnectionInfo`]s, and a few
//! bytes of the program's own in each direction, for instance [`RemoteKey`](crate::RemoteKey)s.
//! It ends when both queue pairs can send and receive.
//!
//! ```text
//!  connect                                  accept
//!     │ ── offer: address, bytes ──────────────► │ connects its queue pair
//!     │ ◄───────────── answer: address, bytes ── │
//!     │ connects its queue pair                  │
//!     │ ── ready ──────────────────────────────► │
//! ```
//!
//! ```no_run
//! # use std::time::Duration;
//! # use longarm::{exchange, Context};
//! # let domain = Context::open()?.protection_domain()?;
//! # let cq = domain.context().completion_queue()?;
//! let patience = Duration::from_secs(5);
//!
//! // one side
//! let listener = exchange::listen("0.0.0.0:7471")?;
//! let (qp, hello) = listener.accept(domain.rc(&cq).build()?, b"welcome", patience)?;
//!
//! // the other
//! let (qp, hello) = exchange::connect("host:7471", domain.rc(&cq).build()?, b"hi", patience)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Whoever can reach the port can connect: it is meant for trusted networks, for tests and for
//! examples. Strangers cost little: sizes and times are bounded, and [`Listener::accept`] passes
//! over those who do not speak the exchange.

mod frame;
mod session;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::descriptor::wait_readable;
use crate::error::ConnectError;
use crate::qp::{Connected, ConnectionInfo, QueuePair, Unconnected};
use frame::{Frame, Greeting};
use session::Session;

pub use frame::MAX_BLOB_BYTES;

/// How long one stranger may take before the next one is listened to.
const STRANGER_PATIENCE: Duration = Duration::from_secs(2);
/// Between attempts to reach a listener that is not there yet.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Starts to listen for peers.
///
/// # Errors
/// If the address cannot be bound.
pub fn listen(address: impl ToSocketAddrs) -> io::Result<Listener> {
    let tcp = TcpListener::bind(address)?;
    tcp.set_nonblocking(true)?;
    Ok(Listener { tcp })
}

/// Connects `qp` to a queue pair whose program listens at `address`, and hands it `blob`.
/// Returns the connected queue pair and the peer's bytes.
///
/// A listener that is not there yet is waited for. If the device has the address that TCP uses,
/// the queue pair uses it too.
///
/// # Errors
/// If there is no peer in time, it refuses, or it speaks something else.
pub fn connect<S: Connected>(
    address: impl ToSocketAddrs,
    mut qp: Unconnected<S>,
    blob: &[u8],
    timeout: Duration,
) -> Result<(QueuePair<S>, Vec<u8>), ConnectError> {
    frame::check_blob(blob)?;
    let deadline = Deadline::after(timeout);
    let mut session = Session::new(reach(&address, &deadline)?, deadline)?;
    session.prefer_own_address(&mut qp);
    let greeting = Greeting { info: qp.address(), blob: blob.to_vec() };
    session.send(&Frame::Offer(greeting))?;
    let Greeting { info, blob } = match session.receive()? {
        Frame::Answer(greeting) => greeting,
        Frame::Refuse(why) => return Err(ConnectError::Refused(why)),
        _ => return Err(session.unexpected()),
    };
    match qp.connect(&info) {
        Ok(qp) => {
            session.send(&Frame::Ready)?;
            Ok((qp, blob))
        }
        Err(error) => Err(session.refuse(error)),
    }
}

/// Tries every address of the name until one answers.
fn reach(address: &impl ToSocketAddrs, deadline: &Deadline) -> Result<TcpStream, ConnectError> {
    loop {
        let error = match reach_once(address, deadline) {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        let patient = error.kind() == io::ErrorKind::ConnectionRefused;
        let left = deadline.left("a listener")?;
        if !patient {
            return Err(ConnectError::Exchange("the listener".into(), error));
        }
        std::thread::sleep(RETRY_PAUSE.min(left));
    }
}

fn reach_once(address: &impl ToSocketAddrs, deadline: &Deadline) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        let left = deadline.left("a listener").unwrap_or(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Listens for peers that want to [`connect`].
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
}

impl Listener {
    /// Where it listens; of interest if the port was chosen by the system.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Waits for a peer and connects `qp` to it, handing it `blob`. Returns the connected queue
    /// pair and the peer's bytes.
    ///
    /// Those who do not speak the exchange, or offer another service, are refused and passed
    /// over.
    ///
    /// # Errors
    /// If there is no peer in time, or connecting to it fails.
    pub fn accept<S: Connected>(
        &self,
        qp: Unconnected<S>,
        blob: &[u8],
        timeout: Duration,
    ) -> Result<(QueuePair<S>, Vec<u8>), ConnectError> {
        frame::check_blob(blob)?;
        let start = Instant::now();
        loop {
            match self.next(timeout.saturating_sub(start.elapsed())) {
                Ok(incoming) if incoming.peer().service() != S::TYPE => {
                    incoming.refuse(&format!("this side offers {:?}", S::TYPE));
                }
                Ok(incoming) => {
                    let theirs = incoming.blob().to_vec();
                    return Ok((incoming.accept(qp, blob)?, theirs));
                }
                Err(error) if start.elapsed() < timeout && is_stranger(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the next peer, to look at its offer before it is accepted.
    ///
    /// # Errors
    /// If there is no peer in time, or the next one does not speak the exchange.
    pub fn next(&self, timeout: Duration) -> Result<Incoming, ConnectError> {
        let deadline = Deadline::after(timeout);
        let stream = self.next_stream(&deadline)?;
        let patience = deadline.left("a peer")?.min(STRANGER_PATIENCE);
        let mut session = Session::new(stream, Deadline::after(patience))?;
        match session.receive()? {
            Frame::Offer(greeting) => Ok(Incoming { session, greeting }),
            _ => Err(session.unexpected()),
        }
    }

    fn next_stream(&self, deadline: &Deadline) -> Result<TcpStream, ConnectError> {
        let failed = |error| ConnectError::Exchange("a peer".into(), error);
        loop {
            match self.tcp.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(failed)?;
                    return Ok(stream);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.left("a peer")?;
                    wait_readable(self.tcp.as_fd(), left).map_err(failed)?;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

fn is_stranger(error: &ConnectError) -> bool {
    matches!(
        error,
        ConnectError::Protocol(..)
            | ConnectError::Malformed(_)
            | ConnectError::TimedOut { .. }
            | ConnectError::Exchange(..)
    )
}

/// A peer that wants to connect.
#[derive(Debug)]
pub struct Incoming {
    session: Session,
    greeting: Greeting,
}

impl Incoming {
    /// Its queue pair.
    pub fn peer(&self) -> &ConnectionInfo {
        &self.greeting.info
    }

    /// The bytes that it has sent.
    pub fn blob(&self) -> &[u8] {
        &self.greeting.blob
    }

    /// Connects `qp` to it and hands it `blob`.
    ///
    /// # Errors
    /// If the two do not fit together, or the peer has gone.
    pub fn accept<S: Connected>(mut self, mut qp: Unconnected<S>, blob: &[u8]) -> Result<QueuePair<S>, ConnectError> {
        frame::check_blob(blob)?;
        self.session.prefer_own_address(&mut qp);
        let info = qp.address();
        let qp = match qp.connect(&self.greeting.info) {
            Ok(qp) => qp,
            Err(error) => return Err(self.session.refuse(error)),
        };
        self.session.send(&Frame::Answer(Greeting { info, blob: blob.to_vec() }))?;
        match self.session.receive()? {
            Frame::Ready => Ok(qp),
            Frame::Refuse(why) => Err(ConnectError::Refused(why)),
            _ => Err(self.session.unexpected()),
        }
    }

    /// Sends it away, with a reason in words.
    pub fn refuse(mut self, why: &str) {
        // It may have gone already.
        let _ = self.session.send(&Frame::refusal(why));
    }
}

/// When the patience ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    start: Instant,
    timeout: Duration,
}

impl Deadline {
    fn after(timeout: Duration) -> Deadline {
        Deadline { start: Instant::now(), timeout }
    }

    /// What is left; an error if nothing is.
    fn left(&self, who: &str) -> Result<Duration, ConnectError> {
        let left = self.timeout.saturating_sub(self.start.elapsed());
        match left.is_zero() {
            false => Ok(left),
            true => Err(ConnectError::TimedOut { who: who.to_owned(), timeout: self.timeout }),
        }
    }
}

#[cfg(test)]
mod tests;
