//! Orders of an operator: slots move, members are drained.

use std::time::Duration;

use cluster::ClusterOrder;
use longarm_rpc::{Client, ClientOptions, Code, Status};

use crate::client::placed::KvCluster;
use crate::error::KvError;
use crate::proof::{Nonce, TableSecret};
use crate::protocol::{decode, encode};
use crate::server::{GREET, GreetReply, ORDER, OrderRequest, own_proof};

/// The time that one member has for its answer.
const PATIENCE: Duration = Duration::from_secs(1);

impl KvCluster {
    /// Gives an order to the first member that takes it. Later configurations show what becomes of it: moves begin within
    /// milliseconds, and [`ClusterConfig::moving_slots`](crate::ClusterConfig::moving_slots) is zero when they are done. `secret` is the
    /// [secret of the cluster](crate::MembershipOptions::secret), if it has one.
    ///
    /// # Errors
    /// [`KvError::Server`] if the order cannot be, or the secret is wrong; [`KvError::Cluster`] if no member answers.
    ///
    /// ```no_run
    /// use longarm_kv::{ClusterOrder, KvCluster, KvOptions};
    ///
    /// # fn main() -> Result<(), longarm_kv::KvError> {
    /// let mut cluster = KvCluster::open(&["host1:7480"], "sessions", KvOptions::default())?;
    /// cluster.order(&ClusterOrder::Drain { member: "b".into() }, None)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn order(&mut self, order: &ClusterOrder, secret: Option<&TableSecret>) -> Result<(), KvError> {
        self.refresh()?;
        let members = self.config().map(|config| config.members.clone()).unwrap_or_default();
        let options = ClientOptions { connect_timeout: PATIENCE, ..self.rpc_options() };
        let mut failed = Status::unavailable("the cluster has no members");
        for member in members {
            match give(&member.address, &options, order, secret) {
                Ok(()) => return Ok(()),
                // Another member may be there.
                Err(status) if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) => failed = status,
                Err(status) => return Err(KvError::Server(status)),
            }
        }
        Err(KvError::Cluster(format!("no member takes the order: {failed}")))
    }
}

fn give(
    address: &str,
    options: &ClientOptions,
    order: &ClusterOrder,
    secret: Option<&TableSecret>,
) -> Result<(), Status> {
    let mut rpc = Client::connect(address, options)?;
    let GreetReply { nonce, needs_proof } = decode(&rpc.call(GREET, &[], PATIENCE)?)?.0;
    if needs_proof && secret.is_none() {
        return Err(Status::unauthenticated("the cluster has a secret, and takes orders from those who prove it"));
    }
    let mut own_nonce: Nonce = [0; 32];
    getrandom::fill(&mut own_nonce).map_err(|error| Status::internal(error.to_string()))?;
    let secret = secret.filter(|_| needs_proof);
    let proof = own_proof(secret, (&nonce, &own_nonce));
    let mut request = Vec::new();
    encode(&OrderRequest { order: order.clone(), nonce, own_nonce, proof }, &[], &mut request);
    rpc.call(ORDER, &request, PATIENCE).map(drop)
}
