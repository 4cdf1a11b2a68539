//! Why the hub ended.

use crate::rendezvous::RendezvousError;
use std::io;
use std::path::PathBuf;

/// Why the hub could not start or go on, in words for the user of a program that wanted it.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// There is no place to meet.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// The UDP port could not be had.
    #[error(transparent)]
    Port(#[from] udp::BindError),
    /// A process of this user has the port, but none came with what a new hub needs to take
    /// it over.
    #[error(
        "{0}. If that is left from a Longarm hub that was killed, the processes that used it did not \
         come back (they may be stopped): end them and try again"
    )]
    NotRecovered(udp::BindError),
    /// Another hub has the lock but does not listen.
    #[error("another hub holds the lock in {path} but cannot be reached")]
    Stuck {
        /// The directory.
        path: PathBuf,
    },
    /// The system refused.
    #[error("the hub cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl HubError {
    /// For `map_err`: the system refused `what`.
    pub(super) fn system<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> HubError {
        move |source| HubError::System { what, source: source.into() }
    }
}
