//! The hub's clients: attaching to it, staying attached, and asking it things.
//!
//! [`attach`] is what a device engine calls once per process: it finds the hub of this user
//! and network namespace, or starts one, and comes back with a [`Session`]: a slot of the UDP
//! port and the devices. [`manager`] is for a process that manages connections. [`status`], [`devices`], [`shutdown`] and [`up`] are for commands.
//!
//! What this module does not do: it reads no packet. The slot's socket is the caller's.

mod approach;
mod attachment;
mod error;
mod introductions;
mod link;
pub mod manager;
mod query;
mod session;

pub use crate::message::IntroductionRefusal;
pub use error::AttachError;
pub use introductions::{Introduction, RequestedBy, ShmLinkOffer, ShmOffer};
pub use query::{devices, ping, runtime_dir, shutdown, status, up};
pub use session::{Session, SessionEvent, Slot};

use crate::counters::CounterPage;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How to attach.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// The program's name as the status shows it; without it the executable's name.
    pub program: Option<String>,
    /// A slot that the caller would like; any other if that one is not free.
    pub slot: Option<u8>,
    /// Counters that the hub may show.
    pub counters: Option<Arc<CounterPage>>,
    /// What this process gives to those that it shares memory with. Without it, it is never
    /// introduced to anybody. Not for [`manager::manage`].
    pub shm: Option<ShmOffer>,
    /// Whether a hub is started if there is none.
    pub start_hub: bool,
    /// Directory of the hub's socket, instead of the one that the environment tells.
    pub runtime_dir: Option<PathBuf>,
    /// How long it all may take.
    pub timeout: Duration,
}

impl Default for AttachOptions {
    fn default() -> AttachOptions {
        AttachOptions {
            program: None,
            slot: None,
            counters: None,
            shm: None,
            start_hub: true,
            runtime_dir: None,
            timeout: Duration::from_secs(15),
        }
    }
}

/// Attaches this process to the hub of its user and network namespace.
///
/// Blocks for some milliseconds if the hub has to be started, else for microseconds.
///
/// # Errors
/// See [`AttachError`].
pub fn attach(options: &AttachOptions) -> Result<Session, AttachError> {
    session::attach(options)
}
