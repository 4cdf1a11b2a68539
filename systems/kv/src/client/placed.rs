//! One table on several servers.

use std::collections::BTreeMap;
use std::time::Instant;

use cluster::{ClusterClient, ClusterConfig, HashSlot};

use crate::client::options::KvOptions;
use crate::client::table::KvTable;
use crate::error::KvError;

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
    /// [`KvError::Cluster`] if none answers within [`KvOptions::timeout`].
    pub fn open(servers: &[&str], table: &str, options: KvOptions) -> Result<KvCluster, KvError> {
        let mut placement = ClusterClient::new(servers.iter().copied(), options.rpc.clone());
        placement.refresh(options.timeout).map_err(|error| KvError::Cluster(error.to_string()))?;
        Ok(KvCluster { placement, table: table.into(), options, tables: BTreeMap::new() })
    }

    /// The configuration.
    pub fn config(&self) -> Option<&ClusterConfig> {
        self.placement.config().map(|config| &**config)
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

    /// Does something with the table of a key. If the server says that another one has the key, this asks for the configuration and
    /// does it again there.
    ///
    /// # Errors
    /// Those of `operation`, and of [`table_of`](KvCluster::table_of).
    pub fn with<T>(
        &mut self,
        key: &[u8],
        mut operation: impl FnMut(&mut KvTable) -> Result<T, KvError>,
    ) -> Result<T, KvError> {
        let until = Instant::now() + self.options.timeout;
        loop {
            match operation(self.table_of(key)?) {
                Err(KvError::Moved { slot, address, epoch }) => {
                    let left = until.saturating_duration_since(Instant::now());
                    let is_later = epoch > self.placement.epoch() && self.placement.refresh(left).unwrap_or(false);
                    if !is_later || left.is_zero() {
                        return Err(KvError::Moved { slot, address, epoch });
                    }
                }
                done => return done,
            }
        }
    }

    fn table_at(&mut self, address: String) -> Result<&mut KvTable, KvError> {
        use std::collections::btree_map::Entry;
        match self.tables.entry(address) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(free) => {
                let table = KvTable::open(free.key(), &self.table, self.options.clone())?;
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
