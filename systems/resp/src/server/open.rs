//! Opening and closing a door.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use longarm_kv::LocalTable;
use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustls::ServerConfig;

use super::reactor::{BELL, DoorLoop, LISTENER, MAIL};
use crate::clock::DoorClock;
use crate::door::{Door, DoorCounts, DoorSettings};
use crate::nodes::DoorNodes;
use crate::users::Users;
use crate::valkey::ValkeyListener;

/// Bytes that one read takes.
const READ_BYTES: usize = 64 << 10;

/// Settings of a door.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RespOptions {
    /// Users and their passwords. Without any, everybody may do everything.
    pub users: Users,
    /// Clients use TLS, with this certificate.
    pub tls: Option<Arc<ServerConfig>>,
    /// Connections at a time.
    pub max_clients: usize,
    /// Clients see a cluster of one node, if the server is no member of a cluster. The doors of a member show its cluster.
    pub is_cluster: bool,
    /// Doors of members that are not at this door's port of the member's host: the member's name, and the door's `host:port`.
    pub doors: Vec<(String, String)>,
    /// `host:port` where clients connect by Valkey's RDMA protocol as well. Nothing is encrypted there, also with `tls`.
    pub valkey_rdma: Option<String>,
}

impl Default for RespOptions {
    fn default() -> RespOptions {
        RespOptions {
            users: Users::default(),
            tls: None,
            max_clients: 10_000,
            is_cluster: false,
            doors: Vec::new(),
            valkey_rdma: None,
        }
    }
}

/// The reason why a door does not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RespError {
    /// The address is in use, or the system gives no sockets or threads.
    #[error("no door for Redis clients at {address}: {why}")]
    Start {
        /// The address.
        address: String,
        /// The reason.
        why: std::io::Error,
    },
    /// The table has a secret, and the door would let everybody in.
    #[error("the table {0:?} has a secret: its door for Redis clients needs a password or users")]
    NeedsPassword(String),
    /// Doors of a cluster that cannot be.
    #[error("the doors of the cluster: {0}")]
    Cluster(String),
}

/// A door for Redis clients to one table. Dropping it closes it, and all its connections.
///
/// ```no_run
/// use longarm_kv::{KvServer, TableOptions};
/// use longarm_resp::{RespOptions, RespServer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = KvServer::builder().table("default", TableOptions::default()).bind("0.0.0.0:7480")?;
/// let table = server.local_table("default").ok_or("no such table")?;
/// let door = RespServer::open(table, "127.0.0.1:6379", RespOptions::default())?;
/// println!("redis-cli -p {}", door.local_addr().port());
/// # Ok(())
/// # }
/// ```
pub struct RespServer {
    address: SocketAddr,
    valkey: Option<SocketAddr>,
    counts: Arc<Mutex<DoorCounts>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RespServer {
    /// Opens a door at an address, `host:port`.
    ///
    /// # Errors
    /// See [`RespError`].
    pub fn open(table: LocalTable, address: &str, options: RespOptions) -> Result<RespServer, RespError> {
        if table.has_secret() && !options.users.need_password() {
            return Err(RespError::NeedsPassword(table.name().into()));
        }
        let failed = |why: std::io::Error| RespError::Start { address: address.into(), why };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)
            .map_err(|error| failed(error.into()))?;
        let (counts, stopping, open) = (Arc::default(), Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let valkey = match &options.valkey_rdma {
            Some(place) => {
                let failed = |why: std::io::Error| RespError::Start { address: place.clone(), why };
                let valkey = ValkeyListener::bind(place, Arc::clone(&open), options.max_clients).map_err(failed)?;
                epoll::add(&epoll, &valkey.bell, EventData::new_u64(BELL), EventFlags::IN)
                    .map_err(|error| failed(error.into()))?;
                Some(valkey)
            }
            None => None,
        };
        let door = door(&table, local, &options)?;
        if let Some(messages) = &door.messages {
            epoll::add(&epoll, messages.bell(), EventData::new_u64(MAIL), EventFlags::IN)
                .map_err(|error| failed(error.into()))?;
        }
        let valkey_address = valkey.as_ref().map(|valkey| valkey.address);
        let reactor = DoorLoop {
            listener,
            epoll,
            door,
            table,
            tls: options.tls,
            connections: HashMap::new(),
            next_id: LISTENER,
            pending_bytes: 0,
            again: Vec::new(),
            active: Vec::new(),
            scratch: vec![0; READ_BYTES],
            counts: Arc::clone(&counts),
            stopping: Arc::clone(&stopping),
            valkey,
            open,
            tended: Instant::now(),
        };
        let thread = thread::Builder::new().name("kv-resp".into()).spawn(move || reactor.run()).map_err(failed)?;
        Ok(RespServer { address: local, valkey: valkey_address, counts, stopping, thread: Some(thread) })
    }

    /// The address at which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address at which it listens for Valkey's RDMA protocol, if it does.
    pub fn valkey_addr(&self) -> Option<SocketAddr> {
        self.valkey
    }

    /// Counts since it opened.
    pub fn counts(&self) -> DoorCounts {
        *self.counts.lock()
    }
}

fn door(table: &LocalTable, address: SocketAddr, options: &RespOptions) -> Result<Door, RespError> {
    let mut clock = DoorClock::default();
    let since_ns = table.lock().now_ns();
    clock.look(since_ns);
    let run_id: String = (0..40).map(|_| fastrand::digit(16)).collect();
    Ok(Door {
        clients: HashMap::new(),
        touched: Vec::new(),
        channels: BTreeMap::new(),
        patterns: BTreeMap::new(),
        shard_channels: BTreeMap::new(),
        watchers: HashMap::new(),
        clock,
        since_ns,
        users: options.users.clone(),
        nodes: nodes(table, address, options, &run_id)?,
        messages: table.messages().map_err(|error| RespError::Cluster(error.to_string()))?,
        settings: DoorSettings {
            address,
            max_bytes: table.max_bytes(),
            evicts: table.evicts(),
            max_clients: options.max_clients,
            table: table.name().into(),
        },
        counts: DoorCounts::default(),
        table: table.clone(),
        run_id,
    })
}

fn nodes(
    table: &LocalTable,
    address: SocketAddr,
    options: &RespOptions,
    run_id: &str,
) -> Result<Option<DoorNodes>, RespError> {
    let refused = |why: String| RespError::Cluster(why);
    let config = table.serving_right().and_then(|right| right.config());
    let mut places = Vec::new();
    for (name, place) in &options.doors {
        // Members of a cluster with backups come and go.
        let is_known = table.has_backups() || config.as_ref().is_some_and(|config| config.member(name).is_some());
        if !is_known {
            return Err(refused(format!("{name:?} is no member of the cluster")));
        }
        let parts = place.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts.ok_or_else(|| refused(format!("{place:?} is not HOST:PORT")))?;
        places.push((name.clone(), (host.trim_matches(['[', ']']).to_owned(), port)));
    }
    let nodes = DoorNodes::choose(table, options.is_cluster, &places, run_id, address.port());
    nodes.map_err(|error| refused(error.to_string()))
}

impl Drop for RespServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.thread.take().map(JoinHandle::join);
    }
}

impl std::fmt::Debug for RespServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RespServer({})", self.address)
    }
}
