//! The configuration as clients know it: from the servers, without the coordinator.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_rpc::{Client, ClientOptions, Method, Status};

use crate::config::{ClusterConfig, ConfigError};
use crate::service::{CONFIGURATION, DRAIN, DrainOrder, REBALANCE};
use crate::slot::HashSlot;

/// A configuration that a client cannot get.
#[derive(Debug, thiserror::Error)]
pub enum ClusterClientError {
    /// No address was given.
    #[error("no address of a server of the cluster was given")]
    NoAddress,
    /// No server answered. The error is that of the last one.
    #[error("no server of the cluster answers as wished; {address}: {status}")]
    NoServer {
        /// The server that was asked last.
        address: String,
        /// Its error.
        status: Status,
    },
    /// A server tells nonsense.
    #[error("{address}: {error}")]
    Wrong {
        /// The server.
        address: String,
        /// The rule that it breaks.
        error: ConfigError,
    },
}

/// Follows the configurations of a cluster: asks its servers, and takes only later epochs.
///
/// ```no_run
/// use std::time::Duration;
/// use longarm_cluster::{ClusterClient, HashSlot};
/// use longarm_rpc::ClientOptions;
///
/// # fn main() -> Result<(), longarm_cluster::ClusterClientError> {
/// let mut cluster = ClusterClient::new(["host1:7480", "host2:7480"], ClientOptions::default());
/// cluster.refresh(Duration::from_secs(5))?;
/// println!("foo is at {:?}", cluster.address_of(HashSlot::of_key(b"foo")));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ClusterClient {
    seeds: Vec<String>,
    options: ClientOptions,
    config: Option<Arc<ClusterConfig>>,
    /// The server that answered last.
    favourite: Option<String>,
}

impl ClusterClient {
    /// A client that begins with these servers, `host:port`.
    pub fn new<A: Into<String>>(seeds: impl IntoIterator<Item = A>, options: ClientOptions) -> ClusterClient {
        ClusterClient { seeds: seeds.into_iter().map(Into::into).collect(), options, config: None, favourite: None }
    }

    /// The configuration, if one is known.
    pub fn config(&self) -> Option<&Arc<ClusterConfig>> {
        self.config.as_ref()
    }

    /// The epoch; zero if no configuration is known.
    pub fn epoch(&self) -> u64 {
        self.config.as_ref().map_or(0, |config| config.epoch)
    }

    /// The address of the server that serves a slot.
    pub fn address_of(&self, slot: HashSlot) -> Option<&str> {
        self.config.as_ref()?.primary(slot).map(|member| member.address.as_str())
    }

    /// Takes a configuration if it is later than the known one. Returns whether it was.
    ///
    /// # Errors
    /// It breaks a rule.
    pub fn take(&mut self, config: ClusterConfig) -> Result<bool, ConfigError> {
        config.check()?;
        let is_later = config.epoch > self.epoch();
        if is_later {
            self.config = Some(Arc::new(config));
        }
        Ok(is_later)
    }

    /// Asks servers, one after another, until one knows a later configuration or all have answered. Returns whether one did.
    ///
    /// A server that is cut off from the others may know an old configuration only. So its answer does not end the search.
    ///
    /// # Errors
    /// None answered within the time, or one told nonsense.
    pub fn refresh(&mut self, timeout: Duration) -> Result<bool, ClusterClientError> {
        let until = Instant::now() + timeout;
        let (mut open, mut failed, mut answered) = (self.addresses(), ClusterClientError::NoAddress, false);
        let share = timeout / (open.len().max(1) as u32);
        while let Some(address) = open.pop_front() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.ask(&address, left.min(share)) {
                Err(error) => failed = error,
                Ok(is_later) => {
                    answered = true;
                    self.prefer(&address);
                    if is_later {
                        return Ok(true);
                    }
                }
            }
        }
        if answered { Ok(false) } else { Err(failed) }
    }

    /// Orders that all members serve equally many slots: [`ClusterConfig::balance`]. Later configurations show the moves.
    ///
    /// # Errors
    /// No server takes the order within the time, for each one.
    pub fn rebalance(&mut self, timeout: Duration) -> Result<(), ClusterClientError> {
        self.order(REBALANCE, &[], timeout)
    }

    /// Orders that a member gives its shares to others and gets no new ones; with `undo` it may have shares again.
    ///
    /// # Errors
    /// No server takes the order within the time, for each one. Servers refuse it if there is no such member, or the others are too few.
    pub fn drain(&mut self, member: &str, undo: bool, timeout: Duration) -> Result<(), ClusterClientError> {
        let order = DrainOrder { member: member.into(), undo };
        self.order(DRAIN, &serde_json::to_vec(&order).unwrap_or_default(), timeout)
    }

    /// Gives an order to the first server that takes it.
    fn order(&mut self, method: Method, order: &[u8], timeout: Duration) -> Result<(), ClusterClientError> {
        let mut failed = ClusterClientError::NoAddress;
        for address in self.addresses() {
            let call = |mut rpc: Client| rpc.call(method, order, timeout).map(drop);
            match self.connect(&address, timeout).and_then(call) {
                Ok(()) => return Ok(()),
                Err(status) => failed = ClusterClientError::NoServer { address, status },
            }
        }
        Err(failed)
    }

    fn connect(&self, address: &str, timeout: Duration) -> Result<Client, Status> {
        let connect_timeout = self.options.connect_timeout.min(timeout);
        Client::connect(address, &ClientOptions { connect_timeout, ..self.options.clone() })
    }

    /// The addresses of all servers, those of the configuration before those that were given, in the order in which to ask them.
    pub fn servers(&self) -> Vec<String> {
        self.addresses().into()
    }

    /// Asks this server first from now on: it has answered.
    pub fn prefer(&mut self, address: &str) {
        self.favourite = Some(address.into());
    }

    /// The servers in the order in which they are asked.
    fn addresses(&self) -> VecDeque<String> {
        let members = self.config.iter().flat_map(|config| &config.members).map(|member| &member.address);
        let mut all = VecDeque::new();
        for address in self.favourite.iter().chain(members).chain(&self.seeds) {
            if !all.contains(address) {
                all.push_back(address.clone());
            }
        }
        all
    }

    fn ask(&mut self, address: &str, timeout: Duration) -> Result<bool, ClusterClientError> {
        let no_server = |status| ClusterClientError::NoServer { address: address.into(), status };
        let wrong = |error| ClusterClientError::Wrong { address: address.into(), error };
        let mut rpc = self.connect(address, timeout).map_err(no_server)?;
        let reply = rpc.call(CONFIGURATION, &self.epoch().to_le_bytes(), timeout).map_err(no_server)?;
        if reply.is_empty() {
            return Ok(false);
        }
        let config = ClusterConfig::from_json(&reply).map_err(wrong)?;
        self.take(config).map_err(wrong)
    }
}
