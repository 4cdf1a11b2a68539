//! Why there is no link, or no longer.

use std::io;

/// Why a link could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A file could be cut off under us.
    #[error("a shared file is not sealed against shrinking")]
    Unsealed,
    /// A file is of another size or version than this library makes.
    #[error("a shared file is not of this version")]
    Foreign,
    /// The system refused.
    #[error("cannot open a link: {0}")]
    System(#[source] io::Error),
}

/// Why a link is dead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Death {
    /// The other process has ended, or has closed its socket.
    #[error("the other process is gone")]
    Gone,
    /// The other process wrote something into a ring that no honest one writes.
    #[error("the other process spoiled a ring")]
    BrokenRing,
    /// The other process sent a message that no honest one sends.
    #[error("the other process sent a strange message")]
    BrokenSocket,
    /// The other process lives but does not end an access to our memory: what we waited for
    /// is not worth waiting for.
    #[error("the other process holds memory for too long")]
    Stuck,
}
