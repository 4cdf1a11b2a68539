//! The reasons why a group is not sent.

use std::io;

/// The reason why the system did not take a group of packets.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// There was no room in the socket's buffer in time. The caller may treat the packets as lost in the
    /// network.
    #[error("the socket's send buffer stayed full")]
    Full,
    /// The packets are longer than the path to the destination allows.
    #[error("packets of this size do not fit the path to the destination{}", MtuSuffix(*path_mtu))]
    TooLong {
        /// The longest IP packet, headers included, if the system knows it.
        path_mtu: Option<u32>,
    },
    /// There is no path to the destination: no route, or the interface is down.
    #[error("the destination cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    /// A firewall rule or similar policy forbids the send.
    #[error("the system's policy forbids this send: {0}")]
    Forbidden(#[source] io::Error),
    /// The flow's source address is not (or no longer) one of this machine.
    #[error("the source address is not one of this machine")]
    SourceAddress,
    /// The flow's source port did not come from [`TxPool::source_port`](super::TxPool::source_port).
    #[error("UDP source port {port} is not open in this pool")]
    SourcePort {
        /// The source port of the flow.
        port: u16,
    },
    /// The system cannot send several segments at once on this flow.
    /// [`TxPool::segmentation_offload`](super::TxPool::segmentation_offload) is false after that.
    #[error("the system refuses segmented sends on this flow")]
    SegmentationRefused,
    /// A group is malformed: it is empty, has no segment size, is too long, has too many segments, or mixes
    /// IPv4 and IPv6.
    #[error("a group of {len_bytes} bytes in segments of {segment_bytes} cannot be sent")]
    Malformed {
        /// The length of the group.
        len_bytes: usize,
        /// The length of its segments.
        segment_bytes: usize,
    },
    /// Any other error of the system.
    #[error(transparent)]
    System(io::Error),
}

/// The end of the error text about packets that are too long.
struct MtuSuffix(Option<u32>);

impl std::fmt::Display for MtuSuffix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |mtu| write!(f, ", which has an MTU of {mtu}"))
    }
}
