//! The members of a cluster, as they see themselves.

use std::time::Duration;

use cluster::ClusterMember;
use longarm_rpc::{Client, ClientOptions};

use crate::client::placed::KvCluster;
use crate::error::KvError;
use crate::protocol::decode;
use crate::server::{MemberStatus, STATUS};

/// The time that one member has for its answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A member, and its answer.
pub type AskedMember = (ClusterMember, Result<MemberStatus, KvError>);

impl KvCluster {
    /// Asks for a later configuration, and each member for its state. An error stands for a member that does not answer.
    ///
    /// # Errors
    /// [`KvError::Cluster`] if no server tells a configuration.
    pub fn member_status(&mut self) -> Result<Vec<AskedMember>, KvError> {
        self.refresh()?;
        let members = self.config().map(|config| config.members.clone()).unwrap_or_default();
        let options = ClientOptions { connect_timeout: PATIENCE, ..self.rpc_options() };
        let ask = |member: &ClusterMember| -> Result<MemberStatus, KvError> {
            let mut rpc = Client::connect(member.address.as_str(), &options)?;
            let reply = rpc.call(STATUS, &[], PATIENCE)?;
            Ok(decode(&reply)?.0)
        };
        Ok(members.into_iter().map(|member| (member.clone(), ask(&member))).collect())
    }
}
