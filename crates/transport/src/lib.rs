//! RDMA queue pairs as values: RC, XRC, UC and UD, sans-IO.
//!
//! A [`Qp`] takes work requests, packets and the passing of time, and gives packets, completions and events. It
//! knows no socket, no clock, no pointer and no lock. Time comes in as an argument, memory is reached by key through
//! a narrow trait, and its [`Host`] supplies the rest. So the same code runs on sockets, in tests of two values and
//! a loop, and in a simulator where a seed replays any failure.
//!
//! ```text
//!  post_send ─►┌───────────┐ requests          ┌───────────┐─► completions
//!              │ requester │───────────────────►│ responder │   (receive queue)
//!  completions │ completer │◄───────────────────│           │─► memory
//!           ◄──└───────────┘ responses, ACK/NAK └───────────┘
//! ```
#![forbid(unsafe_code)]

pub mod attr;
mod budget;
mod call;
pub mod completion;
mod congestion;
mod counters;
mod drop;
mod error;
mod failure;
pub mod host;
mod limits;
pub mod memory;
mod network;
mod packet;
mod qp;
mod qp_core;
mod queue;
mod rc;
mod reason;
pub mod shm;
mod state;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod time;
pub mod transcript;
mod uc;
mod ud;
mod wire_qp;
pub mod wr;

pub use attr::{AttrMask, Mtu, QpAttr, QpCaps, QpInit, QpState, QpType, Tuning};
pub use budget::ReorderBudget;
pub use call::{CallBuffers, RemoteCallError, ReplyBytes};
pub use completion::{Completion, CompletionOp, Status};
pub use congestion::dcqcn::Dcqcn;
pub use counters::QpCounters;
pub use drop::DropReason;
pub use error::{ModifyError, PostError};
pub use host::{CqSide, Host, QpEvent};
pub use limits::{MAX_MESSAGE_BYTES, MAX_PACKET_BYTES, OBJECT_BYTES, OBJECT_WORD_BYTES, REPLY_BYTES};
pub use memory::{Access, Accessor, AtomicOp, BindMw, LKey, Memory, MemoryError, PdId, Sge};
pub use network::{RecvMeta, Transmit};
pub use qp::Qp;
pub use queue::recv::RecvQueue;
pub use reason::Reason;
pub use shm::write_at_once::WriteAtOnce;
pub use time::Time;
pub use wire::{FlushLevel, FlushPlacement};
pub use wr::{AddressVector, Payload, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr, Sgl, UdDestination};
