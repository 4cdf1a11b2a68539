//! The client: a table as a program uses it.
//!
//! ```text
//!  table      operations          get       GETs, one-sided and by RPC       long   values in pieces
//!  range      ranges of ordered tables, one-sided and by RPC
//!  put_alone  PUTs by lock, WRITE, unlock
//!  choose     requests whose way the client chooses      choice  from its own measurements
//!  reader     the connection for READs      report   GETs that the server did not see
//!  session    the RPC session, and the right to the table: made again when they are lost
//!  placed     one table on several servers
//!  opening    the messages that prove who may open a table
//! ```

mod choice;
mod choose;
mod device;
mod get;
mod long;
mod opening;
mod options;
mod placed;
mod put_alone;
mod range;
mod reader;
mod report;
mod session;
mod table;

pub use get::KvValue;
pub(crate) use get::judge;
pub(crate) use opening::TableOpening;
pub use options::{GetWay, KvOptions, PutWay};
pub use placed::KvCluster;
pub use range::KvItem;
pub(crate) use reader::LOCKED;
pub(crate) use report::ReadReport;
pub(crate) use session::Repeat;
pub use table::{KvStats, KvTable, TimeToLive};
pub(crate) use table::{LATER, is_long, scanned_keys};
