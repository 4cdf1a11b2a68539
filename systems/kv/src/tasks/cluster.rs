//! One table on several servers, as tasks use it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{CONFIGURATION, ClusterClient, ClusterConfig, HashSlot};
use longarm_rpc::{Channel, Metadata, Request};
use parking_lot::Mutex;

use crate::client::{KvOptions, MOMENT, PAUSE, PutWay, REFRESH, may_follow, other_end};
use crate::error::KvError;
use crate::tasks::core::TaskCore;
use crate::tasks::pause::pause;
use crate::tasks::table::AsyncKvTable;

/// A table whose keys are spread over the servers of a cluster, for asynchronous programs. A clone names the same one, and any number of
/// tasks share its connections. It follows configurations as [`KvCluster`](crate::KvCluster) does. At servers with backups GETs are requests.
///
/// ```no_run
/// use longarm_kv::{AsyncKvCluster, KvOptions};
///
/// # async fn example() -> Result<(), longarm_kv::KvError> {
/// let cluster = AsyncKvCluster::open(&["host1:7480", "host2:7480"], "sessions", KvOptions::default()).await?;
/// cluster.with(b"alice", |table| async move { table.put(b"alice", b"tuesday").await }).await?;
/// let value = cluster.with(b"alice", |table| async move { table.get(b"alice").await }).await?;
/// # drop(value);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncKvCluster {
    core: Arc<ClusterCore>,
}

/// All that the clones of a cluster share.
struct ClusterCore {
    table: String,
    options: KvOptions,
    placement: Mutex<ClusterClient>,
    /// Held by the one task that asks for a configuration.
    asking: async_lock::Mutex<()>,
    /// For questions about the configuration.
    channels: Mutex<BTreeMap<String, Channel>>,
    tables: Mutex<BTreeMap<String, AsyncKvTable>>,
}

impl AsyncKvCluster {
    /// Asks the servers, `host:port`, one after another for the configuration. One that answers is enough. The server of a key is
    /// connected when the key is used.
    ///
    /// # Errors
    /// [`KvError::Cluster`] if none answers within [`KvOptions::timeout`], or a table of a cluster would have to let clients
    /// PUT alone.
    pub async fn open(servers: &[&str], table: &str, options: KvOptions) -> Result<AsyncKvCluster, KvError> {
        if options.put == PutWay::OneSided {
            return Err(KvError::Cluster("clients of a cluster do not PUT alone".into()));
        }
        let core = ClusterCore {
            table: table.into(),
            placement: Mutex::new(ClusterClient::new(servers.iter().copied(), options.rpc.clone())),
            options,
            asking: async_lock::Mutex::new(()),
            channels: Mutex::default(),
            tables: Mutex::default(),
        };
        let cluster = AsyncKvCluster { core: Arc::new(core) };
        cluster.refresh().await?;
        Ok(cluster)
    }

    /// The configuration.
    pub fn config(&self) -> Option<Arc<ClusterConfig>> {
        self.core.placement.lock().config().cloned()
    }

    /// Asks for a later configuration. Returns whether there is one.
    ///
    /// # Errors
    /// [`KvError::Cluster`] if no server answers.
    pub async fn refresh(&self) -> Result<bool, KvError> {
        let known = self.core.placement.lock().epoch();
        self.core.refresh(known, self.core.options.timeout).await
    }

    /// The table on the server that has a key, and all keys with the same `{tag}`.
    ///
    /// # Errors
    /// [`KvError::Cluster`] if no server has it.
    pub fn table_of(&self, key: &[u8]) -> Result<AsyncKvTable, KvError> {
        self.core.table_by(self.config().as_deref(), key)
    }

    /// The table on each server: for scans and figures.
    ///
    /// # Errors
    /// If the system starts no thread for a connection.
    pub fn tables(&self) -> Result<Vec<AsyncKvTable>, KvError> {
        let members = self.config().map(|config| config.members.clone()).unwrap_or_default();
        members.iter().map(|member| self.core.table_at(&member.address)).collect()
    }

    /// Does something with the table of a key. If the server says that another one has the key, or does not answer a question, this
    /// asks for the configuration. Then it does the same again there, until [`KvOptions::timeout`] is over. A change is done again only if it
    /// certainly was not executed.
    ///
    /// # Errors
    /// Those of `operation`, and of [`table_of`](AsyncKvCluster::table_of). [`KvError::Server`] may mean that nobody knows whether a
    /// change was executed: `longarm_rpc::Status::executed` tells it.
    pub async fn with<T, F>(&self, key: &[u8], mut operation: impl FnMut(AsyncKvTable) -> F) -> Result<T, KvError>
    where
        F: Future<Output = Result<T, KvError>>,
    {
        let until = Instant::now() + self.core.options.timeout;
        let mut server: Option<String> = None;
        loop {
            // Another task may learn of a later one meanwhile.
            let config = self.config();
            let table = match server.take() {
                Some(address) => self.core.table_at(&address),
                None => self.core.table_by(config.as_deref(), key),
            };
            let done = match table {
                Ok(table) => operation(table).await,
                Err(error) => Err(error),
            };
            let Err(why) = done else { return done };
            if !may_follow(config.as_deref(), &why) {
                match other_end(config.as_deref(), key, &why) {
                    Some(address) if pause(MOMENT, until).await => server = Some(address),
                    _ => return Err(why),
                }
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            let asked = config.map_or(0, |config| config.epoch);
            // Without an answer the next attempt asks again.
            if !self.core.refresh(asked, left.min(REFRESH)).await.unwrap_or(false) && !pause(PAUSE, until).await {
                return Err(why);
            }
        }
    }
}

impl ClusterCore {
    /// Asks servers, one after another, until one knows a configuration that is later than epoch `known`, or all have answered. One task asks,
    /// the others wait.
    async fn refresh(&self, known: u64, timeout: Duration) -> Result<bool, KvError> {
        let until = Instant::now() + timeout;
        let _asking = self.asking.lock().await;
        if self.placement.lock().epoch() > known {
            return Ok(true);
        }
        let servers = self.placement.lock().servers();
        let share = timeout / (servers.len().max(1) as u32);
        let (mut failed, mut has_answer) = (KvError::Cluster("no server of the cluster answers".into()), false);
        for address in servers {
            match self.ask(&address, until.min(Instant::now() + share)).await {
                Ok(true) => return Ok(true),
                Ok(false) => has_answer = true,
                Err(error) => failed = error,
            }
        }
        if has_answer { Ok(false) } else { Err(failed) }
    }

    /// Asks one server. Returns whether it knows a later configuration.
    async fn ask(&self, address: &str, until: Instant) -> Result<bool, KvError> {
        let failed = |why: String| KvError::Cluster(format!("{address}: {why}"));
        let known = Bytes::copy_from_slice(&self.placement.lock().epoch().to_le_bytes());
        let request = Request::from_parts(known, Metadata::default(), Some(until));
        let channel = self.channel(address)?;
        let reply =
            channel.call(CONFIGURATION, request).await.map_err(|status| failed(status.to_string()))?.into_inner();
        let mut placement = self.placement.lock();
        placement.prefer(address);
        if reply.is_empty() {
            return Ok(false);
        }
        let config = ClusterConfig::from_json(&reply).map_err(|error| failed(error.to_string()))?;
        placement.take(config).map_err(|error| failed(error.to_string()))
    }

    /// The table on the server that has a key, by a configuration.
    fn table_by(&self, config: Option<&ClusterConfig>, key: &[u8]) -> Result<AsyncKvTable, KvError> {
        let slot = HashSlot::of_key(key);
        let primary = config.and_then(|config| config.primary(slot));
        self.table_at(&primary.ok_or_else(|| KvError::Cluster(format!("no server has slot {slot}")))?.address)
    }

    fn channel(&self, address: &str) -> Result<Channel, KvError> {
        let mut channels = self.channels.lock();
        if let Some(known) = channels.get(address) {
            return Ok(known.clone());
        }
        let channel = Channel::lazy(address, self.options.rpc.clone())?;
        channels.insert(address.into(), channel.clone());
        Ok(channel)
    }

    fn table_at(&self, address: &str) -> Result<AsyncKvTable, KvError> {
        let mut tables = self.tables.lock();
        if let Some(known) = tables.get(address) {
            return Ok(known.clone());
        }
        let core = TaskCore::impatient(address, &self.table, self.options.clone())?;
        let table = AsyncKvTable { core: Arc::new(core) };
        tables.insert(address.into(), table.clone());
        Ok(table)
    }
}

impl std::fmt::Debug for AsyncKvCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (epoch, servers) = (self.core.placement.lock().epoch(), self.core.tables.lock().len());
        write!(f, "AsyncKvCluster({}, epoch {epoch}, {servers} servers)", self.core.table)
    }
}
