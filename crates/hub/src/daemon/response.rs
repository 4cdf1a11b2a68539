//! The hub's answer to one message of a client.

use super::error::HubError;
use crate::message::{ErrorCode, Reply};
use crate::status::HubCounters;
use std::io;
use std::os::fd::OwnedFd;

/// Identifies a client's connection. Never used twice.
pub(super) type ClientId = u64;

/// The answer to the client that sent a message.
#[derive(Debug)]
pub(super) enum ClientResponse {
    /// A reply with its descriptors.
    Reply(Reply, Vec<OwnedFd>),
    /// A reply, after which the connection is closed.
    Final(Reply),
    /// Nothing, or nothing yet.
    None,
}

impl From<Reply> for ClientResponse {
    /// A reply without descriptors.
    fn from(reply: Reply) -> ClientResponse {
        ClientResponse::Reply(reply, Vec::new())
    }
}

/// The reason why the hub does not obey a message.
#[derive(Debug)]
pub(super) enum RequestError {
    /// It is not of the protocol.
    Malformed(String),
    /// It is not allowed in the connection's stage.
    OutOfOrder(&'static str),
    /// The hub does not grant it.
    Denied(ErrorCode, String),
    /// The system refused.
    System(io::Error),
    /// The hub itself cannot continue.
    Fatal(HubError),
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> RequestError {
        RequestError::System(error)
    }
}

impl RequestError {
    /// Counts the error and makes it an error reply.
    ///
    /// # Errors
    /// If the hub itself cannot continue.
    pub(super) fn into_response(self, counters: &mut HubCounters) -> Result<ClientResponse, HubError> {
        Ok(match self {
            RequestError::Malformed(reason) => {
                counters.malformed += 1;
                ClientResponse::Final(Reply::error(ErrorCode::Malformed, reason))
            }
            RequestError::OutOfOrder(reason) => {
                counters.out_of_order += 1;
                ClientResponse::Final(Reply::error(ErrorCode::OutOfOrder, reason))
            }
            RequestError::Denied(code, reason) => {
                counters.denied += 1;
                Reply::error(code, reason).into()
            }
            RequestError::System(error) => {
                counters.denied += 1;
                log::warn!("a request failed: {error}");
                Reply::error(ErrorCode::System, error).into()
            }
            RequestError::Fatal(error) => return Err(error),
        })
    }
}
