//! Valkey's RDMA protocol ("Valkey Over RDMA", valkey.io/topics/RDMA): requests and replies as bytes that each side WRITEs into a
//! buffer of the other.
//!
//! ```text
//!  accept    connections that arrive, and those that end
//!  wire      the bytes of one connection
//!  control   the messages that tell where the buffers are
//! ```

mod accept;
mod control;
mod wire;

pub(crate) use accept::ValkeyListener;
pub(crate) use wire::ValkeyWire;
