//! Limits of packets and messages.

/// Room that [`Qp::poll_transmit`](crate::Qp::poll_transmit) needs: BTH, the longest extension and 4096 bytes of payload.
pub const MAX_PACKET_BYTES: usize = 4096 + 64;

/// Bytes of an object that a peer reads at one moment ([`SendOp::ObjectRead`](crate::SendOp::ObjectRead)): more than its first
/// word, and no more than a responder copies in a few microseconds.
pub const OBJECT_BYTES: core::ops::RangeInclusive<u32> = 16..=16 << 10;

/// Bytes of an object's first word: the reply if a writer has the object.
pub const OBJECT_WORD_BYTES: u32 = 8;

/// The longest reply of a call ([`SendOp::Call`](crate::SendOp::Call)): a responder keeps some for duplicates.
pub const REPLY_BYTES: u32 = 16 << 10;

/// The longest message in bytes (IB specification 9.7.7, C9-85).
pub const MAX_MESSAGE_BYTES: u64 = 1 << 31;
