//! RoCEv2 packet formats. This crate decodes and encodes packets; the transport acts on them.
//!
//! A RoCEv2 packet is an InfiniBand transport packet in a UDP datagram (Annex A17):
//!
//! ```text
//!  IPv4 or IPv6 | UDP, port 4791 | BTH | extension headers | payload | pad | ICRC
//!   20 or 40          8             12     by opcode                  0..3     4    bytes
//! ```
//!
//! - [`Opcode`] and its one table say which extension headers follow the [`Bth`].
//! - [`Packet`] is the view over received bytes. It checks them once, then reads fields at
//!   their offsets. Each header is also a plain value ([`Bth`], [`Reth`], [`Aeth`], ...) that
//!   decodes from and encodes to an array; [`Extensions`] holds the headers of one packet.
//! - [`icrc`] computes and checks the checksum at the end of every packet.
//! - [`frame`] wraps a datagram in Ethernet and IP, for captures and simulation.
//! - [`Syndrome`], [`credit_code`], [`rnr_timer`] and [`ack_timeout`] translate the codes
//!   in ACKs, NAKs and queue pair attributes.
//!
//! Everything is pure: no allocation on decode, no clock, no socket. Bytes come from
//! hostile peers: no function panics on any of them.
//!
//! ```
//! # extern crate longarm_wire as wire;
//! use wire::{Bth, Opcode, Packet, Psn, Qpn};
//!
//! let bth = Bth { opcode: Opcode::RC_SEND_ONLY, dest_qpn: Qpn::new(17), psn: Psn::new(5), ..Bth::default() };
//! let mut bytes = bth.encode().to_vec();
//! bytes.extend_from_slice(b"ping");
//!
//! let packet = Packet::parse(&bytes)?;
//! assert_eq!(packet.dest_qpn(), Qpn::new(17));
//! assert_eq!(packet.payload(), b"ping");
//! # Ok::<(), wire::DecodeError>(())
//! ```
#![forbid(unsafe_code)]

mod bytes;
mod credit;
mod extensions;
mod flow;
pub mod frame;
mod gid;
mod grh;
mod header;
pub mod icrc;
mod id;
mod ip;
pub mod mad;
mod opcode;
mod packet;
mod syndrome;
mod timer;

pub use credit::{CREDIT_CODE_UNLIMITED, credit_code, credit_count};
pub use extensions::Extensions;
pub use flow::{Flow, ROCE_PORT, source_port, source_port_ud};
pub use gid::Gid;
pub use grh::Grh;
pub use header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Cookie, Deth, Feth, FlushLevel, FlushPlacement, Ieth, ImmDt, Mark,
    ObjectEth, Piggyback, ReplyEth, Reth, Sack, XrcEth,
};
pub use id::{PKey, Psn, QKey, Qpn, RKey};
pub use opcode::{HeaderSet, Opcode, OpcodeInfo, Operation, Position, TransportService};
pub use packet::{DecodeError, Packet};
pub use syndrome::{NakCode, Syndrome, SyndromeKind};
pub use timer::{ack_timeout, rnr_timer};

/// Bytes of the ICRC at the end of every packet.
pub const ICRC_LEN: usize = 4;
