//! Windows of connections: who may connect is decided elsewhere, and so is what each connection opens.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use longarm::{
    Access, BoundWindow, CompletionQueue, Connecting, Connection, Incoming, Listener, MemoryRegion, ProtectionDomain,
    QpBuilder, RemoteKey,
};
use parking_lot::Mutex;

use crate::exposure::error::ExposureError;

/// The secret number by which a peer names its right to connect.
pub type ConnectionToken = [u8; 16];

/// A peer that has not connected by then is dropped.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections on their way at a time.
const MOST_UNDER_WAY: usize = 256;
/// Rights at a time.
const MOST_RIGHTS: usize = 1 << 16;
/// Windows of one right.
const MOST_WINDOWS: usize = 1 << 12;

/// The private data with which a peer connects to a [`WindowKeeper`]: its token, and a number that it gives to this attempt.
///
/// ```
/// let data = longarm_remote::connection_data(&[7; 16], 1);
/// assert_eq!(data.len(), 24);
/// ```
pub fn connection_data(token: &ConnectionToken, attempt: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(token);
    bytes[16..].copy_from_slice(&attempt.to_le_bytes());
    bytes
}

fn parse(bytes: &[u8]) -> Option<(ConnectionToken, u64)> {
    let (token, rest) = bytes.split_first_chunk::<16>()?;
    let (attempt, _) = rest.split_first_chunk::<8>()?;
    Some((*token, u64::from_le_bytes(*attempt)))
}

/// The memory that a window opens, and the rights that it gives.
#[derive(Clone, Debug)]
pub struct WindowSpec {
    /// The region.
    pub region: Arc<MemoryRegion>,
    /// Part of it, in bytes.
    pub range: Range<u64>,
    /// Rights of the peer.
    pub access: Access,
}

/// A window of a connection that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenWindow {
    /// The key, which is good for that connection only.
    pub key: RemoteKey,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The number that the peer gave to its attempt to connect.
    pub attempt: u64,
}

/// Accepts the connections of peers that have a right, and binds the windows of that right for each.
///
/// The keys are good for one connection each (windows of type 2), and end when their right does.
pub struct WindowKeeper {
    listener: Listener,
    domain: ProtectionDomain,
    queue: CompletionQueue,
    rights: Mutex<HashMap<ConnectionToken, PeerRight>>,
    arriving: Mutex<Vec<ArrivingPeer>>,
}

#[derive(Default)]
struct PeerRight {
    specs: HashMap<u32, WindowSpec>,
    end: Option<PeerEnd>,
}

/// Our end of a peer's connection. The windows go first.
struct PeerEnd {
    windows: HashMap<u32, BoundWindow<'static>>,
    connection: Connection,
    attempt: u64,
}

struct ArrivingPeer {
    connecting: Pin<Box<Connecting<QpBuilder>>>,
    token: ConnectionToken,
    attempt: u64,
    until: Instant,
}

impl WindowKeeper {
    /// Listens at `host`, or another address, at a port; zero lets the system choose one.
    ///
    /// # Errors
    /// If nobody can listen there, or there is no device.
    pub fn bind(host: &str, port: u16) -> Result<WindowKeeper, ExposureError> {
        let listener =
            Listener::bind(format!("{host}:{port}").as_str()).wait(PATIENCE).map_err(ExposureError::start)?;
        let device = listener.open_device().map_err(ExposureError::start)?;
        let domain = device.protection_domain().map_err(ExposureError::start)?;
        let queue = device.completion_queue().map_err(ExposureError::start)?;
        Ok(WindowKeeper { listener, domain, queue, rights: Mutex::default(), arriving: Mutex::default() })
    }

    /// The address for peers.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// The domain to which the memory must belong.
    pub fn domain(&self) -> &ProtectionDomain {
        &self.domain
    }

    /// Lets a peer connect that has this token.
    ///
    /// # Errors
    /// If there are too many.
    pub fn allow(&self, token: ConnectionToken) -> Result<(), ExposureError> {
        let mut rights = self.rights.lock();
        if rights.len() >= MOST_RIGHTS && !rights.contains_key(&token) {
            return Err(ExposureError::Refused(format!("there are {MOST_RIGHTS} rights, and no more are given")));
        }
        rights.entry(token).or_default();
        Ok(())
    }

    /// Adds a window to a right, under a number, in the place of the one that had it. A connection that stands gets it now.
    ///
    /// # Errors
    /// If there is no such right, it has too many windows, or the window cannot be bound.
    pub fn open(&self, token: &ConnectionToken, number: u32, spec: WindowSpec) -> Result<(), ExposureError> {
        let mut rights = self.rights.lock();
        let right = rights.get_mut(token).ok_or_else(|| ExposureError::Refused("no such right".into()))?;
        if right.specs.len() >= MOST_WINDOWS && !right.specs.contains_key(&number) {
            return Err(ExposureError::Refused(format!("a right has at most {MOST_WINDOWS} windows")));
        }
        if let Some(end) = &mut right.end {
            end.windows.remove(&number);
            let window = bind(&end.connection, &spec)?;
            end.windows.insert(number, window);
        }
        right.specs.insert(number, spec);
        Ok(())
    }

    /// Takes a window away: READs and WRITEs with its key fail from now on.
    pub fn close(&self, token: &ConnectionToken, number: u32) {
        if let Some(right) = self.rights.lock().get_mut(token) {
            right.specs.remove(&number);
            if let Some(end) = &mut right.end {
                end.windows.remove(&number);
            }
        }
    }

    /// Takes a right away, with all its windows and its connection.
    pub fn revoke(&self, token: &ConnectionToken) {
        let revoked = self.rights.lock().remove(token);
        // The connection ends without the lock.
        drop(revoked);
    }

    /// The window with that number, if the peer's connection stands.
    pub fn find(&self, token: &ConnectionToken, number: u32) -> Option<OpenWindow> {
        let rights = self.rights.lock();
        let end = rights.get(token)?.end.as_ref().filter(|end| end.connection.is_connected())?;
        let key = end.windows.get(&number)?.key();
        Some(OpenWindow { key, peer: end.connection.peer_addr(), attempt: end.attempt })
    }

    /// Connections that stand. Drops the windows of those that have ended.
    pub fn connected(&self) -> usize {
        let (mut ended, mut count) = (Vec::new(), 0);
        for right in self.rights.lock().values_mut() {
            match &right.end {
                Some(end) if end.connection.is_connected() => count += 1,
                _ => ended.extend(right.end.take()),
            }
        }
        count
    }

    /// Accepts connections for about so long. One thread calls it again and again.
    pub fn step(&self, wait: Duration) {
        let mut arriving = self.arriving.lock();
        let wait = if arriving.is_empty() { wait } else { wait.min(Duration::from_micros(200)) };
        if let Ok(incoming) = self.listener.incoming().wait(wait) {
            self.accept(incoming, &mut arriving);
        }
        arriving.retain_mut(|arriving| !self.advance(arriving));
    }

    fn accept(&self, incoming: Incoming, arriving: &mut Vec<ArrivingPeer>) {
        let known = parse(incoming.private_data()).filter(|(token, _)| self.rights.lock().contains_key(token));
        match known {
            Some((token, attempt)) if arriving.len() < MOST_UNDER_WAY => {
                // The windows decide what of this a peer may do, and where.
                let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
                let qp = self.domain.rc(&self.queue).remote_access(access);
                let connecting = Box::pin(incoming.accept(qp, b""));
                arriving.push(ArrivingPeer { connecting, token, attempt, until: Instant::now() + PATIENCE });
            }
            // The peer may have given up.
            _ => drop(incoming.reject(b"no such right")),
        }
    }

    /// Returns true if the connection stands, or will not.
    fn advance(&self, arriving: &mut ArrivingPeer) -> bool {
        match arriving.connecting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Instant::now() >= arriving.until,
            Poll::Ready(Err(_)) => true,
            Poll::Ready(Ok(connection)) => {
                self.arrived(&arriving.token, arriving.attempt, connection);
                true
            }
        }
    }

    fn arrived(&self, token: &ConnectionToken, attempt: u64, connection: Connection) {
        let mut rights = self.rights.lock();
        // The right may have been taken away meanwhile: then the connection ends here.
        let Some(right) = rights.get_mut(token) else { return };
        let bound = right.specs.iter().map(|(number, spec)| Ok((*number, bind(&connection, spec)?)));
        let bound: Result<_, ExposureError> = bound.collect();
        if let Ok(windows) = bound {
            let before = right.end.replace(PeerEnd { windows, connection, attempt });
            drop(rights);
            drop(before);
        }
    }
}

fn bind(connection: &Connection, spec: &WindowSpec) -> Result<BoundWindow<'static>, ExposureError> {
    let refused = |error: &dyn std::fmt::Display| ExposureError::Refused(error.to_string());
    let window = spec.region.owned_window(spec.range.clone(), spec.access).map_err(|error| refused(&error))?;
    connection.bind(window).wait(PATIENCE).map_err(|failure| refused(&failure.into_error()))
}

impl std::fmt::Debug for WindowKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WindowKeeper({}, {} rights)", self.local_addr(), self.rights.lock().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_come_back_and_short_ones_do_not() {
        let bytes = connection_data(&[7; 16], 9);
        assert_eq!(parse(&bytes), Some(([7; 16], 9)));
        assert_eq!((parse(&bytes[..23]), parse(b"")), (None, None));
        // The connection manager fills private data up with zeros.
        assert_eq!(parse(&[&bytes[..], &[0; 32]].concat()), Some(([7; 16], 9)));
    }
}
