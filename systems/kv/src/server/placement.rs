//! The server's part of a cluster: it refuses keys of slots that others serve.

use cluster::{ClusterConfig, HashSlot, NotServing, ServingRight};
use longarm_rpc::{Method, Status};

use crate::protocol::*;

/// The first word of a refusal, as in Redis Cluster.
pub(crate) const MOVED: &str = "MOVED ";

/// The slots that a server serves. They never change, so a client that knows the configuration may READ for ever.
#[derive(Clone, Debug)]
pub(crate) struct OwnSlots {
    pub(crate) right: ServingRight,
}

impl OwnSlots {
    /// The slots of the member with that name.
    pub(crate) fn new(config: ClusterConfig, name: &str) -> Result<OwnSlots, String> {
        config.check().map_err(|error| error.to_string())?;
        config.member(name).ok_or_else(|| format!("the cluster has no member {name:?}"))?;
        Ok(OwnSlots { right: ServingRight::fixed(config, name) })
    }

    /// Refuses a request for a key of another server.
    pub(crate) fn check(&self, method: Method, request: &[u8]) -> Result<(), Status> {
        let Some(key) = key_of(method, request)? else { return Ok(()) };
        match self.right.check(HashSlot::of_key(key)) {
            Ok(_) => Ok(()),
            Err(NotServing::Moved { slot, address, epoch }) => {
                Err(Status::failed_precondition(format!("{MOVED}{slot} {address} {epoch}")))
            }
            Err(error) => Err(Status::unavailable(error.to_string())),
        }
    }
}

/// The key that a request is about. Pieces and the end of a long value have none: their beginning has it.
fn key_of(method: Method, request: &[u8]) -> Result<Option<&[u8]>, Status> {
    Ok(match method {
        GET => Some(decode::<GetRequest>(request)?.1),
        DELETE => Some(decode::<DeleteRequest>(request)?.1),
        ADD => Some(decode::<AddRequest>(request)?.1),
        EXPIRE => Some(decode::<ExpireRequest>(request)?.1),
        BEGIN => Some(decode::<BeginRequest>(request)?.1),
        PUT => {
            let (head, rest) = decode::<PutRequest>(request)?;
            // The handler refuses a key that is longer than the message.
            rest.get(..head.key_bytes as usize)
        }
        _ => None,
    })
}
