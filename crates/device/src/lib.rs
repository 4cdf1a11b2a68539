//! The device: RDMA for one process, on ordinary UDP sockets.
//!
//! This crate joins the pure protocol code ([`transport`]) to the machine. It owns, once per
//! process, the *engine*: the slot on UDP port 4791 that the hub gave us, the tables of queue
//! pairs, completion queues and shared receive queues, the timers, and one background thread.
//! A [`Device`] is a view of the engine through one network interface.
//!
//! ```text
//!  post_send ─► QueuePair ─► transport::Qp ─► staging ─► sendmmsg ─► UDP 4791
//!  poll      ◄─ CompletionQueue ◄─┘  ▲
//!     └─ nothing there: progress ────┴── ICRC, demultiplexing ◄─ recvmmsg ◄─ UDP 4791
//! ```
//!
//! Work is done on the application's own calls: posting sends, and polling an empty
//! completion queue drives the whole device. The background thread takes over when the
//! application is away, and blocks without a timeout when there is nothing to wait for.
//!
//! Objects are cheap handles: cloning one names the same object, dropping the last clone
//! destroys it. Children keep their parents alive. For callers that need the verbs' own
//! rule (a parent with children is busy) every object has a `destroy` that says so.
//!
//! What it does not do: it decides nothing about protocol (that is `transport`), it hands
//! out no buffers with lifetimes (that is the `longarm` crate), and it knows no verbs ABI.
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
mod wire;

pub use clock::monotonic_ns;
pub use engine::start::process_ends;
pub use error::{CaptureError, CqError, Error, OpenError, PostFailure};
pub use handles::channel::CompChannel;
pub use handles::cq::{Cq, CqSpec};
pub use handles::device::{Device, OpenOptions};
pub use handles::mr::Mr;
pub use handles::mw::Mw;
pub use handles::pd::Pd;
pub use handles::qp::{Qp, QpSpec};
pub use handles::srq::Srq;
pub use handles::xrc::Xrcd;
pub use objects::events::AsyncEvent;
pub use objects::ids::{CqId, SrqId};
pub use objects::info::{DeviceCounters, DeviceInfo, PortInfo, PortState};
pub use objects::limits::Limits;
pub use objects::srq::SrqAttr;

pub use ::faults::FaultPlan;
pub use ::wire::{Gid, PKey, Psn, QKey, Qpn, RKey};
pub use memory::{MwType, Region, Span, advise, set_advice_watched, survive_unmapping};
/// The vocabulary of the transport, for callers that use this crate alone.
pub use transport::{
    Access, AddressVector, AtomicOp, AttrMask, BindMw, Completion, CompletionOp, FlushLevel, FlushPlacement, LKey,
    ModifyError, Mtu, Payload, PostError, QpAttr, QpCaps, QpCounters, QpEvent, QpState, QpType, Reason, RecvWr,
    RemoteAddr, SendFlags, SendOp, SendWr, Sge, Sgl, Status, UdDestination,
};
