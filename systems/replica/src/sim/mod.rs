//! Seeded checks: members with tables, a coordinator's configurations, and a network that delays, loses and repeats.
//!
//! A seed decides how many members and replicas there are, and which client asks which member. It decides whether members have disks, and
//! when they crash, one or all of them, or are cut off from the coordinator. They return empty or with their disks. It decides how long
//! terms are and messages take, when a wish comes true, and when an operator moves slots or drains a member. Terms and
//! configurations are those of `longarm-cluster`: a member serves until its term ends, and is deposed behind that.
//!
//! The rules:
//!
//! - Operations on each key are linearizable, those by requests and READs of the primary's memory together. An operation
//!   without an answer may have happened or not.
//! - When all faults are over, no share moves any more, and no member has keys of slots in which it has no part.
//! - When all faults are over, each share with a primary has its backups, and they have the same keys and values.
//!
//! More seeds: `LONGARM_SEEDS=100000 cargo test --release -p longarm-replica simulation`.

mod clients;
#[path = "../../../kv/src/sim/history.rs"]
mod history;
mod moves;
mod node;
mod table;
mod tests;
mod world;
