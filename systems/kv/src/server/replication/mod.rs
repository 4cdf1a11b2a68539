//! A member of a cluster with backups: the protocol of `longarm-replica` between the tables of several servers.
//!
//! ```text
//!  options   settings            core     the primary's end, under one lock; answers that wait for backups
//!  log       changes of a table on their way to backups         writer   changes of primaries on their way into a table
//!  store     the tables as a backup has them                    copy     the copy for members that join
//!  peers     a thread for each member that gets records         link     its connection
//!  steward   the thread that follows configurations             service  methods for other members and for clients
//!  moves     shares that move here and away                     left_keys  keys of slots that are gone
//!  replies   answers that wait          words     messages      passes   proofs between members
//!  messages  between the front doors of all members             mail       those on their way
//!  own_log   the log on disk, if answers wait for it            own_watch  lets them leave
//!  entry     operations of callers in this process
//! ```
//! Locks are taken in this order: the receiver, a table, the sender, the waiting answers.

mod copy;
mod core;
mod entry;
mod left_keys;
mod link;
mod log;
mod mail;
mod messages;
mod moves;
mod options;
mod own_log;
mod own_watch;
mod passes;
mod peers;
mod replies;
mod service;
mod steward;
mod store;
mod words;
mod writer;

pub use entry::{SlotEntry, SlotRefusal, UnknownChanges};
pub use mail::MOST_MESSAGE_BYTES;
pub use messages::MemberMessages;
pub use options::MembershipOptions;
pub use words::{MemberLag, MemberStatus};

pub(crate) use core::Replication;
pub(crate) use entry::wait_for_backups;
pub(crate) use log::ReplicaLog;
pub(crate) use options::Membership;
pub(crate) use passes::own_proof;
pub(crate) use replies::{deferred, guarded, settled};
pub(crate) use service::replica_methods;
pub(crate) use steward::Steward;
pub(crate) use words::{GREET, GreetReply, ORDER, OrderRequest, STANDING, STATUS, StandingReply};
