//! The client for asynchronous programs: any number of tasks share its connections.
//!
//! ```text
//!  table     changes, scans          get     GETs by READs and by request      long   values in pieces
//!  reader    the connection for READs
//!  core      the right to the table, requests, and all that tasks share
//!  pause     time limits and pauses for any runtime
//! ```

mod core;
mod get;
mod long;
mod pause;
mod reader;
mod table;

pub use table::AsyncKvTable;
