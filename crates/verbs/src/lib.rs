//! RDMA devices of the system, by its `libibverbs.so.1` and `librdmacm.so.1`: network cards, Soft-RoCE, Soft-iWARP.
//!
//! Both libraries are loaded at run time, by the first call that needs them. So a program starts on a machine that has
//! neither, and learns it from an error.
//!
//! ```text
//!   handles (device, pd, mr, mw, cq, srq, qp)     cm (ids and events of the connection manager)
//!              │                                          │
//!   work requests, attributes, completions: the words of `transport`, `device` and `connect`
//!              │ structures of `abi`                      │
//!   library: functions of the system's libraries, by name and version
//!              ▼                                          ▼
//!   libibverbs.so.1, librdmacm.so.1 ─► provider of the device ─► kernel, hardware
//! ```
//!
//! The handles have the methods of those in `device` and `connect`, with the same meaning. Only the words of those
//! crates are used here, not their engines. Differences that a device forces are errors;
//! [`Capabilities`](::device::Capabilities) tells them beforehand.
//!
//! # Contracts
//!
//! Any thread may call the functions of the two libraries. They want the objects in their arguments to exist. So
//! each handle owns its object and keeps the handles that it depends on. The object goes with the last clone of the
//! handle, or when it is destroyed. SAFETY comments call this "the handle keeps its object".
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod addresses;
mod channel;
pub mod cm;
mod completion;
mod cq;
mod device;
mod device_handle;
mod events;
mod extended;
mod failure;
mod groups;
mod info;
mod library;
mod mr;
mod mw;
mod opened;
mod pd;
mod qp;
mod qp_attr;
mod quirks;
mod reactor;
mod receive;
mod send;
mod signal;
mod srq;

pub use channel::CompChannel;
pub use cq::Cq;
pub use device::Device;
pub use library::LoadError;
pub use mr::Mr;
pub use mw::Mw;
pub use pd::Pd;
pub use qp::{Qp, QpSpec};
pub use srq::Srq;
