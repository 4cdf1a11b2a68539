//! Replication of tables from a primary to its backups, as values: no clock, no thread, no connection.
//!
//! ```text
//!  primary                                            backup
//!   ReplicaSender ── change ──► link: a stream ──►  ReplicaReceiver ──► ReplicaStore: its own tables
//!    settled? ◄── acknowledgements ──────────────       └── ShareRoles: refuses a primary that was deposed
//! ```
//! A stream to a backup begins with a copy of all keys of a share, while changes go on; then only changes follow. An answer waits until
//! all backups have the change, or a configuration came without them. `docs/replication.md` has the argument; the seeded
//! checks in `sim` crash every member at every step.
#![forbid(unsafe_code)]

mod receiver;
mod record;
mod roles;
mod sender;
#[cfg(test)]
mod sim;
mod tenure;

pub use receiver::{BatchRefusal, KeySet, ReplicaReceiver, ReplicaStore, StoreRefusal};
pub use record::ReplicaRecord;
pub use roles::{RecordSource, ShareRoles};
pub use sender::{
    BatchAck, BatchHead, ChangeState, CopyCursor, CopyTask, HandOverAnswer, HandOverAsk, ReplicaBatch, ReplicaLag,
    ReplicaSender, SenderOptions,
};
