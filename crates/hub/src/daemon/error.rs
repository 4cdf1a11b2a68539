//! The errors that end the hub.

use crate::rendezvous::RendezvousError;
use std::io;
use std::path::PathBuf;

/// The reason why the hub could not start or continue, for the user of the program that wants it.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The directory for the socket cannot be used.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// The UDP port could not be bound.
    #[error(transparent)]
    Port(#[from] udp::BindError),
    /// A process of this user has the port, but no client has sent the keeper that a new hub needs to take
    /// it over.
    #[error(
        "{0}. If that is left from a Longarm hub that was killed, the processes that used it did not \
         come back (they may be stopped): end them and try again"
    )]
    NotRecovered(udp::BindError),
    /// A hub with another runtime directory has the port, and lives.
    #[error(
        "another Longarm hub of this user has UDP port 4791 in this network namespace: process {process}, with the runtime directory \
         {directory}. Set LONGARM_RUNTIME_DIR to that, or use another network namespace"
    )]
    OtherHub {
        /// Its process.
        process: u32,
        /// Its runtime directory, or the reason why it is not known.
        directory: String,
    },
    /// Another hub has the lock but does not listen.
    #[error("another hub holds the lock in {path} but cannot be reached")]
    Stuck {
        /// The directory.
        path: PathBuf,
    },
    /// The system refused.
    #[error("the hub cannot {what}: {source}")]
    System {
        /// The attempted step.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl HubError {
    /// For `map_err`: the system refused `what`.
    pub(super) fn system<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> HubError {
        move |source| HubError::System { what, source: source.into() }
    }
}
