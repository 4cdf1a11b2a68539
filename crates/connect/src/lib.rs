//! The connection manager of a process: ids, addresses, ports and events, as `rdma_cm(7)` has them.
//!
//! ```text
//!  rdma_* (C)    r* (rsockets)    longarm::{connect, listen}
//!       \             |             /
//!        Id ── EventQueue                    this crate: who is bound to what, what an id may do now
//!         │        ▲
//!     cm::Manager ─┘  one thread: MADs in, timers
//!         │
//!     hub::client::manager ── hub ── QP1 on UDP 4791
//! ```
//!
//! An [`Id`] is a communication identifier: bound to an address, listening, or one end of a
//! connection. What happens to it arrives as [`Event`]s in its [`EventQueue`]. The crate makes no
//! queue pair and touches none: it says which attributes one needs for its next state
//! ([`Id::qp_attr`]), and carries its number to the peer.
//!
//! Everything of a process shares one session with the hub and one thread, both started with the
//! first id. If the process dies, the hub tells the peers in its place; if the hub dies, the
//! session finds a new one and connections do not notice.
//!
//! What this crate does not know: queue pairs, completion queues, memory, the verbs ABI.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod error;
mod event;
mod id;
mod process;
mod queue;
mod random;
mod route;
mod space;
mod state;
mod unreliable;

pub use cm::Ece;
pub use error::Error;
pub use event::{ConnParam, DatagramParam, Event, EventKind, Param, PrivateData};
pub use id::{Binding, CONSUMER_DEFINED, Id, IdKey};
pub use process::Hold;
pub use process::takeover::take_over;
pub use queue::EventQueue;
pub use space::PortSpace;
