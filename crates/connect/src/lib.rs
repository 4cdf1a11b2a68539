//! The connection manager of a process: ids, addresses, ports and events, as `rdma_cm(7)` has them.
//!
//! ```text
//!  rdma_* (C)    r* (rsockets)    longarm::{connect, listen}
//!       \             |             /
//!        Id ── EventQueue         id, event_queue: the callers' handles
//!         │        ▲
//!       process ───┘              the lock, the thread, the owner of each id's events
//!         │
//!     connections                 the state of the ids; returns events
//!      │       │
//!  cm::Manager hub::client::manager ── hub ── QP1 on UDP 4791
//! ```
//!
//! Imports point down, but for one circle: events hold ids, ids hold the process, and the process holds the queues of
//! events.
//!
//! An [`Id`] is a communication identifier: bound to an address, listening, or one end of a
//! connection. Its [`Event`]s arrive in its [`EventQueue`]. The crate makes no queue pair. It tells which
//! attributes one needs for its next state ([`Id::qp_attr`]), and sends the queue pair's number to the peer.
//!
//! All ids of a process share one session with the hub and one thread, both started with the
//! first id. If the process dies, the hub sends its closing messages to the peers. If the hub dies, the
//! session finds a new one, and connections stay.
//!
//! This crate does not know: queue pairs, completion queues, memory, the verbs ABI.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod connections;
mod error;
mod event;
mod event_queue;
mod id;
mod injected_faults;
mod process;
mod random;
mod space;
mod takeover;

pub use cm::Ece;
pub use connections::{Binding, IdKey};
pub use error::Error;
pub use event::{ConnParam, DatagramParam, EventKind, Param, PrivateData, UDP_QKEY};
pub use event_queue::{Event, EventQueue};
pub use id::{CONSUMER_DEFINED, Id};
pub use process::{SessionHold, take_over};
pub use space::PortSpace;
