//! `librdmacm.so.1`: the connection manager's calls, `rdma_cm(7)`.
//!
//! ```text
//!  rdma_* ─► this module ─► connect::Id, EventQueue     ids, ports, events
//!               │
//!               └─► verbs (this crate)                  contexts, queue pairs, completion queues
//! ```
//!
//! A `struct rdma_cm_id` is a [`connect::Id`] with the queue pair that programs let the library
//! take through its states. One verbs context per device serves all ids of the process
//! ([`devices`]). The consequences of an event (a queue pair's states, a multicast group's
//! attachment) take effect when the program fetches it ([`event`]). An id without a channel gets one of
//! its own, and each call waits there for its event ([`sync`]).

pub(crate) mod accept;
pub(crate) mod address;
pub(crate) mod addrinfo;
pub(crate) mod bind;
pub(crate) mod channel;
pub(crate) mod connect;
pub(crate) mod devices;
pub(crate) mod ece;
pub(crate) mod ep;
pub(crate) mod event;
pub(crate) mod event_effects;
pub(crate) mod event_object;
pub(crate) mod fetched;
pub(crate) mod id;
pub(crate) mod id_object;
pub(crate) mod id_state;
pub(crate) mod multicast;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod param;
pub(crate) mod qp;
pub(crate) mod queues;
pub(crate) mod resolver;
pub(crate) mod route;
pub(crate) mod srq;
pub(crate) mod states;
pub(crate) mod sync;
