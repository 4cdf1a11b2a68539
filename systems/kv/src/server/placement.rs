//! The server's part of a cluster: it refuses keys of slots that others serve.

use std::sync::Arc;

use cluster::{ClusterConfig, HashSlot, NotServing, ServingRight};
use longarm_rpc::{Executed, Method, Status};

use crate::protocol::*;
use crate::server::replication::Replication;

/// The first word of a refusal, as in Redis Cluster.
pub(crate) const MOVED: &str = "MOVED ";

/// The slots that a server serves.
#[derive(Clone)]
pub(crate) enum Placement {
    /// All.
    Alone,
    /// Those of a configuration that never changes. So a client that knows it may READ for ever.
    Fixed(ServingRight),
    /// Those of a member that has backups, and is one.
    Replicated(Arc<Replication>),
}

impl Placement {
    /// The slots of the member with that name.
    pub(crate) fn fixed(config: ClusterConfig, name: &str) -> Result<Placement, String> {
        config.check().map_err(|error| error.to_string())?;
        config.member(name).ok_or_else(|| format!("the cluster has no member {name:?}"))?;
        Ok(Placement::Fixed(ServingRight::fixed(config, name)))
    }

    /// The server's right to serve, if it is a member of a cluster.
    pub(crate) fn right(&self) -> Option<&ServingRight> {
        match self {
            Placement::Alone => None,
            Placement::Fixed(right) => Some(right),
            Placement::Replicated(replication) => Some(&replication.right),
        }
    }

    /// The replication of the server's tables.
    pub(crate) fn replication(&self) -> Option<&Arc<Replication>> {
        match self {
            Placement::Replicated(replication) => Some(replication),
            _ => None,
        }
    }

    /// Refuses a request for a key of another server, if the slots are fixed.
    pub(crate) fn check(&self, method: Method, request: &[u8]) -> Result<(), Status> {
        let Placement::Fixed(right) = self else { return Ok(()) };
        let Some(key) = key_of(method, request)? else { return Ok(()) };
        right.check(HashSlot::of_key(key)).map(drop).map_err(|error| refusal(&error))
    }
}

/// The answer to a request for a key that this member does not serve. It was not executed.
pub(crate) fn refusal(error: &NotServing) -> Status {
    let status = match error {
        NotServing::Moved { slot, address, epoch } => {
            Status::failed_precondition(format!("{MOVED}{slot} {address} {epoch}"))
        }
        other => Status::unavailable(other.to_string()),
    };
    status.with_executed(Executed::No)
}

/// The key that a request is about. Pieces and the end of a long value have none: their beginning has it.
pub(crate) fn key_of(method: Method, request: &[u8]) -> Result<Option<&[u8]>, Status> {
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
