//! The service by which clients learn the configuration from any server, and operators order moves.

use longarm_rpc::{Method, Methods, Status};
use serde::{Deserialize, Serialize};

use crate::config::ClusterConfig;
use crate::config::wish::ConfigWish;
use crate::right::{ServingRight, WishRefused};

/// Tells the configuration. The request is the epoch that the client knows, 8 bytes, little-endian. The reply is the
/// configuration's JSON text; it is empty if the epoch is not greater.
pub const CONFIGURATION: Method = Method::new("/longarm.cluster.Cluster/Configuration");
/// Orders that all members serve equally many slots. Request and reply are empty.
pub(crate) const REBALANCE: Method = Method::new("/longarm.cluster.Cluster/Rebalance");
/// Orders that a member gives its shares to others. The request is a [`DrainOrder`], JSON text; the reply is empty.
pub(crate) const DRAIN: Method = Method::new("/longarm.cluster.Cluster/Drain");

/// The order to drain a member, or to drain it no more.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DrainOrder {
    pub(crate) member: String,
    #[serde(default)]
    pub(crate) undo: bool,
}

/// The service's methods, for `longarm_rpc::ServerBuilder::add_service`. An order is answered when it is understood; later configurations
/// show what becomes of it. A server without [`MemberOptions::moves_slots`](crate::MemberOptions) refuses orders.
pub fn cluster_methods(right: &ServingRight) -> Methods {
    let [tells, balances, drains] = [right.clone(), right.clone(), right.clone()];
    Methods::new("longarm.cluster.Cluster")
        .direct(CONFIGURATION, move |request, reply| {
            let known = request.try_into().map(u64::from_le_bytes);
            let known = known.map_err(|_| Status::invalid_argument("an epoch has 8 bytes"))?;
            let config = configuration(&tells)?;
            if config.epoch > known {
                reply.extend_from_slice(&config.to_json());
            }
            Ok(())
        })
        .direct(REBALANCE, move |_, _| {
            may_order(&balances)?;
            configuration(&balances)?;
            order(&balances, ConfigWish::Rebalance)
        })
        .direct(DRAIN, move |request, _| {
            may_order(&drains)?;
            let order_of = serde_json::from_slice::<DrainOrder>(request);
            let wanted = order_of.map_err(|_| Status::invalid_argument("this is no order to drain a member"))?;
            let wish = drain_wish(&*configuration(&drains)?, &wanted)?;
            order(&drains, wish)
        })
}

fn configuration(right: &ServingRight) -> Result<std::sync::Arc<ClusterConfig>, Status> {
    right.config().ok_or_else(|| Status::unavailable("this server knows no configuration yet"))
}

fn drain_wish(config: &ClusterConfig, wanted: &DrainOrder) -> Result<ConfigWish, Status> {
    let name = &wanted.member;
    if wanted.undo {
        let member = config.member(name).ok_or_else(|| Status::not_found(format!("{name:?} is no member")))?;
        return Ok(ConfigWish::Undrain { member: member.id.clone() });
    }
    match config.check_drain(name) {
        Ok(id) => Ok(ConfigWish::Drain { member: id.clone() }),
        Err(error) => Err(Status::failed_precondition(error.to_string())),
    }
}

fn order(right: &ServingRight, wish: ConfigWish) -> Result<(), Status> {
    right.wish(wish).map_err(refusal)
}

fn may_order(right: &ServingRight) -> Result<(), Status> {
    right.check_orders().map_err(refusal)
}

fn refusal(refused: WishRefused) -> Status {
    Status::failed_precondition(refused.to_string())
}
