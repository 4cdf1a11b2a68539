//! The headers as values. Each has its length, a `decode` that accepts every byte
//! pattern, and an `encode` that writes reserved bits as zero.
//!
//! [`OpcodeInfo`](crate::OpcodeInfo) says which of them a packet has; this module does not know.

mod aeth;
mod atomic;
pub(crate) mod bth;
mod cnp;
mod datagram;
mod feth;
mod mark;
mod object;
mod piggyback;
mod reth;
mod sack;
mod small;

#[cfg(test)]
mod tests;

pub use aeth::Aeth;
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::Bth;
pub use cnp::Cnp;
pub use datagram::Deth;
pub use feth::{Feth, FlushLevel, FlushPlacement};
pub use mark::{Cookie, Mark};
pub use object::{ObjectEth, ReplyEth};
pub use piggyback::Piggyback;
pub use reth::Reth;
pub use sack::Sack;
pub use small::{Ieth, ImmDt, XrcEth};
