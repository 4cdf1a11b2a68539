//! One table on several servers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::{ClusterClient, ClusterConfig, HashSlot};
use longarm_rpc::ClientOptions;

use crate::client::options::KvOptions;
use crate::client::table::KvTable;
use crate::error::KvError;

/// The pause between two attempts while no later configuration is there.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);
/// The pause before the other end of a hand-over is asked.
pub(crate) const MOMENT: Duration = Duration::from_micros(200);
/// The time that asking for a configuration may take.
pub(crate) const REFRESH: Duration = Duration::from_millis(500);

/// A table whose keys are spread over the servers of a cluster. It knows which server has a key, and connects to it when it has to.
///
/// ```no_run
/// use longarm_kv::{KvCluster, KvOptions};
///
/// # fn main() -> Result<(), longarm_kv::KvError> {
/// let mut cluster = KvCluster::open(&["host1:7480", "host2:7480"], "sessions", KvOptions::default())?;
/// cluster.with(b"alice", |table| table.put(b"alice", b"tuesday"))?;
/// let value = cluster.with(b"alice", |table| table.get(b"alice"))?;    // by READs, from the server that has it
/// # drop(value);
/// # Ok(())
/// # }
/// ```
pub struct KvCluster {
    placement: ClusterClient,
    table: String,
    options: KvOptions,
    tables: BTreeMap<String, KvTable>,
}

impl KvCluster {
    /// Asks the servers, `host:port`, one after another for the configuration. One that answers is enough. The server of a key is
    /// connected when the key is used.
    ///
    /// # Errors
    /// [`KvError::Cluster`] if none answers within [`KvOptions::timeout`], [`KvError::NoCluster`] if the last one belongs to none.
    pub fn open(servers: &[&str], table: &str, options: KvOptions) -> Result<KvCluster, KvError> {
        let mut placement = ClusterClient::new(servers.iter().copied(), options.rpc.clone());
        placement.refresh(options.timeout)?;
        Ok(KvCluster { placement, table: table.into(), options, tables: BTreeMap::new() })
    }

    /// The configuration.
    pub fn config(&self) -> Option<&ClusterConfig> {
        self.placement.config().map(|config| &**config)
    }

    /// Asks for a later configuration. Returns whether there is one.
    ///
    /// # Errors
    /// [`KvError::Cluster`] if no server answers.
    pub fn refresh(&mut self) -> Result<bool, KvError> {
        Ok(self.placement.refresh(self.options.timeout)?)
    }

    pub(super) fn rpc_options(&self) -> ClientOptions {
        self.options.rpc.clone()
    }

    /// The table on the server that has a key, and all keys with the same `{tag}`.
    ///
    /// # Errors
    /// [`KvError::Cluster`] if no server has it; otherwise as [`KvTable::open`].
    pub fn table_of(&mut self, key: &[u8]) -> Result<&mut KvTable, KvError> {
        let slot = HashSlot::of_key(key);
        let address = self.placement.address_of(slot);
        let address = address.ok_or_else(|| KvError::Cluster(format!("no server has slot {slot}")))?.to_owned();
        self.table_at(address)
    }

    /// The table on each server, one after another: for scans and figures.
    ///
    /// # Errors
    /// The first error of `each`, or of [`KvTable::open`].
    pub fn on_each(&mut self, mut each: impl FnMut(&mut KvTable) -> Result<(), KvError>) -> Result<(), KvError> {
        let members = self.placement.config().map(|config| config.members.clone()).unwrap_or_default();
        members.into_iter().try_for_each(|member| each(self.table_at(member.address)?))
    }

    /// Does something with the table of a key. If the server says that another one has the key, or does not answer a question, this
    /// asks for the configuration. Then it does the same again there, until [`KvOptions::timeout`] is over. A change is done again only if it
    /// certainly was not executed.
    ///
    /// # Errors
    /// Those of `operation`, and of [`table_of`](KvCluster::table_of). [`KvError::Server`] may mean that nobody knows whether a
    /// change was executed: `longarm_rpc::Status::executed` tells it.
    pub fn with<T>(
        &mut self,
        key: &[u8],
        mut operation: impl FnMut(&mut KvTable) -> Result<T, KvError>,
    ) -> Result<T, KvError> {
        let until = Instant::now() + self.options.timeout;
        let mut server = None;
        loop {
            let table = match server.take() {
                Some(address) => self.table_at(address),
                None => self.table_of(key),
            };
            let why = match table.and_then(&mut operation) {
                Err(error) if may_follow(self.config(), &error) => error,
                Err(error) => match other_end(self.config(), key, &error) {
                    Some(address) if Instant::now() < until => {
                        std::thread::sleep(MOMENT);
                        server = Some(address);
                        continue;
                    }
                    _ => return Err(error),
                },
                done => return done,
            };
            let left = until.saturating_duration_since(Instant::now());
            // Without an answer the next attempt asks again.
            if !self.placement.refresh(left.min(REFRESH)).unwrap_or(false) {
                if left <= PAUSE {
                    return Err(why);
                }
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn table_at(&mut self, address: String) -> Result<&mut KvTable, KvError> {
        use std::collections::btree_map::Entry;
        match self.tables.entry(address) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(free) => {
                let table = KvTable::open_impatient(free.key(), &self.table, self.options.clone())?;
                Ok(free.insert(table))
            }
        }
    }
}

impl std::fmt::Debug for KvCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KvCluster({}, epoch {}, {} servers)", self.table, self.placement.epoch(), self.tables.len())
    }
}

/// Whether another attempt, by a later configuration than the one that led to this error, may go well.
pub(crate) fn may_follow(config: Option<&ClusterConfig>, error: &KvError) -> bool {
    match error {
        // With the same configuration, the operation was about a key of another slot.
        KvError::Moved { epoch, .. } => config.is_none_or(|config| *epoch != config.epoch),
        KvError::Server(status) => status.can_repeat(),
        KvError::NotAttached(..) => true,
        KvError::Cluster(_) => config.is_some_and(|config| config.replicas > 0),
        _ => false,
    }
}

/// The server that has a key whose slot is being handed over: the configuration names both ends, and one of them serves. The other one
/// tells its address.
pub(crate) fn other_end(config: Option<&ClusterConfig>, key: &[u8], error: &KvError) -> Option<String> {
    let KvError::Moved { address, .. } = error else { return None };
    let share = config?.share(HashSlot::of_key(key))?;
    share.hand_over().map(|_| address.clone())
}
