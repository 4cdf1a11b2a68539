//! Servers that belong together: members, hash slots, serving terms and configuration epochs.
//!
//! ```text
//!  server                                              coordinator: etcd, or memory
//!   MemberHandle ── beat, every fifth of a term ──►  members/…: last beat
//!        │               ◄── configuration ────────────────  config: epoch, members, slots
//!        ▼
//!   ServingRight ── check(slot) ──► handlers          client: ClusterClient ── asks any server for the configuration
//! ```
//! A member serves a slot if the configuration says so and its term lasts. The term begins with the last beat that the coordinator took. A
//! member that is silent for a whole term is deposed: another one replaces the configuration. So at most one member serves a slot at
//! any moment; the seeded checks in `sim` look for a moment with two.
//!
//! `docs/cluster.md` has the argument, the limits, and how to run etcd.
#![forbid(unsafe_code)]

mod agent;
mod client;
mod config;
mod coordinator;
#[cfg(feature = "etcd")]
mod etcd;
mod handover;
mod local;
mod member;
mod right;
mod service;
#[cfg(any(test, feature = "sim"))]
#[doc(hidden)]
pub mod sim;
mod slot;
mod term;

pub use client::{ClusterClient, ClusterClientError};
pub use config::wish::ConfigWish;
pub use config::{ClusterConfig, ClusterMember, ConfigError, MemberId, ShareMove, SlotMove, SlotShare};
pub use coordinator::{
    ClusterPicture, Coordinator, CoordinatorError, CoordinatorReply, CoordinatorRequest, MemberBeat, Revision,
};
#[cfg(feature = "etcd")]
pub use etcd::EtcdCoordinator;
pub use handover::{HandOverEnd, HandOvers};
pub use local::LocalCoordinator;
pub use member::{KeptData, MemberHandle, MemberOptions, MembershipError};
pub use right::{NotServing, ServingRight, SlotGrant, WishRefused};
pub use service::{CONFIGURATION, ClusterOrder, cluster_methods, configuration_methods};
pub use slot::{HashSlot, SLOTS};
pub use term::{DRIFT_DIVISOR, LONGEST_TERM, SHORTEST_TERM, boot_ns};
