//! Connections that arrive, and those that have ended.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longarm::{Connecting, Device, Incoming, Listener, Unconnected};
use rustix::event::{EventfdFlags, eventfd};

use super::wire::{ValkeyParts, ValkeyWire};

/// The time for a listener.
const BIND: Duration = Duration::from_secs(10);
/// A client that has not connected by then is dropped.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections on their way at a time.
const MOST_UNDER_WAY: usize = 64;

/// A new connection, for the door's thread.
type Accepted = Box<ValkeyWire>;

/// The listener, as the door's thread knows it.
pub(crate) struct ValkeyListener {
    pub(crate) address: SocketAddr,
    /// Readable when a connection has come.
    pub(crate) bell: Arc<OwnedFd>,
    accepted: Receiver<Accepted>,
    ended: Option<Sender<Accepted>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ValkeyListener {
    /// Listens at an address, `host:port`. `open` is the number of all connections of the door.
    pub(crate) fn bind(address: &str, open: Arc<AtomicUsize>, most: usize) -> io::Result<ValkeyListener> {
        let listener = Listener::bind(address).wait(BIND).map_err(io::Error::other)?;
        let device = listener.open_device().map_err(io::Error::other)?;
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (to_door, accepted) = channel();
        let (ended, from_door) = channel();
        let local = listener.local_addr();
        let stopping = Arc::<AtomicBool>::default();
        let acceptor = Acceptor {
            listener,
            device,
            bell: Arc::clone(&bell),
            to_door,
            from_door,
            open,
            most,
            stopping: Arc::clone(&stopping),
        };
        let thread = thread::Builder::new().name("kv-valkey".into()).spawn(move || acceptor.run())?;
        Ok(ValkeyListener { address: local, bell, accepted, ended: Some(ended), stopping, thread: Some(thread) })
    }

    /// The next connection that has come.
    pub(crate) fn next(&self) -> Option<Accepted> {
        let mut count = [0; 8];
        // Empty: another round has read it.
        let _ = rustix::io::read(&*self.bell, &mut count);
        self.accepted.try_recv().ok()
    }

    /// Gives a connection to the thread that ends it.
    pub(crate) fn end(&self, wire: Accepted) {
        if let Some(ended) = &self.ended {
            // Without that thread the connection ends here.
            let _ = ended.send(wire);
        }
    }
}

impl Drop for ValkeyListener {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.ended = None;
        self.thread.take().map(JoinHandle::join);
    }
}

/// The thread that accepts connections, and ends those that the door gives back.
struct Acceptor {
    listener: Listener,
    device: Device,
    bell: Arc<OwnedFd>,
    to_door: Sender<Accepted>,
    from_door: Receiver<Accepted>,
    open: Arc<AtomicUsize>,
    most: usize,
    stopping: Arc<AtomicBool>,
}

/// A connection on its way.
struct ArrivingClient {
    connecting: Pin<Box<Connecting<Unconnected>>>,
    parts: Option<ValkeyParts>,
    until: Instant,
}

impl Acceptor {
    fn run(self) {
        let (mut arriving, mut ending): (Vec<ArrivingClient>, Vec<Accepted>) = (Vec::new(), Vec::new());
        while !self.stopping.load(Ordering::Acquire) {
            let wait = if arriving.is_empty() { Duration::from_millis(20) } else { Duration::from_micros(200) };
            if let Ok(incoming) = self.listener.incoming().wait(wait) {
                self.accept(incoming, &mut arriving);
            }
            arriving.retain_mut(|arriving| !self.advance(arriving));
            while let Ok(wire) = self.from_door.try_recv() {
                ending.push(wire);
            }
            // A peer that stands still in an access is asked again later.
            ending.retain(|wire| !wire.end());
        }
    }

    fn accept(&self, incoming: Incoming, arriving: &mut Vec<ArrivingClient>) {
        if arriving.len() >= MOST_UNDER_WAY || self.open.load(Ordering::Relaxed) + arriving.len() >= self.most {
            // The peer may have given up.
            let _ = incoming.reject(b"max number of clients reached");
            return;
        }
        match ValkeyParts::make(&self.device) {
            Ok((parts, qp)) => {
                let connecting = Box::pin(incoming.accept(qp, b""));
                arriving.push(ArrivingClient { connecting, parts: Some(parts), until: Instant::now() + PATIENCE });
            }
            Err(error) => drop(incoming.reject(error.to_string().get(..100).unwrap_or("no memory").as_bytes())),
        }
    }

    /// Returns true if the connection stands, or will not.
    fn advance(&self, arriving: &mut ArrivingClient) -> bool {
        match arriving.connecting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Instant::now() >= arriving.until,
            Poll::Ready(Err(_)) => true,
            Poll::Ready(Ok(connection)) => {
                if let Some(parts) = arriving.parts.take() {
                    // A door that has closed takes none.
                    let _ = self.to_door.send(Box::new(parts.into_wire(connection)));
                    let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
                }
                true
            }
        }
    }
}
