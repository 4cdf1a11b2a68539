//! Building, running and ending a server.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster::{ClusterConfig, Coordinator, KeptData, MemberHandle, MemberOptions, configuration_methods};
use journal::Disk;
use longarm::Listener;
use longarm_rpc::{Server, ServerOptions};

use crate::server::data::DataThread;
use crate::server::durable::{DataDirectory, DataError, DataFigures, DataOptions, run_reply};
use crate::server::error::KvServerError;
use crate::server::figures::TableFigures;
use crate::server::grants::Grants;
use crate::server::local::LocalTable;
use crate::server::placement::Placement;
use crate::server::replication::{
    MemberStatus, Membership, MembershipOptions, ReplicaLog, Replication, Steward, replica_methods,
};
use crate::server::separate::{self, SeparateMemory};
use crate::server::served::{ServedTable, TableOptions};
use crate::server::service::{KvService, methods};
use crate::server::uploads::Uploads;

/// The time that looking up the name of the address may take.
const BIND: Duration = Duration::from_secs(10);

/// Tables and settings of a server to be.
///
/// ```no_run
/// use longarm_kv::{KvServer, TableOptions};
///
/// # fn main() -> Result<(), longarm_kv::KvServerError> {
/// let server = KvServer::builder().table("sessions", TableOptions::default()).bind("0.0.0.0:7480")?;
/// println!("serving at {}", server.local_addr());
/// server.wait();
/// # Ok(())
/// # }
/// ```
#[must_use = "`bind` starts the server"]
pub struct KvServerBuilder {
    tables: Vec<(String, TableOptions)>,
    rpc: ServerOptions,
    upload_bytes: u64,
    separate: Option<Command>,
    data: Option<DataOptions>,
    disk: Option<Arc<dyn Disk>>,
    cluster: Option<(ClusterConfig, String)>,
    membership: Option<Membership>,
}

impl KvServerBuilder {
    /// Adds a table.
    pub fn table(mut self, name: impl Into<String>, options: TableOptions) -> KvServerBuilder {
        self.tables.push((name.into(), options));
        self
    }

    /// Replaces the settings of the RPC server: threads, ways, sizes.
    pub fn rpc(mut self, options: ServerOptions) -> KvServerBuilder {
        self.rpc = options;
        self
    }

    /// Bounds the private memory for long values on their way, of all clients: 1 GiB without this call.
    pub fn upload_bytes(mut self, bytes: u64) -> KvServerBuilder {
        self.upload_bytes = bytes;
        self
    }

    /// Lets another process expose the tables' memory. Clients GET from it over packets, also while this process is stopped, and
    /// for 10 minutes after it was killed. The command's program calls [`serve_memory`](crate::serve_memory).
    ///
    /// A server that is started again at the same port ends that process first. Its clients then find the new server.
    pub fn separate_memory(mut self, command: Command) -> KvServerBuilder {
        self.separate = Some(command);
        self
    }

    /// Keeps all tables on disk. Tables that are there already get what they had.
    pub fn data(mut self, options: DataOptions) -> KvServerBuilder {
        self.data = Some(options);
        self
    }

    /// Replaces the files of the data's directory, in tests: `longarm-journal` has a simulated disk.
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> KvServerBuilder {
        self.disk = Some(disk);
        self
    }

    /// Makes it the member with that name of a cluster whose configuration never changes. It refuses keys of other members'
    /// slots ([`KvError::Moved`](crate::KvError::Moved)), and tells clients the configuration. GETs by READs are not refused: a
    /// key of another member is absent here. [`KvCluster`](crate::KvCluster) asks the right one.
    ///
    /// ```
    /// use longarm_kv::{ClusterConfig, KvServer};
    ///
    /// # fn main() -> Result<(), longarm_kv::ConfigError> {
    /// let config = ClusterConfig::fixed(&[("a", "host1:7480"), ("b", "host2:7480")])?;
    /// let builder = KvServer::builder().cluster(config, "a");
    /// # drop(builder);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cluster(mut self, config: ClusterConfig, name: impl Into<String>) -> KvServerBuilder {
        self.cluster = Some((config, name.into()));
        self
    }

    /// Makes it a member of a cluster whose members come and go, and keep backups of each other's keys. The coordinator is
    /// `EtcdCoordinator` (feature `etcd`), or one in memory in tests. No answer leaves before all backups have what it
    /// tells (`docs/replication.md`).
    ///
    /// With [`data`](KvServerBuilder::data) the directory belongs to the member from its first start on. With
    /// [`FsyncRule::Always`](crate::FsyncRule::Always) an answer also waits for the disks of this member and its backups. With the other
    /// rules, a member that starts again first asks those that live to serve its slots.
    ///
    /// Not together with [`cluster`](KvServerBuilder::cluster), [`separate_memory`](KvServerBuilder::separate_memory), tables that
    /// clients write, and trees.
    pub fn member(mut self, options: MembershipOptions, coordinator: impl Coordinator + 'static) -> KvServerBuilder {
        self.membership = Some(Membership { options, coordinator: Box::new(coordinator) });
        self
    }

    /// Makes the tables, listens at an address, `host:port`, and starts the threads. Another port, which the system chooses, is
    /// for connections for READs; clients learn it.
    ///
    /// # Errors
    /// See [`KvServerError`].
    pub fn bind(self, address: &str) -> Result<KvServer, KvServerError> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let listener = Listener::bind(format!("{host}:0").as_str()).wait(BIND).map_err(start)?;
        let device = listener.open_device().map_err(start)?;
        let queue = device.completion_queue().map_err(start)?;
        let mut tables: Vec<Arc<ServedTable>> = Vec::new();
        for (name, options) in self.tables {
            if tables.iter().any(|table| table.name == name) {
                return Err(KvServerError::Table { table: name, why: "there are two of this name".into() });
            }
            tables.push(Arc::new(ServedTable::create(name, options, &device)?));
        }
        if let Some(membership) = &self.membership {
            let others = [
                (self.cluster.is_some(), "a fixed cluster"),
                (self.separate.is_some(), "memory in a process of its own"),
            ];
            if let Some((_, other)) = others.into_iter().find(|(is_there, _)| *is_there) {
                return Err(start(format!("a member with backups cannot have {other} (yet)")));
            }
            membership.check(&tables)?;
        }
        let fixed = self.cluster.map(|(config, name)| Placement::fixed(config, &name)).transpose().map_err(start)?;
        let separate = match self.separate {
            Some(command) => Some(Arc::new(SeparateMemory::start(command, address, &tables)?)),
            None => {
                separate::end_left(address)?;
                None
            }
        };
        let data_port = separate.as_ref().map_or(listener.local_addr().port(), |memory| memory.port());
        let grants = Arc::new(Grants::new(separate));
        if let Some(table) = tables.iter().find(|table| table.options.writable && self.data.is_some()) {
            let why = "clients write into it alone, and the log on disk would miss that".into();
            return Err(KvServerError::Table { table: table.name.clone(), why });
        }
        let name = self.membership.as_ref().map(|membership| membership.options.member.name.as_str());
        let open = |options: DataOptions| DataDirectory::open(&options, self.disk, &tables, name);
        let durable = self.data.map(open).transpose()?;
        let (placement, member) = match self.membership {
            None => (fixed.unwrap_or(Placement::Alone), None),
            Some(membership) => {
                let (replication, member) = begin_membership(membership, &tables, durable.as_ref())?;
                (Placement::Replicated(replication), Some(member))
            }
        };
        let service = Arc::new(KvService {
            tables: tables.clone(),
            grants: Arc::clone(&grants),
            uploads: Uploads::new(self.upload_bytes),
            data_port,
            durable,
            placement,
        });
        let mut rpc = Server::builder().options(self.rpc).add_service(methods(&service))?;
        if let Some(right) = service.placement.right() {
            rpc = rpc.add_service(configuration_methods(right))?;
        }
        if let Some(replication) = service.placement.replication() {
            rpc = rpc.add_service(replica_methods(replication))?;
        }
        if service.durable.is_some() || member.is_some() {
            rpc = rpc.executor(run_reply);
        }
        let rpc = rpc.bind(address)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let data = DataThread { listener, queue, grants, tables, stopping: Arc::clone(&stopping) };
        let thread = thread::Builder::new().name("kv-data".into()).spawn(move || data.run()).map_err(start)?;
        let replication = service.placement.replication().cloned().zip(member);
        let steward = replication.map(|(replication, member)| Steward::start(replication, member)).transpose()?;
        Ok(KvServer { rpc: Some(rpc), service, stopping, data: Some(thread), steward })
    }
}

/// Becomes a member. From now on each change of the tables goes to backups.
fn begin_membership(
    membership: Membership,
    tables: &[Arc<ServedTable>],
    durable: Option<&DataDirectory>,
) -> Result<(Arc<Replication>, MemberHandle), KvServerError> {
    let Membership { options, coordinator } = membership;
    let life = durable.and_then(|durable| durable.life.as_ref());
    let kept = life.map(|(life, _)| KeptData { incarnation: life.incarnation, may_lack: life.may_lack });
    let member = MemberOptions { moves_slots: true, kept, ..options.member.clone() };
    let member = MemberHandle::start(member, coordinator).map_err(start)?;
    let replication = Arc::new(Replication::new(member.right().clone(), tables.to_vec(), &options, durable));
    for (number, table) in replication.tables().iter().enumerate() {
        let number = u16::try_from(number).map_err(|_| start("there are too many tables for records"))?;
        // On disk, tables have their places among the server's.
        let place = tables.iter().position(|other| Arc::ptr_eq(other, table));
        let own = durable.zip(place).map(|(durable, place)| durable.table_log(place));
        let log = ReplicaLog::new(Arc::clone(&replication), number, own);
        table.writer.lock().begin_logging(Box::new(log));
    }
    Ok((replication, member))
}

/// A server that runs. Dropping it ends it at once.
pub struct KvServer {
    rpc: Option<Server>,
    service: Arc<KvService>,
    stopping: Arc<AtomicBool>,
    data: Option<JoinHandle<()>>,
    /// Ends behind the RPC server, which serves until then.
    steward: Option<Steward>,
}

impl KvServer {
    /// Starts a server without tables.
    pub fn builder() -> KvServerBuilder {
        KvServerBuilder {
            tables: Vec::new(),
            rpc: ServerOptions::default(),
            upload_bytes: 1 << 30,
            separate: None,
            data: None,
            disk: None,
            cluster: None,
            membership: None,
        }
    }

    /// The address at which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.rpc.as_ref().map_or(SocketAddr::from(([0; 4], 0)), Server::local_addr)
    }

    /// A table for callers in this process. `None` if the server has none of that name, or clients
    /// [write](TableOptions::writable) into it alone. Callers in a member of a cluster have to ask
    /// [`LocalTable::serving_right`], and with backups [`LockedTable::enter`](crate::LockedTable::enter).
    pub fn local_table(&self, name: &str) -> Option<LocalTable> {
        let mut tables = self.service.tables.iter();
        let table = tables.find(|table| table.name == name && !table.options.writable)?;
        let journal = self.service.durable.as_ref().map(|durable| Arc::clone(&durable.journal));
        Some(LocalTable::new(Arc::clone(table), journal, self.service.placement.clone()))
    }

    /// The figures of each table, by name. Those of the process are zero.
    pub fn figures(&self) -> Vec<(String, TableFigures)> {
        self.service.tables.iter().map(|table| (table.name.clone(), table.figures())).collect()
    }

    /// Its state as a member of a cluster with backups; `None` for any other.
    pub fn member_status(&self) -> Option<MemberStatus> {
        self.service.placement.replication().map(|replication| replication.status())
    }

    /// The figures of the data on disk; `None` for a server without.
    pub fn data_figures(&self) -> Option<DataFigures> {
        self.service.durable.as_ref().map(DataDirectory::figures)
    }

    /// Writes a snapshot of all tables now, and waits for it. Snapshots happen by themselves, too.
    ///
    /// # Errors
    /// If the system refuses, or the server keeps nothing on disk.
    pub fn snapshot(&self) -> Result<(), DataError> {
        let none = || DataError::Content("the server keeps nothing on disk".into());
        self.service.durable.as_ref().ok_or_else(none)?.snapshot()
    }

    /// Takes no more requests, answers those that it has for `timeout` at most, and ends. Then all changes are on disk that anybody
    /// has made, if the server keeps its tables there. Returns true if all requests were answered in time.
    ///
    /// Callers in this process, such as a front door, must have ended before: the server cannot tell them.
    ///
    /// # Errors
    /// If the disk failed: then nobody knows which of the last changes will be there after a restart.
    pub fn shut_down(mut self, timeout: Duration) -> Result<bool, KvServerError> {
        let is_answered = self.rpc.take().is_none_or(|rpc| rpc.shut_down(timeout));
        if let Some(durable) = &self.service.durable {
            durable.journal.wait(durable.journal.appended()).map_err(DataError::from)?;
        }
        Ok(is_answered)
    }

    /// Waits until the server ends, which it does not by itself.
    pub fn wait(mut self) {
        if let Some(rpc) = self.rpc.take() {
            rpc.wait();
        }
    }
}

impl Drop for KvServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.rpc = None;
        self.steward = None;
        self.data.take().map(JoinHandle::join);
        if self.service.placement.replication().is_some() {
            // The tables' logs know the replication, which knows the tables: nobody else would let go of the log on disk.
            self.service.tables.iter().for_each(|table| table.writer.lock().end_logging());
        }
    }
}

impl std::fmt::Debug for KvServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KvServer({}, {} tables)", self.local_addr(), self.service.tables.len())
    }
}

fn start(why: impl ToString) -> KvServerError {
    KvServerError::Start(why.to_string())
}
