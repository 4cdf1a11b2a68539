//! The header of every datagram, and the cut of messages into packets.
//!
//! ```text
//!  0          4        8        12     13     14      16
//!  | session  | token  | number | slot | kind | index | payload …
//! ```
//! All fields are little endian. The session is the receiver's own index, by which it finds the session. The token is
//! random, one per session and direction: who cannot read the packets cannot make one.

use std::ops::Range;

use crate::frame::HEADER_BYTES;

/// Length of a packet's header.
pub(crate) const PACKET_HEADER_BYTES: usize = 16;
/// Packets of a message at most: the index has 16 bits.
const MAX_PACKETS: usize = 1 << 16;

/// The meaning of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RpcPacketKind {
    /// Client: a part of the request.
    Request = 1,
    /// Server: this part of the request has arrived, and all before it.
    Credit = 2,
    /// Client: send this part of the reply.
    Pull = 3,
    /// Server: a part of the reply.
    Reply = 4,
    /// Server: the request has arrived, and its handler runs.
    Running = 5,
    /// Client: the whole reply has arrived, so its memory is of no use any more. A hint: nothing answers it.
    Release = 6,
}

/// The end of a session to which a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketEnd {
    /// The index of the session at the receiver.
    pub(crate) session: u32,
    /// The secret of this session and direction.
    pub(crate) token: u32,
}

/// The header of a packet in the machine's own form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RpcPacketHeader {
    pub(crate) to: PacketEnd,
    /// The number of the request in its slot.
    pub(crate) number: u32,
    pub(crate) slot: u8,
    pub(crate) kind: RpcPacketKind,
    /// The place of the part in its message.
    pub(crate) index: u16,
}

impl RpcPacketHeader {
    pub(crate) fn encode(&self) -> [u8; PACKET_HEADER_BYTES] {
        let mut bytes = [0; PACKET_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.to.session.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.to.token.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12] = self.slot;
        bytes[13] = self.kind as u8;
        bytes[14..].copy_from_slice(&self.index.to_le_bytes());
        bytes
    }

    /// The header at the start of `packet` and the payload; `None` if it is too short or of no kind.
    pub(crate) fn split(packet: &[u8]) -> Option<(RpcPacketHeader, &[u8])> {
        let (bytes, payload) = packet.split_first_chunk::<PACKET_HEADER_BYTES>()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = match bytes[13] {
            1 => RpcPacketKind::Request,
            2 => RpcPacketKind::Credit,
            3 => RpcPacketKind::Pull,
            4 => RpcPacketKind::Reply,
            5 => RpcPacketKind::Running,
            6 => RpcPacketKind::Release,
            _ => return None,
        };
        let header = RpcPacketHeader {
            to: PacketEnd { session: word(0), token: word(4) },
            number: word(8),
            slot: bytes[12],
            kind,
            index: u16::from_le_bytes([bytes[14], bytes[15]]),
        };
        Some((header, payload))
    }
}

/// The cut of messages into packets. A message is its frame header and its body, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketCut {
    /// Payload of each packet but the last of a message.
    payload_bytes: usize,
    /// The longest body.
    max_body_bytes: usize,
}

impl PacketCut {
    /// For packets of at most `mtu_bytes`, at least 64, and bodies of at most `max_body_bytes`, or as long as 65,536
    /// packets can carry.
    pub(crate) fn new(mtu_bytes: usize, max_body_bytes: usize) -> PacketCut {
        let payload_bytes = mtu_bytes.max(64) - PACKET_HEADER_BYTES;
        let most = MAX_PACKETS * payload_bytes - HEADER_BYTES;
        PacketCut { payload_bytes, max_body_bytes: max_body_bytes.min(most) }
    }

    pub(crate) fn max_body_bytes(&self) -> usize {
        self.max_body_bytes
    }

    /// Packets of a message with a body of `body_bytes`, at least one.
    pub(crate) fn packets(&self, body_bytes: usize) -> u32 {
        (HEADER_BYTES + body_bytes).div_ceil(self.payload_bytes) as u32
    }

    /// The bytes of a message of `len_bytes`, with its header, that packet `index` carries. Beyond the end it is empty.
    pub(crate) fn range(&self, index: u32, len_bytes: usize) -> Range<usize> {
        let start = (index as usize * self.payload_bytes).min(len_bytes);
        start..(start + self.payload_bytes).min(len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_decodes_to_the_same() {
        for kind in 1..=6 {
            let mut bytes: Vec<u8> = (100..120).collect();
            bytes[13] = kind;
            let (header, payload) = RpcPacketHeader::split(&bytes).expect("long enough");
            assert_eq!(header.encode(), bytes[..16]);
            assert_eq!(payload, &bytes[16..]);
        }
    }

    #[test]
    fn short_packets_and_unknown_kinds_are_refused() {
        assert_eq!(RpcPacketHeader::split(&[1; 15]), None);
        assert_eq!(RpcPacketHeader::split(&[0; 16]), None);
        assert_eq!(RpcPacketHeader::split(&[7; 16]), None);
    }

    #[test]
    fn the_parts_of_a_message_are_the_message() {
        let cut = PacketCut::new(64, 1000);
        for body_bytes in [0, 1, 23, 24, 25, 72, 73, 1000] {
            let (len_bytes, packets) = (HEADER_BYTES + body_bytes, cut.packets(body_bytes));
            let mut next = 0;
            for index in 0..packets {
                let part = cut.range(index, len_bytes);
                assert_eq!(part.start, next);
                assert!(!part.is_empty() && part.len() <= 48, "{part:?} of {len_bytes}");
                next = part.end;
            }
            assert_eq!(next, len_bytes);
            assert!(cut.range(packets, len_bytes).is_empty());
        }
    }

    #[test]
    fn the_index_bounds_the_longest_body() {
        let cut = PacketCut::new(64, usize::MAX);
        assert_eq!(cut.packets(cut.max_body_bytes()), 65_536);
    }
}
