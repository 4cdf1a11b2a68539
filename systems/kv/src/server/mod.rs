//! The server: tables, and the threads that serve them.
//!
//! ```text
//!  running    the builder, and the server that runs
//!  service    methods: from messages to tables
//!  local      tables for callers in this process
//!  data       connections for READs, each with a window of its own
//!  grants     rights of clients to tables      separate   memory that another process exposes
//!  placement, slots  the slots that this server of a cluster serves
//!  replication  members with backups
//!  served     a table with its memory and its secret
//!  table      the writer of a table: no thread, no connection, no clock
//!  ordered    ranges of an ordered table
//!  durable    tables on disk                        changes  the log, as a table's writer knows it
//!  locking, writers   locks of clients that PUT alone, and the end of such a client
//!  directory  the server's notes about keys        layout   tables of any layout
//! ```

mod changes;
mod data;
mod device;
mod directory;
mod durable;
mod error;
mod figures;
mod grants;
mod layout;
mod local;
mod locking;
mod ordered;
mod placement;
mod random;
mod replication;
mod running;
mod separate;
mod served;
mod service;
mod slots;
mod table;
#[cfg(test)]
mod table_tests;
mod uploads;
mod writers;

pub use durable::{
    DataError, DataFigures, DataOptions, DataReport, backup_data, check_data, repair_data, restore_data,
};
pub use error::KvServerError;
pub use figures::TableFigures;
pub use layout::{KvLayout, UnknownLayout};
pub use local::{LocalPut, LocalTable, LockedTable};
pub use replication::{
    MOST_MESSAGE_BYTES, MemberLag, MemberMessages, MemberStatus, MembershipOptions, SlotEntry, SlotRefusal,
    UnknownChanges,
};
pub use running::{KvServer, KvServerBuilder};
pub use served::TableOptions;
pub use table::{KeyHead, WhenFull};

pub(crate) use data::private_data;
pub(crate) use directory::tag_of;
pub(crate) use locking::is_locked;
#[cfg(any(test, feature = "sim"))]
pub(crate) use placement::Placement;
pub(crate) use replication::{GREET, GreetReply, ORDER, OrderRequest, STANDING, STATUS, StandingReply, own_proof};
pub(crate) use slots::is_handing_over;
#[cfg(any(test, feature = "sim"))]
pub(crate) use {
    data::parse_private_data,
    grants::{AdmittedWriter, ClientLink, DataEnd, Grants},
    layout::{OwnedTable, create as create_owner},
    served::ServedTable,
    service::KvService,
    uploads::Uploads,
};
