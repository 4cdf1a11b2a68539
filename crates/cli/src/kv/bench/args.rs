//! The arguments, and the cases that they ask for.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use longarm_kv::{GetWay, KvLayout, PutWay};

use super::load::ServerLoad;
use super::workload::{KeyChoice, Workload};
use crate::error::Error;
use crate::sizes::{bytes, seconds};

/// Measure the store with YCSB's workloads, and others beside it
#[derive(Args, Clone, Debug)]
pub(crate) struct KvBenchArgs {
    /// Systems: kv (GETs by READs), kv-rpc, kv-choose, kv-hopscotch, kv-cuckoo, kv-tree, kv-tree-rpc, kv-tree-choose, kv-atomic
    /// (objects at one moment: SABRes), kv-device (GETs by the server's device: KV-Direct); redis, valkey, memcached (Unix socket), redis-tcp,
    /// valkey-tcp, memcached-tcp; several with commas
    #[arg(long, value_name = "SYSTEMS", default_value = "kv,kv-rpc")]
    system: String,
    /// Measure the cluster of these servers, which run already, on its table `default`. The systems are kv and kv-rpc then, and operations go
    /// one by one
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', conflicts_with_all = ["fsync", "put", "server_load"])]
    pub(super) servers: Vec<String>,
    /// YCSB's workloads: a (half updates), b (5 % updates), c (reads), d (reads of the latest), e (scans of 1 to 100 keys, 5 %
    /// insertions: trees, redis and valkey have them), f (read, modify, write); several without commas
    #[arg(long, value_name = "LETTERS", default_value = "abcdf")]
    workload: String,
    /// Reads and updates in place of YCSB's workloads: the percentage of reads; several with commas
    #[arg(long, value_name = "PERCENTAGES", value_delimiter = ',', conflicts_with = "workload",
          value_parser = clap::value_parser!(u8).range(0..=100))]
    reads: Vec<u8>,
    /// Ways to PUT: rpc, or one-sided (the client alone: lock, WRITEs, unlock), which goes with GETs by READs in hashed tables; both with
    /// a comma
    #[arg(long, value_name = "WAYS", default_value = "rpc", value_delimiter = ',', value_parser = put_way)]
    put: Vec<PutWay>,
    /// The choice of keys: zipfian (0.99) or uniform
    #[arg(long, value_name = "CHOICE", default_value = "zipfian")]
    keys_by: KeyChoice,
    /// Number of keys
    #[arg(long, default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(super) keys: u64,
    /// Length of each value; several with commas
    #[arg(long = "size", value_name = "SIZES", default_value = "64", value_delimiter = ',', value_parser = bytes)]
    pub(super) sizes: Vec<u64>,
    /// The one of the present measurement.
    #[arg(skip)]
    pub(super) size: u64,
    /// Operations that a client has under way at a time; several with commas
    #[arg(long, value_name = "NUMBERS", default_value = "1,16")]
    depth: String,
    /// Client threads, each with a connection; several numbers with commas
    #[arg(long, value_name = "NUMBERS", default_value = "1", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: Vec<u16>,
    /// The state of the server's core: a number of programs that compute on it too, or `stopped` (the server's process is stopped
    /// during the measurement); several with commas
    #[arg(long, value_name = "LOADS", default_value = "0", value_delimiter = ',')]
    server_load: Vec<ServerLoad>,
    /// Keys whose places each client remembers
    #[arg(long, default_value = "1000000")]
    pub(super) locations: usize,
    /// Time of each measurement
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(super) seconds: Duration,
    /// Write operations per second as a plot: over the sizes, the clients, the shares of reads or the depths, whichever are several
    #[arg(long, value_name = "FILE.svg")]
    pub(super) plot: Option<PathBuf>,
    /// Keep the data on disk: always, everysec or no, for each system alike (Redis: appendfsync). Not for memcached
    #[arg(long, value_name = "RULE", value_parser = ["always", "everysec", "no"])]
    pub(super) fsync: Option<String>,
    /// One line of JSON for each measurement
    #[arg(long)]
    pub(super) json: bool,
    /// Let the scheduler place threads
    #[arg(long)]
    pub(super) unpinned: bool,
}

/// A measured system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KvSystem {
    /// This store.
    Longarm {
        get: GetWay,
        put: PutWay,
        layout: KvLayout,
    },
    /// A program that speaks Redis' protocol.
    Resp {
        program: &'static str,
        tcp: bool,
    },
    Memcached {
        tcp: bool,
    },
}

impl KvSystem {
    fn parse(name: &str) -> Option<KvSystem> {
        let ours = |get, layout| Some(KvSystem::Longarm { get, put: PutWay::Rpc, layout });
        match name {
            "kv" | "kv-cluster" => ours(GetWay::OneSided, KvLayout::Cluster),
            "kv-hopscotch" => ours(GetWay::OneSided, KvLayout::Hopscotch),
            "kv-cuckoo" => ours(GetWay::OneSided, KvLayout::Cuckoo),
            "kv-atomic" => ours(GetWay::OneSided, KvLayout::ClusterAtomic),
            "kv-device" => ours(GetWay::Device, KvLayout::Cluster),
            "kv-tree" => ours(GetWay::OneSided, KvLayout::Tree),
            "kv-tree-rpc" => ours(GetWay::Rpc, KvLayout::Tree),
            "kv-tree-choose" => ours(GetWay::Choose, KvLayout::Tree),
            "kv-choose" => ours(GetWay::Choose, KvLayout::Cluster),
            "kv-rpc" => ours(GetWay::Rpc, KvLayout::Cluster),
            "redis" => Some(KvSystem::Resp { program: "redis-server", tcp: false }),
            "redis-tcp" => Some(KvSystem::Resp { program: "redis-server", tcp: true }),
            "valkey" => Some(KvSystem::Resp { program: "valkey-server", tcp: false }),
            "valkey-tcp" => Some(KvSystem::Resp { program: "valkey-server", tcp: true }),
            "memcached" => Some(KvSystem::Memcached { tcp: false }),
            "memcached-tcp" => Some(KvSystem::Memcached { tcp: true }),
            _ => None,
        }
    }

    /// True if it has ranges of keys.
    fn has_order(&self) -> bool {
        match self {
            KvSystem::Longarm { layout, .. } => *layout == KvLayout::Tree,
            KvSystem::Resp { .. } => true,
            KvSystem::Memcached { .. } => false,
        }
    }

    /// The system with that way to PUT. One of others has its own.
    fn with_put(&self, way: PutWay) -> Result<KvSystem, Error> {
        match self {
            KvSystem::Longarm { get, layout, .. } => {
                let (get, layout) = (*get, *layout);
                let is_hashed = matches!(layout, KvLayout::Cluster | KvLayout::Hopscotch | KvLayout::Cuckoo);
                if way == PutWay::OneSided && (get != GetWay::OneSided || !is_hashed) {
                    let why = "its clients do not GET by READs that find changes of other clients in a hashed table";
                    return Err(Error::Usage(format!("--put one-sided: not for {self}: {why}")));
                }
                Ok(KvSystem::Longarm { get, put: way, layout })
            }
            other => Ok(other.clone()),
        }
    }

    /// True if its clients can do without the server's program.
    pub(super) fn does_without_server(&self, workload: Workload) -> bool {
        let alone = |get, put| get == GetWay::OneSided && (put == PutWay::OneSided || workload.reads() == 1.0);
        matches!(self, KvSystem::Longarm { get, put, .. } if alone(*get, *put)) && !workload.inserts()
    }

    /// True for systems of others, which may be missing.
    pub(super) fn is_peer(&self) -> bool {
        !matches!(self, KvSystem::Longarm { .. })
    }
}

impl fmt::Display for KvSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket = |tcp: &bool| if *tcp { " tcp" } else { " unix" };
        match self {
            KvSystem::Longarm { put: PutWay::OneSided, layout, .. } => write!(f, "longarm {layout} alone"),
            KvSystem::Longarm { get: GetWay::OneSided, layout, .. } => write!(f, "longarm {layout}"),
            KvSystem::Longarm { get, layout: KvLayout::Tree, .. } => write!(f, "longarm tree {}", get.name()),
            KvSystem::Longarm { get, .. } => write!(f, "longarm {}", get.name()),
            KvSystem::Resp { program, tcp } => write!(f, "{}{}", program.trim_end_matches("-server"), socket(tcp)),
            KvSystem::Memcached { tcp } => write!(f, "memcached{}", socket(tcp)),
        }
    }
}

/// One measurement.
#[derive(Clone, Debug)]
pub(super) struct KvCase {
    pub(super) system: KvSystem,
    pub(super) workload: Workload,
    pub(super) depth: usize,
    pub(super) clients: u16,
    pub(super) load: ServerLoad,
    pub(super) keys_by: KeyChoice,
}

impl KvBenchArgs {
    /// The same for values of this length.
    pub(super) fn with_size(&self, size: u64) -> KvBenchArgs {
        KvBenchArgs { size, ..self.clone() }
    }

    /// The systems to measure.
    pub(super) fn systems(&self) -> Result<Vec<KvSystem>, Error> {
        self.workloads()?;
        self.depths()?;
        if let Some(size) = self.sizes.iter().find(|size| **size > 4 << 20) {
            return Err(Error::Usage(format!("--size {size}: this measures values of up to 4 MiB")));
        }
        let parse = |name: &str| {
            KvSystem::parse(name).ok_or_else(|| Error::Usage(format!("--system {name}: `--help` lists the systems")))
        };
        let mut systems: Vec<KvSystem> = Vec::new();
        for system in self.system.split(',').map(parse) {
            let system = system?;
            for way in &self.put {
                let system = system.with_put(*way)?;
                if !systems.contains(&system) {
                    systems.push(system);
                }
            }
        }
        let reach = [GetWay::OneSided, GetWay::Rpc];
        let is_reached = |system: &KvSystem| matches!(system, KvSystem::Longarm { get, layout: KvLayout::Cluster, .. } if reach.contains(get));
        if !self.servers.is_empty()
            && (!systems.iter().all(is_reached) || self.depths()?.iter().any(|depth| *depth > 1))
        {
            return Err(Error::Usage("--servers goes with --system kv or kv-rpc, and --depth 1".into()));
        }
        match systems.iter().find(|system| self.has_scans() && !system.has_order()) {
            Some(system) => Err(Error::Usage(format!(
                "--workload e: it scans ranges of keys, and {system} has no order; trees, redis and valkey have one"
            ))),
            None => Ok(systems),
        }
    }

    /// True if keys have to be kept in order.
    pub(super) fn has_scans(&self) -> bool {
        self.workloads().is_ok_and(|workloads| workloads.contains(&Workload::E))
    }

    fn workloads(&self) -> Result<Vec<Workload>, Error> {
        if !self.reads.is_empty() {
            return Ok(self.reads.iter().copied().map(Workload::Reads).collect());
        }
        self.workload
            .chars()
            .filter(|letter| *letter != ',')
            .map(Workload::parse)
            .collect::<Result<_, _>>()
            .map_err(Error::Usage)
    }

    fn depths(&self) -> Result<Vec<usize>, Error> {
        let parse = |text: &str| text.parse().ok().filter(|depth| (1..=1024).contains(depth));
        let all: Option<Vec<usize>> = self.depth.split(',').map(parse).collect();
        all.ok_or_else(|| Error::Usage(format!("--depth {}: give numbers from 1 to 1024", self.depth)))
    }

    /// The measurements of a system.
    pub(super) fn cases(&self, system: &KvSystem) -> Vec<KvCase> {
        let (workloads, depths) = (self.workloads().unwrap_or_default(), self.depths().unwrap_or_default());
        let mut cases = Vec::new();
        for &workload in &workloads {
            for &load in &self.server_load {
                for &clients in &self.clients {
                    let case = |depth: &usize| KvCase {
                        system: system.clone(),
                        workload,
                        depth: *depth,
                        clients,
                        load,
                        keys_by: self.keys_by,
                    };
                    cases.extend(depths.iter().map(case));
                }
            }
        }
        cases
    }
}

fn put_way(name: &str) -> Result<PutWay, String> {
    let way = PutWay::ALL.into_iter().find(|way| way.name() == name);
    way.ok_or_else(|| format!("{name}: PUTs go by rpc or one-sided"))
}
