//! The hub itself: a process with one thread that waits for messages.
//!
//! ```text
//!   server          the event loop: accepts, reads, sends, keeps time
//!     ├─ listener      the rendezvous socket and the lock
//!     ├─ clients       one connection per client, each with its unsent messages
//!     ├─ epoll_set     the descriptors that the thread waits on
//!     └─ hub           takes each request to the component that serves it
//!          ├─ udp_port        slot_group (sockets, keeper, slot_table), slot0 (QP1 in)
//!          ├─ attachments     the slots and files of attached clients
//!          ├─ introductions   the pairs of clients that share memory
//!          ├─ relay           ports, managers, early_requests, closing, gsi (QP1 out)
//!          └─ devices         the network interfaces as RDMA devices
//! ```
//!
//! Imports point down only. A component owns its state and returns what should happen (a reply,
//! a MAD for some clients, an introduction to send). `hub` queues that with `clients`, and `server` sends it.
//!
//! The hub may be killed at any time, as all that it knows is known elsewhere, too. Slots live in
//! the kernel and with their owners, devices in the kernel, and the lock ends with the process. A
//! new hub takes over the port with the help of the first client that comes back (see
//! `keeper`).
//!
//! Outside this module: it handles no payload. It carries the messages of the connection manager
//! (MADs), and reads of them only which process they are for.

mod attachments;
mod clients;
mod closing;
mod devices;
mod early_requests;
mod ephemeral;
mod epoll_set;
mod error;
mod foreign_sockets;
mod gsi;
mod hub;
mod identity;
mod introductions;
mod keeper;
mod listener;
mod log_file;
mod managers;
mod options;
mod ports;
mod recipient;
mod relay;
mod response;
mod server;
mod slot0;
mod slot_group;
mod slot_table;
mod status;
mod udp_port;

pub use error::HubError;
pub(crate) use options::READY;
pub use options::{Announce, DEFAULT_IDLE_TIMEOUT, DaemonOptions};

use crate::rendezvous::{HubLock, Rendezvous};
use crate::sys;
use rustix::process::{Resource, Rlimit};
use server::Server;
use std::thread;
use std::time::{Duration, Instant};

/// Runs the hub until it is idle for too long or told to exit. Returns immediately if another
/// hub already serves.
///
/// # Errors
/// See [`HubError`].
pub fn run(options: &DaemonOptions) -> Result<(), HubError> {
    // If a limit forbids a file, writing to it fails, and the hub continues.
    sys::ignore_file_size_signal();
    let rendezvous = Rendezvous::find(options.runtime_dir.as_deref())?;
    log_file::install(&rendezvous, options.announce == Announce::No);
    let Some(lock) = lock_unless_served(&rendezvous)? else {
        log::debug!("another hub already serves");
        options.announce.ready();
        return Ok(());
    };
    raise_limits();
    serve(rendezvous, lock, options).inspect_err(|error| log::error!("{error}"))
}

/// Takes the lock; `None` if another hub holds it and can be reached. Waits while another hub
/// starts or exits.
fn lock_unless_served(rendezvous: &Rendezvous) -> Result<Option<HubLock>, HubError> {
    const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
    let began = Instant::now();
    loop {
        if let Some(lock) = rendezvous.lock()? {
            return Ok(Some(lock));
        }
        if rendezvous.connect().is_ok() {
            return Ok(None);
        }
        if began.elapsed() > LOCK_TIMEOUT {
            return Err(HubError::Stuck { path: rendezvous.path().to_owned() });
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn serve(rendezvous: Rendezvous, lock: HubLock, options: &DaemonOptions) -> Result<(), HubError> {
    let (uid, namespace) = (rustix::process::geteuid().as_raw(), rendezvous.namespace());
    let path = rendezvous.socket_path();
    let mut server = Server::new(rendezvous, lock, options)?;
    log::info!("hub of user {uid} for network namespace {namespace} at {}", path.display());
    let result = server.run();
    log::info!("the hub exits");
    server.exit();
    result
}

/// Raises two soft limits: slots and clients take descriptors, for which the usual 1024 would be tight, and
/// long replies are files.
fn raise_limits() {
    for (resource, name) in [(Resource::Nofile, "open files"), (Resource::Fsize, "file sizes")] {
        let limit = rustix::process::getrlimit(resource);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = rustix::process::setrlimit(resource, raised) {
            log::warn!("the limit for {name} stays {:?}: {error}", limit.current);
        }
    }
}
