//! Seeded simulation of the whole store: clients, a server, and the memory that both reach.
//!
//! ```text
//!  seed ─► plan: layout, clients, keys, faults, clocks
//!            │
//!  clients (KvTable) ──messages──► server (KvService, Grants, TableWriter)      plants: bugs that must be found
//!       └──READ, WRITE, compare-and-swap, word by word──► memory ◄──stores──┘
//!            │
//!            └► ledger: is the history of each key linearizable?
//! ```
//! Clients and server run the product's code, each on a thread of its own. One of them runs at a time. It lets others run at each
//! message, at a look at a clock, and between words of memory, for as long as the seed says. There it may also stand still or die.
//!
//! The rules:
//!
//! - The history of each key is linearizable, its expiry included. An operation whose outcome nobody knows happens once or never.
//! - A value has the bytes that somebody put.
//! - When the clients have ended, each key can be read and changed: nobody has left a lock.
//!
//! Left out: full memory (no plan reaches it yet), the log on disk, ranges, calls to the device, clusters, and clients in tasks. Sessions of `longarm-rpc` have a
//! simulator of their own. Here a session sends a request until it is answered, and the server carries it out once.

pub(crate) mod actor;
mod caller;
mod check;
mod client;
mod link;
mod memory;
mod plan;
mod plant;
mod reader;
mod record;
mod rest;
mod run;
mod server;
mod stage;
#[cfg(test)]
mod tests;
mod values;
mod world;

pub use plant::Plant;
pub use record::DeedCounts;
pub use run::{SeedFailure, SeedReport, run_planted, run_seed, trace_seed};
