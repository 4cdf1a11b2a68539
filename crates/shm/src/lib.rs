//! The memory that two processes of one user on one host share: keys, rings, descriptors.
//!
//! ```text
//!   process A                                              process B
//!   Link ── Producer ──► lanes of A ─────────────────────► Consumer ── Link
//!    │      Consumer ◄───────────────────── lanes of B ◄── Producer     │
//!    │      enter ─► hazards of A ◄─ wait_for_peer_accesses             │
//!    │          Peer: keys and queue pairs ◄── Export of B (A cannot write it)
//!    │                objects ◄── their descriptors ◄── socket
//! ```
//!
//! An [`Export`] shows what a process has; a [`Link`] joins two processes. With both a process
//! reads and writes the registered memory of the other by itself, and sends it frames.
//!
//! What is promised:
//! - A process that is killed at any instruction leaves nothing locked and nothing half sent.
//! - After a key was closed and [`Link::wait_for_peer_accesses`] returned, no honest
//!   peer uses its memory.
//! - Whatever a peer writes into shared memory or sends, nothing but its own link suffers: words are
//!   copied out before they are checked, lengths and positions bounded, files checked to keep their size.
//!   (It can of course write what it has been given to write: it is a process of the same user.)
//!
//! What the crate does not know: queue pairs but by number, work requests, what a frame
//! means, who introduces two processes.
//!
//! The unsafe parts have an address each: `mapping` maps files and gives them a layout, `lane` copies
//! frames, `objects` hands out spans of mapped objects, `sys` and `peer` talk to the kernel.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod admission;
mod cells;
mod channel;
mod error;
mod export;
mod hazard;
#[cfg(test)]
mod hostile;
mod lane;
mod layout;
mod link;
mod mapping;
mod number_hash;
mod objects;
mod peer;
mod record;
mod sleep;
mod socket;
mod state;
mod sync;
mod sys;
#[cfg(test)]
mod testing;

pub use error::{Death, LinkError};
pub use export::{Export, SharedQp};
pub use lane::{Consumer, Frame, Producer, Room};
pub use layout::{LANES, MAX_FRAME_BYTES, MAX_SLOTS};
pub use link::{Hazard, Link, LinkEnds};
pub use objects::{MAX_OBJECTS, Object};
pub use peer::{Introduction, Known, Peer};
pub use socket::Served;
pub use state::{Side, Standing};
