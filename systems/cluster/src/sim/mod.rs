//! Seeded checks: members with clocks of their own, a coordinator, and a network between them that loses, delays and splits.
//!
//! A seed decides how many members there are, when they crash, return (with their data or without), pause, are cut off, leave
//! or wish something. It decides when shares move, members are drained, and data have come. It decides when the coordinator is away, how long each message takes, and how fast each clock runs.
//!
//! The rules, checked after each event (a right begins with an event only, so this finds any moment with two):
//!
//! - At most one member may serve a slot at any moment, by its own clock. A member that pauses counts.
//! - The epoch of the coordinator's configuration grows by one each time; no member and no client sees it go back.
//! - No client reads a member's memory alone while another member may serve the slot. It reads by its own clock and the term that
//!   it was told.
//! - A share gets a new primary only from its backups, or the last life that served it. (Without replicas: any member.)
//! - A member that is deposed has no right at that moment.
//! - When all faults are over, members that live belong to the cluster, and each share with a primary is served. No share moves
//!   any more, and members that are drained serve nothing.

mod clock;
mod events;
mod member;
mod moves;
mod readers;
mod rules;
mod run;
#[cfg(test)]
mod tests;
mod world;

pub use events::SimPlant;
pub use run::{ClusterSimFailure, ClusterSimReport, run_cluster_seed};
