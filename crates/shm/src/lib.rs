//! The shared memory of two processes of one user on one host: keys, rings, descriptors.
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
//! An [`Export`] publishes the keys and queue pairs of a process; a [`Link`] joins two processes. With both,
//! a process reads and writes the registered memory of the other directly, and sends it frames.
//!
//! Guarantees:
//! - A process that is killed at any instruction leaves no lock taken and no frame half sent.
//! - A peer that looks at [`Peer::has_died`] behind an access knows whether it has reached a living process.
//! - After a key was closed and [`Link::wait_for_peer_accesses`] returned, no honest peer uses its memory.
//! - Arbitrary bytes from a peer, in shared memory or on the socket, harm only that peer's link. Words are
//!   copied out before they are checked, lengths and positions are bounded, and files must be sealed against
//!   shrinking. (The peer can of course write the memory that it was given for writing: it is a process of
//!   the same user.)
//!
//! Out of scope: the crate knows queue pairs only by number. It knows neither work requests, nor the meaning
//! of frames, nor the introduction of two processes.
//!
//! Each unsafe part has its module: `mapping` maps files and gives them a layout, `lane` copies frames,
//! `objects` returns spans of mapped objects, `sys` and `peer` call the kernel. `life` locks a mutex of the C library.
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
mod life;
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
pub use life::HeldLife;
pub use link::{Hazard, Link, LinkEnds};
pub use objects::{MAX_OBJECTS, Object};
pub use peer::{FoundRecord, IntroducedPeer, Peer};
pub use socket::Served;
pub use state::{LinkSide, Standing};
