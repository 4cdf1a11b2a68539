//! Shared memory with peers on this host, without queue pairs' locks: links, lanes, exports, and ends of connections.
//!
//! ```text
//!  modify to RTR ── is the peer's slot one of this hub? ── links ─► hub, once per other process
//!  post_send ─► transport::shm ─► ShmEndpoint ─┬─ frames ─► lane ─► (the peer's poll)
//!                                              └─ WRITE, READ, atomics ─► the peer's memory
//!  poll ─► lanes of all links ─► FrameBody ─► transport::shm ─► completions
//!  registry ─► Exporter ─► the export that peers read; waits for their accesses
//! ```
//!
//! A queue pair takes this path on three conditions: its peer's process has the same hub, both processes want to,
//! and their link is up when the queue pair connects. Both ends take the same path, since the link decides, once. A
//! link lives as long as both processes. If the peer is in this process, the link leads back to it, and the hub is
//! not asked (see [`own`]).

pub(crate) mod datagram;
pub(crate) mod endpoint;
pub(crate) mod export;
mod far;
pub(crate) mod frame;
pub(crate) mod lane;
pub(crate) mod link;
mod link_list;
pub(crate) mod links;
pub(crate) mod meanwhile;
mod own;
mod reach;
pub(crate) mod record;
mod tally;
