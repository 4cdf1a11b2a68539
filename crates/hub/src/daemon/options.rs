//! Options of the hub, and the signal that it is ready.

use rustix::fs::{Mode, OFlags};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// The line that the hub writes once clients can reach it, or another hub.
pub(crate) const READY: &str = "longarm-hub: ready\n";

/// The time without clients after which a hub that was started on demand exits.
pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of the hub.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// Directory of the socket; without it the environment decides.
    pub runtime_dir: Option<PathBuf>,
    /// The hub exits after this time without clients; never if there is none.
    pub idle_timeout: Option<Duration>,
    /// Number of slots, that of the hub itself included.
    pub slots: usize,
    /// The time to wait for a client of a dead hub to come back, if the port is taken.
    /// After the first one the hub waits as long for the others, then closes their slots.
    pub recovery_wait: Duration,
    /// Whether a process waits to hear that clients can reach the hub.
    pub announce: Announce,
}

/// The signal of the hub when clients can reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// Not at all; log messages go to standard error, too. For a hub in the foreground.
    No,
    /// By a line on standard error, which it closes afterwards. For a hub started by a client.
    ToLauncher,
}

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

impl Announce {
    /// Tells the client that waits, and closes its pipe.
    pub(super) fn ready(self) {
        if self == Announce::No {
            return;
        }
        // The client may have ended in the meantime.
        let _ = io::stderr().write_all(READY.as_bytes());
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        if let Err(error) = null.and_then(rustix::stdio::dup2_stderr) {
            log::warn!("standard error still leads to the client: {error}");
        }
    }
}
