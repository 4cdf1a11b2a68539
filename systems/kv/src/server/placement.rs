//! The server's part of a cluster: it refuses keys of slots that others serve.

use std::sync::Arc;

use cluster::{ClusterConfig, HashSlot, ServingRight};
use longarm_rpc::{Method, Status};

use crate::server::replication::Replication;
use crate::server::slots::{key_of, refusal};

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
