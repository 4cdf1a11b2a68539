//! The bounds of a send: groups, segments, source ports.

use crate::sys::mmsg::MAX_MESSAGES;

/// The largest payload of one [`TxGroup`](crate::TxGroup) in bytes: the longest IP packet without room for the IP, UDP and
/// link headers. So the kernel keeps it in one piece as long as it can.
pub const MAX_GSO_BYTES: usize = 65_536 - 128;

/// The largest number of segments of one [`TxGroup`](crate::TxGroup) (the limit of older kernels; newer ones take more).
pub const MAX_SEGMENTS: usize = 64;

/// The largest number of source ports in use for one family. A power of two.
pub const SOURCE_PORTS: usize = 64;

// The groups of a batch are the bits of a word, and ports are reduced by a mask.
const _: () = assert!(MAX_MESSAGES == u32::BITS as usize && SOURCE_PORTS.is_power_of_two());

/// The default hop limit of packets.
pub(super) const DEFAULT_HOP_LIMIT: u8 = 64;
