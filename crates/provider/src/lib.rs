//! One set of handles for two providers: Longarm's own devices (`device`) and the system's (`verbs`).
//!
//! ```text
//!                        ┌─► device   Longarm's engine in this process
//!   longarm ─► provider ─┤
//!                        └─► verbs    libibverbs.so.1 of the system: network cards, Soft-RoCE, Soft-iWARP
//! ```
//!
//! Each handle is an enum with one variant for each provider. A call is one predictable branch and then the provider's own
//! code; no virtual call hides it from the compiler. Objects of two providers do not work together; the calls refuse that.
#![forbid(unsafe_code)]

#[macro_use]
mod either;
mod choice;
pub mod cm;
mod cq;
mod device;
mod memory;
mod qp;

pub use choice::preferred;
pub use cq::{CompChannel, Cq};
pub use device::Device;
pub use memory::{Mr, Mw, Pd};
pub use qp::{Qp, QpSpec, Srq};
