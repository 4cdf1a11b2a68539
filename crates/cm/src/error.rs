//! The error of a call.

/// The reason why a call was refused. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Error {
    /// No connection has this id.
    #[error("no connection has this communication id")]
    UnknownId,
    /// The connection is in a state in which this cannot be done.
    #[error("the connection is in another state")]
    InvalidState,
    /// Private data is longer than its message has room for.
    #[error("{len} bytes of private data exceed the {limit} of the message")]
    PrivateDataTooLong {
        /// Bytes given.
        len: usize,
        /// Bytes that fit.
        limit: usize,
    },
    /// Additional information is longer than its message has room for.
    #[error("{len} bytes of additional information exceed the {limit} of the message")]
    InfoTooLong {
        /// Bytes given.
        len: usize,
        /// Bytes that fit.
        limit: usize,
    },
    /// Every communication id of this manager's number is taken.
    #[error("no communication id is free")]
    NoIds,
}
