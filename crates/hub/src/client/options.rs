//! Options of attaching to the hub.

use super::introductions::ShmOffer;
use crate::counters::CounterPage;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of [`attach`](super::attach).
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// The program's name in the hub's status; without it the executable's name.
    pub program: Option<String>,
    /// The preferred slot; any other if that one is not free.
    pub slot: Option<u8>,
    /// Counters that the hub's status shows.
    pub counters: Option<Arc<CounterPage>>,
    /// This process's offer to share memory. Without it, the hub introduces it to no process.
    /// Not for [`manage`](super::manager::manage).
    pub shm: Option<ShmOffer>,
    /// Whether a hub is started if there is none.
    pub start_hub: bool,
    /// Directory of the hub's socket; without it the environment decides.
    pub runtime_dir: Option<PathBuf>,
    /// The time that attaching may take.
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
