//! The device: RDMA for one process, on ordinary UDP sockets and in shared memory.
//!
//! This crate joins the pure protocol code ([`transport`]) to the machine. It owns, once per process, the *engine*: its
//! slots on UDP port 4791, the links to peers on this host, the table of queue pairs, the timers, and one background
//! thread. A [`Device`] is a view of the engine through one network interface.
//!
//! Work is done on the application's own calls: a post sends, and a poll of an empty completion queue drives the whole
//! device. The background thread takes over when the application is away. It blocks without a timeout when there is
//! nothing to wait for.
//!
//! Objects are cheap handles: a clone names the same object, and dropping the last clone destroys it. Children keep their
//! parents alive. For callers that need the verbs' own rule (a parent with children is busy) every object has a `destroy`
//! that refuses then.
//!
//! This crate decides nothing about protocol (`transport` does), hands out no buffers with lifetimes (the `longarm` crate
//! does), and knows no verbs ABI.
//!
//! # Modules
//!
//! Each module imports only from those to its right; `cargo xtask layers` checks it.
//!
//! ```text
//!  handles ─► engine ─► path ─► schedule ─► qp ─► wire, shm ─► objects
//! ```
//! - `handles`: the objects that callers hold, each with the engine that it belongs to.
//! - `engine`: the step, the background thread, naps. It carries out what the other parts return.
//! - `path`: queue pairs on their two paths, packets and frames. Neither path knows the other or the engine.
//! - `schedule`: the lists and timers that queue pairs wait in, and the wake-up of the background thread.
//! - `qp`: one queue pair: the transport's value, its parents, its state word, and its host.
//! - `wire`: packets without queue pairs: staging, routes, the receive side, budgets of destinations.
//! - `shm`: shared memory without queue pairs' locks: links, lanes, exports, ends of connections.
//! - `objects`: completion rings, domains, regions, counters, tables and the like.
//!
//! Below all of them, `wait_list` is the list that queue pairs wait in, wherever they wait.
//!
//! # Data paths
//!
//! ```text
//!  post ─► wire          Qp::post_send ─► Engine::post_send ─► transport::Qp::post_send ─► Engine::transmit
//!                        ─► WirePath::transmit ─► transport::Qp::poll_transmit ─► Staging::commit
//!                        ─► WirePath::flush ─► udp::TxPool::send
//!  post ─► same host     Qp::post_send ─► Engine::post_send ─► transport::Qp::post_send
//!                        ─► ShmEndpoint::send (a lane) or ::write, ::read, ::remote_op (the peer's memory)
//!  packet ─► completion  Cq::poll_each ─► Engine::progress_for ─► Engine::step ─► Engine::poll_sockets
//!                        ─► WirePath::receive ─► packets::admit ─► transport::Qp::handle_packet
//!                        ─► QpHost::complete ─► CompletionRing::add ─► Engine::look_after ─► CompletionRing::take
//! ```
#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod clock;
mod engine;
mod error;
mod handles;
mod objects;
mod path;
mod qp;
mod schedule;
mod shm;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod wait_list;
mod wire;

pub use clock::monotonic_ns;
pub use engine::start::process_ends;
pub use error::{CaptureError, CqError, Error, OpenError, PostFailure};
pub use handles::channel::CompChannel;
pub use handles::cq::{Cq, CqSpec};
pub use handles::device::{Device, OpenOptions};
pub use handles::memory_watch::MemoryWatch;
pub use handles::mr::Mr;
pub use handles::mw::Mw;
pub use handles::pd::Pd;
pub use handles::qp::{Qp, QpSpec};
pub use handles::srq::Srq;
pub use handles::xrc::Xrcd;
pub use objects::capabilities::Capabilities;
pub use objects::events::AsyncEvent;
pub use objects::ids::{CqId, SrqId};
pub use objects::info::{DeviceCounters, DeviceInfo, PortInfo, PortState};
pub use objects::limits::Limits;
pub use objects::provider::Provider;
pub use objects::srq::SrqAttr;

pub use ::faults::FaultPlan;
pub use ::wire::{Gid, PKey, Psn, QKey, Qpn, RKey};
pub use memory::{MwType, Region, Span, advise, set_advice_watched, survive_unmapping};
/// The transport's types, for callers that use this crate alone.
pub use transport::{
    Access, AddressVector, AtomicOp, AttrMask, BindMw, Completion, CompletionOp, FlushLevel, FlushPlacement, LKey,
    ModifyError, Mtu, Payload, PostError, QpAttr, QpCaps, QpCounters, QpEvent, QpState, QpType, Reason, RecvWr,
    RemoteAddr, SendFlags, SendOp, SendWr, Sge, Sgl, Status, UdDestination, WriteAtOnce,
};
