//! Ids and events of the connection manager (`librdmacm.so.1`).
//!
//! ```text
//!  id (Id), event_queue (EventQueue, Event)      the callers' handles
//!        │             │
//!  binding, addresses  failures, translate       devices and events, in our words
//!        │             │
//!     owned_id      channel                      one object of the library each, and the calls on it
//!        └──────┬──────┘
//!     param, path, room, context, error          values, in our words and in C's
//! ```
//!
//! Imports point down, but for one circle: events and failures hold ids, and ids hold the queue of their events.
//!
//! The types have the methods of those in the crate `connect`, with the same meaning, and share its values. These are
//! the differences:
//!
//! * [`Id::bind`] and [`Id::resolve_addr`] make the library's id, by `rdma_create_ep(3)`: it is the only function that
//!   takes a transport service. So a bound id cannot be resolved.
//! * [`Id::resolve_addr`] resolves the route as well, and waits for both. No event reports them.
//! * [`Id::reject`] gives the peer no other reason than [`CONSUMER_DEFINED`](connect::CONSUMER_DEFINED).
//! * [`Id::set_mtu`] may change the local port, and [`Id::local_addr`] with it.
//! * Until the program accepts a request, the kernel does not report that the peer has given up. Accepting fails then.

pub(crate) mod addresses;
mod binding;
mod channel;
mod context;
mod error;
mod event_queue;
mod failures;
mod id;
mod owned_id;
mod param;
mod path;
mod room;
mod translate;

pub use event_queue::{Event, EventQueue};
pub use id::Id;
