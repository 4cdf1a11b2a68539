//! Errors of clients.

use std::time::Duration;

use cluster::ClusterClientError;
use longarm_rpc::{Code, Status};
use remote::ReadError;

use crate::envelope::KvVersion;
use crate::protocol::MOVED;

/// The reason why an operation has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// The server has no table of that name.
    #[error("{0}")]
    NoSuchTable(String),
    /// The client has not the table's secret, or the right to do this.
    #[error("not authorized: {0}")]
    NotAuthorized(String),
    /// The server has not the table's secret.
    #[error("not the right server: it did not prove that it has the secret of the table")]
    WrongServer,
    /// The server has taken the right to the table back.
    #[error("the server has revoked this client's right to the table")]
    Revoked,
    /// The key is not in the state that the operation needs.
    #[error("{}", conflict(.0))]
    Conflict(Option<KvVersion>),
    /// The value is not of the kind that the operation needs.
    #[error("{0}")]
    WrongType(String),
    /// The table's layout keeps no order, so it has no ranges.
    #[error("{0}")]
    NoOrder(String),
    /// The table's memory is full.
    #[error("the table is full: {0}")]
    Full(String),
    /// A key, a value or another argument is too long or malformed.
    #[error("{0}")]
    Invalid(String),
    /// The key changed while a long value was fetched in pieces, again and again.
    #[error("the value changed each time while it was fetched")]
    Changing,
    /// The server did not answer in time, or the connection failed.
    #[error("no answer: {0}")]
    Server(Status),
    /// Another server of the cluster has the key.
    #[error("slot {slot} is served by {address} in epoch {epoch}")]
    Moved {
        /// The slot of the key.
        slot: u16,
        /// The server that has it, `host:port`.
        address: String,
        /// The epoch of the configuration.
        epoch: u64,
    },
    /// The server belongs to no cluster: it has all keys.
    #[error("{0} is a server without a cluster")]
    NoCluster(String),
    /// The configuration of the cluster is not to be had, or no server has the key.
    #[error("the cluster: {0}")]
    Cluster(String),
    /// A READ or the lookup failed.
    #[error(transparent)]
    Read(ReadError),
    /// The device here or at the server does not carry out GETs by calls. Other ways may work.
    #[error("no GETs by the server's device: {0}")]
    NoDeviceGets(String),
    /// The connection for READs does not come about.
    #[error("no connection for READs within {0:?}: {1}")]
    NotAttached(Duration, String),
}

impl From<ClusterClientError> for KvError {
    fn from(error: ClusterClientError) -> KvError {
        match error {
            ClusterClientError::NoServer { address, status } if status.code() == Code::Unimplemented => {
                KvError::NoCluster(address)
            }
            other => KvError::Cluster(other.to_string()),
        }
    }
}

impl KvError {
    /// The server has written something that is no value.
    pub(crate) fn broken_table() -> KvError {
        KvError::Invalid("the table has a value without an envelope".into())
    }
}

/// A refusal of the form `MOVED slot address epoch`.
fn moved(words: &str) -> Option<KvError> {
    let mut parts = words.strip_prefix(MOVED)?.split(' ');
    let (slot, address, epoch) = (parts.next()?.parse().ok()?, parts.next()?.to_owned(), parts.next()?.parse().ok()?);
    Some(KvError::Moved { slot, address, epoch })
}

fn conflict(present: &Option<KvVersion>) -> String {
    match present {
        Some(version) => format!("the key has another version: {version}"),
        None => "the key is absent".into(),
    }
}

impl From<Status> for KvError {
    fn from(status: Status) -> KvError {
        let words = status.message().to_owned();
        match status.code() {
            Code::NotFound => KvError::NoSuchTable(words),
            Code::PermissionDenied => KvError::Revoked,
            Code::Unauthenticated => KvError::NotAuthorized(words),
            Code::ResourceExhausted => KvError::Full(words),
            Code::InvalidArgument | Code::OutOfRange => KvError::Invalid(words),
            Code::FailedPrecondition => moved(&words).unwrap_or(KvError::WrongType(words)),
            Code::Unimplemented => KvError::NoOrder(words),
            _ => KvError::Server(status),
        }
    }
}
