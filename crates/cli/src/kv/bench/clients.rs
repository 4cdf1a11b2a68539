//! Clients of the measured systems: one batch of operations at a time.

use std::time::Duration;

use longarm_kv::{KvCluster, KvOptions, KvTable};

use super::args::{KvBenchArgs, KvSystem};
use super::batch::BatchClient;
use super::scans::ScanChoice;
use super::servers::MeasuredServer;
use super::sockets::{Memcached, Resp, SocketClient};
use crate::error::Error;

/// A failover takes a while.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connects to a server.
pub(super) fn connect(
    server: &MeasuredServer,
    depth: usize,
    args: &KvBenchArgs,
) -> Result<Box<dyn BatchClient>, Error> {
    let (locations, is_ordered) = (args.locations, args.has_scans());
    Ok(match server.system() {
        KvSystem::Longarm { get, .. } if server.is_given() => {
            let options = KvOptions { get: *get, locations, timeout: PATIENCE, ..KvOptions::default() };
            let servers: Vec<&str> = server.address().split(',').collect();
            Box::new(SpreadClient { cluster: KvCluster::open(&servers, "default", options)?, value: Vec::new() })
        }
        KvSystem::Longarm { get, put, .. } => {
            let options = KvOptions { get: *get, put: *put, locations, outstanding: depth, ..KvOptions::default() };
            Box::new(KvClient { table: KvTable::open(server.address(), "default", options)?, value: Vec::new() })
        }
        KvSystem::Resp { tcp, .. } => Box::new(SocketClient::<Resp>::connect(server.address(), *tcp, is_ordered)?),
        KvSystem::Memcached { tcp } => {
            Box::new(SocketClient::<Memcached>::connect(server.address(), *tcp, is_ordered)?)
        }
    })
}

/// A client of this store.
struct KvClient {
    table: KvTable,
    value: Vec<u8>,
}

impl BatchClient for KvClient {
    fn read(&mut self, keys: &[[u8; 20]]) -> Result<usize, Error> {
        if let [key] = keys {
            return Ok(usize::from(self.table.get_into(key, &mut self.value)?.is_some()));
        }
        let mut there = 0;
        self.table.multi_get(keys, |_, found| there += usize::from(found.is_some()))?;
        Ok(there)
    }

    fn write(&mut self, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error> {
        Ok(self.table.multi_put(keys.len(), |number| (&keys[number], value))?)
    }

    fn scan(&mut self, scans: &[ScanChoice]) -> Result<usize, Error> {
        let mut there = 0;
        for (first, len) in scans {
            there += usize::from(self.table.range_each(first.., *len, |_, _, _| {})? > 0);
        }
        Ok(there)
    }

    fn reads(&self) -> Option<u64> {
        Some(self.table.stats().reads)
    }

    fn puts_alone(&self) -> Option<u64> {
        Some(self.table.stats().one_sided_puts)
    }
}

/// A client of the servers of a cluster: one operation at a time.
struct SpreadClient {
    cluster: KvCluster,
    value: Vec<u8>,
}

impl BatchClient for SpreadClient {
    fn read(&mut self, keys: &[[u8; 20]]) -> Result<usize, Error> {
        let mut there = 0;
        for key in keys {
            let value = &mut self.value;
            there += usize::from(self.cluster.with(key, |table| table.get_into(key, value))?.is_some());
        }
        Ok(there)
    }

    fn write(&mut self, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error> {
        keys.iter().try_for_each(|key| self.cluster.with(key, |table| table.put(key, value)).map(drop))?;
        Ok(())
    }

    fn scan(&mut self, _: &[ScanChoice]) -> Result<usize, Error> {
        Err(Error::Usage("--servers: hashed tables have no ranges".into()))
    }
}
