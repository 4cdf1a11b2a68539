//! The client for asynchronous programs: any number of tasks share its connections.
//!
//! ```text
//!  table     changes, scans          get     GETs by READs and by request      long   values in pieces
//!  choose    GETs by the way that fits       range   ranges of ordered tables
//!  put_alone PUTs by lock, WRITE, unlock
//!  reader    the connection for READs        layouts  readers of each layout      device  GETs that the server's device carries out
//!  core      the right to the table, requests, and all that tasks share
//!  cluster   one table on several servers
//!  pause     time limits and pauses for any runtime
//! ```

mod choose;
mod cluster;
mod core;
mod device;
mod get;
mod layouts;
mod long;
mod pause;
mod put_alone;
mod range;
mod reader;
mod table;

pub use cluster::AsyncKvCluster;
pub use table::AsyncKvTable;
