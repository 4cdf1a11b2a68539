//! Limits of packets and messages.

/// Room that [`Qp::poll_transmit`](crate::Qp::poll_transmit) needs: BTH, the longest extension and 4096 bytes of payload.
pub const MAX_PACKET_BYTES: usize = 4096 + 64;

/// The longest message in bytes (IB specification 9.7.7, C9-85).
pub const MAX_MESSAGE_BYTES: u64 = 1 << 31;
