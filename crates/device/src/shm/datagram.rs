//! Datagrams in frames: whole packets with an envelope, and the path of a queue pair's last datagram.
//!
//! ```text
//!   | head | source, 16 bytes | destination, 16 bytes | traffic class | hop limit | packet, BTH to pad |
//! ```

use std::sync::Arc;

use shm::Frame;
use transport::shm::frame::{FrameHead, HEAD_BYTES};
use transport::{AddressVector, MAX_PACKET_BYTES, RecvMeta, Time, UdDestination};
use wire::{Gid, Packet};

use crate::shm::link::ShmLink;
use crate::shm::meanwhile::Meanwhile;

/// The bytes between the head and the packet.
pub(crate) const ENVELOPE_BYTES: usize = 34;

/// The process that the last datagram of a queue pair went to.
pub(crate) struct ShmDatagramPeer {
    pub(crate) destination: Gid,
    pub(crate) slot: u8,
    /// The version of the list of links when the path was chosen.
    pub(crate) version: u64,
    pub(crate) path: DatagramPath,
}

/// The path of datagrams to a process.
#[derive(Clone)]
pub(crate) enum DatagramPath {
    Lane(Arc<ShmLink>),
    Wire,
    /// A link may come up.
    NotYet(Meanwhile),
    /// The wire, since the link did not come up in time. With the time of the last datagram.
    Late(Time),
}

impl ShmDatagramPeer {
    /// Whether a datagram goes to this process.
    pub(crate) fn is_for(&self, datagram: &UdDestination) -> bool {
        (self.destination, self.slot) == (datagram.address.destination, datagram.remote_qpn.slot())
    }
}

impl DatagramPath {
    /// This path, or the wire instead of a lane that is closed for datagrams.
    pub(crate) fn if_open(&self) -> DatagramPath {
        match self {
            DatagramPath::Lane(link) if !link.is_direct() || link.is_dead() => DatagramPath::Wire,
            path => path.clone(),
        }
    }
}

/// The envelope of a packet to `address`.
pub(crate) fn envelope(address: &AddressVector) -> [u8; ENVELOPE_BYTES] {
    let mut bytes = [0; ENVELOPE_BYTES];
    bytes[..16].copy_from_slice(&address.source.0);
    bytes[16..32].copy_from_slice(&address.destination.0);
    bytes[32..].copy_from_slice(&[address.traffic_class, address.hop_limit]);
    bytes
}

/// Copies a frame's datagram out. `None` if it is malformed.
pub(crate) fn open<'a>(
    head: &FrameHead,
    frame: &Frame<'_, '_>,
    bytes: &'a mut [u8; MAX_PACKET_BYTES],
) -> Option<(RecvMeta, Packet<'a>)> {
    let mut envelope = [0; ENVELOPE_BYTES];
    let bytes = bytes.get_mut(..head.len_bytes as usize)?;
    let is_whole = frame.copy_out(HEAD_BYTES, &mut envelope) && frame.copy_out(HEAD_BYTES + ENVELOPE_BYTES, bytes);
    if !is_whole {
        return None;
    }
    let packet = Packet::parse(bytes).ok()?;
    (packet.bth().dest_qpn == head.dst).then_some((arrival(&envelope), packet))
}

fn arrival(envelope: &[u8; ENVELOPE_BYTES]) -> RecvMeta {
    let [source, destination] = [0, 16].map(|at| {
        let mut gid = Gid::default();
        gid.0.copy_from_slice(&envelope[at..at + 16]);
        gid
    });
    RecvMeta { source, destination, traffic_class: envelope[32], hop_limit: envelope[33], ecn_ce: false }
}
