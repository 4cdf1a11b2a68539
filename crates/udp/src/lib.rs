//! The UDP fabric: RoCEv2 packets through ordinary UDP sockets, many per system call.
//!
//! Contents:
//!
//! * [`PortGroup`]: the sockets on UDP port 4791 that share the port between processes. The kernel picks the
//!   socket by the high byte of the packet's destination QPN, the *slot*.
//! * [`RxSocket`] and [`RxBatch`]: receiving on one slot, coalesced (`UDP_GRO`) and batched.
//! * [`TxPool`] and [`TxGroup`]: sending, segmented (`UDP_SEGMENT`) and batched. The sockets' IPv4
//!   identifications are known in advance, so that the caller can compute the ICRC.
//! * [`interfaces()`]: the network interfaces; [`InterfaceMonitor`]: their changes.
//!
//! Out of scope: the crate reads no packet contents (except by the steering program, which runs in the
//! kernel). It computes no ICRC, keeps no queue and reads no clock. It does not know queue pairs.
//!
//! All `unsafe` code is in `sys` and its children: one safe function for each system call. Addresses and
//! control messages are encoded and decoded by safe code.
//!
//! # Identifications
//!
//! The ICRC of a RoCEv2 packet over IPv4 covers the identification field, which a UDP sender does not choose.
//! Linux leaves the field 0 if the socket is unconnected and forbids fragmentation. For a segmented send it
//! counts up from 0 by one for each segment. So in a [`TxGroup`] **segment `i` has identification `i`**. The
//! tests of this crate check that on captured packets.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod address;
mod bpf;
mod cmsg;
mod interfaces;
mod multicast;
mod netlink;
mod options;
mod path;
mod port;
mod rx;
mod sys;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
#[allow(clippy::disallowed_methods, reason = "tests have no program around them")]
pub mod testing;
mod tx;

pub use address::Family;
pub use interfaces::{Interface, InterfaceAddress, InterfaceMonitor, interfaces};
pub use options::{receive_together, send_in_segments};
pub use path::{path_mtu, source_toward};
pub use port::{BindError, Holder, MAX_SLOTS, PortGroup, SLOTS, other_processes_on_port, sockets_on_port};
pub use rx::{Datagram, RxBatch, RxSocket, Segments};
pub use tx::{
    MAX_GSO_BYTES, MAX_SEGMENTS, SOURCE_PORTS, SendError, TxCounters, TxGroup, TxPool, Undelivered, port_toward,
};
