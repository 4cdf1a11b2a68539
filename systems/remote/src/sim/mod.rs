//! Seeded checks: a writer's single stores, and readers whose READs copy pieces in any order while the stores go on.
//!
//! ```text
//!  seed ─► Story: operations of an owner, each store of a word with its number ─► Timeline
//!                                                                                  │ plants: bugs that must be found
//!           readers: each READ copies its pieces at random numbers of stores ◄─────┘
//!              │
//!              └► History: was each answer true at some time of its lookup, and after all earlier answers?
//! ```
//! The owner never sees its readers, so its stores are made first, and the readers then travel through them.
//!
//! The rules:
//!
//! - A value that a lookup returns was current at some time between its begin and its end; a key that it calls absent was absent.
//! - No lookup returns an older state than a lookup that had ended before it began. (With the first rule: linearizability.)
//! - A scan returns keys in ascending order, none twice, and each of the range that was there from its begin to its end.
//! - A lookup or scan during which nothing is stored has an answer.
//! - While the writer stands still in the middle of an operation on one key, lookups of other keys that are there find them.

mod history;
mod owners;
mod peer;
mod plant;
mod readers;
mod reads;
mod run;
mod scans;
mod searches;
mod story;
#[cfg(test)]
mod tests;
mod timeline;

pub use plant::{Plant, Unchecked};
pub use run::{SeedFailure, SeedReport, SimKind, run_planted, run_seed};
