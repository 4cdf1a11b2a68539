//! The reasons why a link cannot be opened, or has ended.

use std::io;

/// The reason why a link could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A file is not sealed, so another process could truncate it while it is mapped.
    #[error("a shared file is not sealed against shrinking")]
    Unsealed,
    /// A file's size or version is not that of this library.
    #[error("a shared file is not of this version")]
    Foreign,
    /// A system call failed.
    #[error("cannot open a link: {0}")]
    System(#[source] io::Error),
}

/// The reason why a link is dead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Death {
    /// The other process has ended, or has closed its socket.
    #[error("the other process is gone")]
    Gone,
    /// The other process wrote a value to a ring that no honest one writes.
    #[error("the other process broke the protocol of a ring")]
    BrokenRing,
    /// The other process sent a message that no honest one sends.
    #[error("the other process sent an invalid message")]
    BrokenSocket,
    /// The other process lives but does not end an access to this process' memory, so waiting longer is
    /// useless.
    #[error("the other process holds memory for too long")]
    Stuck,
}
