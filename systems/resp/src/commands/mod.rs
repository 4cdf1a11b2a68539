//! The commands.
//!
//! ```text
//!  dispatch        who may execute which command now
//!  table, facts    all commands: names, numbers of arguments, keys; what Redis tells of them
//!  strings, set, counters, expiry, keys, keyspace, transactions, pubsub
//!  connection, clients, introspection, config, info, cluster
//! ```

pub(crate) mod clients;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod counters;
pub(crate) mod debug;
pub(crate) mod dispatch;
pub(crate) mod expiry;
pub(crate) mod facts;
pub(crate) mod info;
pub(crate) mod introspection;
pub(crate) mod keys;
pub(crate) mod keyspace;
pub(crate) mod pubsub;
pub(crate) mod set;
pub(crate) mod strings;
pub(crate) mod table;
pub(crate) mod transactions;

use crate::error::CommandError;

/// The end of a command: its reply is written, or it is refused.
pub(crate) type Outcome = Result<(), CommandError>;
