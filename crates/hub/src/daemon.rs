//! The hub itself: a process with one thread that waits for messages.
//!
//! ```text
//!   rendezvous socket --accept--> Connection (one per client) --> requests --> Group (slots)
//!   slot 0 socket ------------> StrayPackets                 \--> Devices <-- monitor
//!                                   \--MADs--> Relay (ports, numbers, wills) <--MADs-- clients
//! ```
//!
//! It is written to be killed: nothing that it knows is not known elsewhere. Slots live in
//! the kernel and with their owners, devices in the kernel, the lock ends with the process. A
//! new hub takes the port over with the help of the first client that comes back (see
//! `keeper`).
//!
//! What this module does not do: no payload ever passes through it. The connection manager's
//! messages (MADs) do; what they mean is known to the processes, here only whom they are for.

mod closing;
mod connection;
mod conversation;
mod devices;
mod early;
mod error;
mod group;
mod gsi;
mod inherited;
mod introductions;
mod log_file;
mod managing;
mod numbers;
mod ports;
mod recovery;
mod relay;
mod requests;
mod routing;
mod server;
mod status;
mod stray;
mod watch;

pub use error::HubError;

use crate::launch::READY;
use crate::rendezvous::{Lock, Rendezvous};
use crate::sys;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit};
use server::Server;
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// How to be the hub.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// Directory of the socket, instead of the one that the environment tells.
    pub runtime_dir: Option<PathBuf>,
    /// The hub leaves after so long without clients; never without it.
    pub idle_timeout: Option<Duration>,
    /// Number of slots, that of the hub itself included.
    pub slots: usize,
    /// How long to wait for a client of a hub that died to come back, if the port is taken;
    /// and after that for the others, before their slots are closed.
    pub recovery_wait: Duration,
    /// Whether somebody is waiting to hear that the hub can be reached.
    pub announce: Announce,
}

/// How the hub tells that it can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// Not at all; log messages go to standard error, too. For a hub in the foreground.
    No,
    /// By a line on standard error, which then is closed. For a hub started by a client.
    ToLauncher,
}

/// The time without clients after which a hub that was started on demand leaves.
pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

impl Default for DaemonOptions {
    fn default() -> DaemonOptions {
        DaemonOptions {
            runtime_dir: None,
            idle_timeout: Some(DEFAULT_IDLE_TIMEOUT),
            slots: udp::SLOTS,
            recovery_wait: Duration::from_secs(3),
            announce: Announce::No,
        }
    }
}

/// Runs the hub until it is idle for too long or told to leave. If another hub is already
/// there, returns at once.
///
/// # Errors
/// See [`HubError`].
pub fn run(options: &DaemonOptions) -> Result<(), HubError> {
    // Where a limit forbids a file, writing to it fails, and the hub goes on.
    sys::ignore_file_size_signal();
    let rendezvous = Rendezvous::find(options.runtime_dir.as_deref())?;
    log_file::install(&rendezvous, options.announce == Announce::No);
    let Some(lock) = lock_unless_served(&rendezvous)? else {
        log::debug!("another hub is there already");
        announce_ready(options.announce);
        return Ok(());
    };
    raise_limits();
    serve(rendezvous, lock, options).inspect_err(|error| log::error!("{error}"))
}

/// Takes the lock; `None` if another hub has it and can be reached. Waits while another one
/// is just coming or going.
fn lock_unless_served(rendezvous: &Rendezvous) -> Result<Option<Lock>, HubError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let began = Instant::now();
    loop {
        if let Some(lock) = rendezvous.lock()? {
            return Ok(Some(lock));
        }
        if rendezvous.connect().is_ok() {
            return Ok(None);
        }
        if began.elapsed() > PATIENCE {
            return Err(HubError::Stuck { path: rendezvous.path().to_owned() });
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn serve(rendezvous: Rendezvous, lock: Lock, options: &DaemonOptions) -> Result<(), HubError> {
    let (uid, namespace) = (rustix::process::geteuid().as_raw(), rendezvous.namespace());
    let path = rendezvous.socket_path();
    let mut server = Server::new(rendezvous, lock, options)?;
    log::info!("hub of user {uid} for network namespace {namespace} at {}", path.display());
    let result = server.run();
    log::info!("the hub leaves");
    server.leave();
    result
}

/// Tells the client that waits for it, and lets go of its pipe.
fn announce_ready(announce: Announce) {
    if announce == Announce::ToLauncher {
        // The client may have ended meanwhile; that is not the hub's business.
        let _ = io::stderr().write_all(READY.as_bytes());
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        if let Err(error) = null.and_then(rustix::stdio::dup2_stderr) {
            log::warn!("standard error stays what it was: {error}");
        }
    }
}

/// Slots and clients take descriptors; the usual soft limit of 1024 would be tight. Long answers are files.
fn raise_limits() {
    for (resource, name) in [(Resource::Nofile, "open files"), (Resource::Fsize, "file sizes")] {
        let limit = rustix::process::getrlimit(resource);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = rustix::process::setrlimit(resource, raised) {
            log::warn!("the limit for {name} stays {:?}: {error}", limit.current);
        }
    }
}
