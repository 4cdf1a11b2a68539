//! A key-value store that clients read by RDMA, without the server's processor.
//!
//! A server has tables, one for each tenant. A client reads a value out of the server's memory alone, with one or two READs. The
//! server's program may do something else meanwhile, or be stopped. All changes go to the server by RPC.
//!
//! ```no_run
//! use longarm_kv::{KvOptions, KvServer, KvTable, TableOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = KvServer::builder().table("sessions", TableOptions::default()).bind("127.0.0.1:7480")?;
//!
//! let mut table = KvTable::open("127.0.0.1:7480", "sessions", KvOptions::default())?;
//! let version = table.put(b"alice", b"tuesday")?;
//! assert_eq!(table.get(b"alice")?.map(|value| value.bytes), Some(b"tuesday".to_vec()));
//! table.compare_and_put(b"alice", b"friday", version)?;
//! # drop(server);
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! ```text
//!  client                operations, GETs by READs, sessions
//!  tasks                 the same as futures
//!  server                tables, grants, threads
//!  protocol, proof       messages between them; who may do it
//!  envelope, clock       what stands before each value: its expiry and its stamp
//!  surroundings          time and sleep; in a simulation those of its world
//! ```
#![forbid(unsafe_code)]

mod client;
mod clock;
mod device_get;
mod envelope;
mod error;
mod proof;
mod protocol;
mod server;
#[cfg(any(test, feature = "sim"))]
#[doc(hidden)]
pub mod sim;
mod surroundings;
mod tasks;

pub use client::{AskedMember, GetWay, KvCluster, KvItem, KvOptions, KvStats, KvTable, KvValue, PutWay, TimeToLive};
#[cfg(feature = "etcd")]
pub use cluster::EtcdCoordinator;
pub use cluster::{
    ClusterConfig, ClusterMember, ClusterOrder, ConfigError, Coordinator, CoordinatorError, HashSlot, LocalCoordinator,
    MemberId, MemberOptions, NotServing, SLOTS, ServingRight, ShareMove,
};
pub use envelope::KvVersion;
pub use error::KvError;
pub use journal::FsyncRule;
pub use proof::TableSecret;
pub use protocol::{PutExpiry, PutIf, TableClient};
pub use remote::{KeyRange, ShortSecret, serve_memory};
pub use server::{
    DataError, DataFigures, DataOptions, DataReport, KvLayout, KvServer, KvServerBuilder, KvServerError, MemberLag,
    MemberStatus, MembershipOptions, TableFigures, TableOptions, UnknownLayout, WhenFull, backup_data, check_data,
    repair_data, restore_data,
};
pub use server::{
    KeyHead, LocalPut, LocalTable, LockedTable, MOST_MESSAGE_BYTES, MemberMessages, SlotEntry, SlotRefusal,
    UnknownChanges,
};
pub use tasks::{AsyncKvCluster, AsyncKvTable};
