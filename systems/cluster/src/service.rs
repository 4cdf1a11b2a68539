//! The service by which clients learn the configuration from any server.

use longarm_rpc::{Method, Methods, Status};

use crate::right::ServingRight;

/// Tells the configuration. The request is the epoch that the client knows, 8 bytes, little-endian. The reply is the
/// configuration's JSON text; it is empty if the epoch is not greater.
pub const CONFIGURATION: Method = Method::new("/longarm.cluster.Cluster/Configuration");

/// The service's methods, for `longarm_rpc::ServerBuilder::add_service`.
pub fn cluster_methods(right: &ServingRight) -> Methods {
    let right = right.clone();
    Methods::new("longarm.cluster.Cluster").direct(CONFIGURATION, move |request, reply| {
        let known = request.try_into().map(u64::from_le_bytes);
        let known = known.map_err(|_| Status::invalid_argument("an epoch has 8 bytes"))?;
        let config = right.config().ok_or_else(|| Status::unavailable("this server knows no configuration yet"))?;
        if config.epoch > known {
            reply.extend_from_slice(&config.to_json());
        }
        Ok(())
    })
}
