//! Errors of a server.

use longarm_rpc::Status;

use crate::server::durable::DataError;

/// The reason why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvServerError {
    /// The address is in use, or no device's; or the system gives no threads or memory.
    #[error("the server cannot start: {0}")]
    Start(String),
    /// A table's settings are wrong, or there is no memory for it.
    #[error("table {table:?}: {why}")]
    Table {
        /// Its name.
        table: String,
        /// The reason.
        why: String,
    },
    /// The directory of the data cannot be used.
    #[error("data: {0}")]
    Data(#[from] DataError),
}

impl From<Status> for KvServerError {
    fn from(status: Status) -> KvServerError {
        KvServerError::Start(status.message().into())
    }
}
