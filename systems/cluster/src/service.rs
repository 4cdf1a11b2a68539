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

/// The methods for clients alone: a server that takes orders in another way, say from those who prove who they are.
pub fn configuration_methods(right: &ServingRight) -> Methods {
    let tells = right.clone();
    Methods::new("longarm.cluster.Cluster").direct(CONFIGURATION, move |request, reply| {
        let known = request.try_into().map(u64::from_le_bytes);
        let known = known.map_err(|_| Status::invalid_argument("an epoch has 8 bytes"))?;
        let config = configuration(&tells)?;
        if config.epoch > known {
            reply.extend_from_slice(&config.to_json());
        }
        Ok(())
    })
}

/// The service's methods, for `longarm_rpc::ServerBuilder::add_service`. An order is answered when it is understood; later configurations
/// show what becomes of it. A server without [`MemberOptions::moves_slots`](crate::MemberOptions) refuses orders.
pub fn cluster_methods(right: &ServingRight) -> Methods {
    let [balances, drains] = [right.clone(), right.clone()];
    configuration_methods(right).direct(REBALANCE, move |_, _| balances.order(&ClusterOrder::Rebalance)).direct(
        DRAIN,
        move |request, _| {
            let order_of = serde_json::from_slice::<DrainOrder>(request);
            let DrainOrder { member, undo } =
                order_of.map_err(|_| Status::invalid_argument("this is no order to drain a member"))?;
            drains.order(&if undo { ClusterOrder::Undrain { member } } else { ClusterOrder::Drain { member } })
        },
    )
}

/// An order of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterOrder {
    /// All members serve equally many slots: [`ClusterConfig::balance`].
    Rebalance,
    /// The member gives its shares to others, and gets no new ones.
    Drain {
        /// Its name.
        member: String,
    },
    /// The member may have shares again.
    Undrain {
        /// Its name.
        member: String,
    },
}

impl ServingRight {
    /// Takes the order of an operator. Later configurations show what becomes of it.
    ///
    /// # Errors
    /// `FailedPrecondition` if the server carries out no moves, or the others are too few; `NotFound` without such a member;
    /// `Unavailable` before the first configuration.
    pub fn order(&self, order: &ClusterOrder) -> Result<(), Status> {
        self.check_orders().map_err(refusal)?;
        let config = self.config();
        let config = config.ok_or_else(|| Status::unavailable("this server knows no configuration yet"))?;
        self.wish(wish_of(&config, order)?).map_err(refusal)
    }
}

fn configuration(right: &ServingRight) -> Result<std::sync::Arc<ClusterConfig>, Status> {
    right.config().ok_or_else(|| Status::unavailable("this server knows no configuration yet"))
}

fn wish_of(config: &ClusterConfig, order: &ClusterOrder) -> Result<ConfigWish, Status> {
    Ok(match order {
        ClusterOrder::Rebalance => ConfigWish::Rebalance,
        ClusterOrder::Undrain { member: name } => {
            let member = config.member(name).ok_or_else(|| Status::not_found(format!("{name:?} is no member")))?;
            ConfigWish::Undrain { member: member.id.clone() }
        }
        ClusterOrder::Drain { member } => match config.check_drain(member) {
            Ok(id) => ConfigWish::Drain { member: id.clone() },
            Err(error) => return Err(Status::failed_precondition(error.to_string())),
        },
    })
}

fn refusal(refused: WishRefused) -> Status {
    Status::failed_precondition(refused.to_string())
}
