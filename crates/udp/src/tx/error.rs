//! Why a group was not sent.

use std::io;

/// Why the system did not take a group of packets.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No room in the socket's buffer in time. As if the network had lost the packets.
    #[error("the socket's send buffer stayed full")]
    Full,
    /// The packets are longer than what gets to the destination in one piece.
    #[error("packets of this size do not fit the path to the destination{}", Mtu(*path_mtu))]
    TooLong {
        /// Longest IP packet, headers included, if the system knows it.
        path_mtu: Option<u32>,
    },
    /// There is no way to the destination: no route, or the interface is down.
    #[error("the destination cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    /// A firewall rule or the like forbids it.
    #[error("the system's policy forbids to send this: {0}")]
    Forbidden(#[source] io::Error),
    /// The flow's source address is not (or no longer) one of this machine.
    #[error("the source address is not one of this machine")]
    SourceAddress,
    /// The flow's source port did not come from [`TxPool::source_port`](super::TxPool::source_port).
    #[error("UDP source port {port} is not open in this pool")]
    SourcePort {
        /// The port asked for.
        port: u16,
    },
    /// The system cannot send several segments at once on this way.
    /// [`TxPool::segmentation_offload`](super::TxPool::segmentation_offload) is false from now on.
    #[error("the system refuses segmented sends on this flow")]
    SegmentationRefused,
    /// A group breaks its own rules: it is empty, has no segment size, is too long, has too
    /// many segments, or mixes IPv4 and IPv6.
    #[error("a group of {len_bytes} bytes in segments of {segment_bytes} cannot be sent")]
    Malformed {
        /// Length of the group.
        len_bytes: usize,
        /// Length of its segments.
        segment_bytes: usize,
    },
    /// Anything else.
    #[error(transparent)]
    System(io::Error),
}

/// The end of the sentence about packets that are too long.
struct Mtu(Option<u32>);

impl std::fmt::Display for Mtu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |mtu| write!(f, ", which has an MTU of {mtu}"))
    }
}
