//! Messages on their way out and in, packet by packet.

use crate::carrier::datagram::packet::PacketCut;
use crate::frame::{FrameHeader, HEADER_BYTES, RpcKind};

/// Buffers of finished messages that are longer are given back to the allocator.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

/// Empties a buffer, and frees it if it is long.
fn recycle(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

/// A message that is sent, and kept until nobody asks for it again.
#[derive(Default)]
pub(crate) struct OutgoingParts {
    bytes: Vec<u8>,
    packets: u32,
}

impl OutgoingParts {
    /// Replaces the message.
    pub(crate) fn fill(&mut self, cut: &PacketCut, header: &FrameHeader, body: &[u8]) {
        self.bytes.clear();
        self.bytes.reserve(HEADER_BYTES + body.len());
        self.bytes.extend_from_slice(&header.encode());
        self.bytes.extend_from_slice(body);
        self.packets = cut.packets(body.len());
    }

    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }

    /// The payload of a packet.
    pub(crate) fn part(&self, cut: &PacketCut, index: u32) -> &[u8] {
        &self.bytes[cut.range(index, self.bytes.len())]
    }

    /// Forgets the message.
    pub(crate) fn clear(&mut self) {
        recycle(&mut self.bytes);
        self.packets = 0;
    }
}

/// A message that arrives in order.
pub(crate) struct IncomingParts {
    header: FrameHeader,
    body: Vec<u8>,
    packets: u32,
    arrived: u32,
}

impl Default for IncomingParts {
    fn default() -> IncomingParts {
        let header = FrameHeader::bare(RpcKind::Request, 0, 0);
        IncomingParts { header, body: Vec::new(), packets: 0, arrived: 0 }
    }
}

impl IncomingParts {
    /// Begins a message with its first packet, in place of the last one. `expected` is the kind, the slot and the number
    /// that the header must have. False if the payload is no such packet; then nothing changes.
    pub(crate) fn begin(&mut self, cut: &PacketCut, payload: &[u8], expected: &FrameHeader) -> bool {
        let Some((head, part)) = payload.split_first_chunk::<HEADER_BYTES>() else {
            return false;
        };
        let Some(header) = FrameHeader::decode(head) else {
            return false;
        };
        let body_bytes = header.body_bytes as usize;
        let is_expected = (header.kind, header.slot, header.number) == (expected.kind, expected.slot, expected.number);
        if !is_expected || body_bytes > cut.max_body_bytes() {
            return false;
        }
        if payload.len() != cut.range(0, HEADER_BYTES + body_bytes).len() {
            return false;
        }
        (self.header, self.packets, self.arrived) = (header, cut.packets(body_bytes), 1);
        recycle(&mut self.body);
        self.body.extend_from_slice(part);
        true
    }

    /// Adds the next packet. False if it is not as long as it must be.
    pub(crate) fn push(&mut self, cut: &PacketCut, payload: &[u8]) -> bool {
        let len_bytes = HEADER_BYTES + self.header.body_bytes as usize;
        let is_right = self.arrived < self.packets && payload.len() == cut.range(self.arrived, len_bytes).len();
        if is_right {
            self.body.extend_from_slice(payload);
            self.arrived += 1;
        }
        is_right
    }

    /// Packets of the message; zero before the first has arrived.
    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }

    /// Packets that have arrived.
    pub(crate) fn arrived(&self) -> u32 {
        self.arrived
    }

    pub(crate) fn header_mut(&mut self) -> &mut FrameHeader {
        &mut self.header
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.packets > 0 && self.arrived == self.packets
    }

    /// Exchanges the body for `body`, so that neither is copied.
    pub(crate) fn take(&mut self, body: &mut Vec<u8>) -> FrameHeader {
        std::mem::swap(&mut self.body, body);
        recycle(&mut self.body);
        self.header
    }

    /// Forgets the message.
    pub(crate) fn clear(&mut self) {
        recycle(&mut self.body);
        (self.packets, self.arrived) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(body_bytes: usize) -> FrameHeader {
        FrameHeader { body_bytes: body_bytes as u32, ..FrameHeader::bare(RpcKind::Request, 3, 9) }
    }

    #[test]
    fn a_message_in_parts_arrives_as_it_was() {
        let cut = PacketCut::new(64, 500);
        let body: Vec<u8> = (0..=249).collect();
        let (mut out, mut into) = (OutgoingParts::default(), IncomingParts::default());
        out.fill(&cut, &header(body.len()), &body);
        assert!(into.begin(&cut, out.part(&cut, 0), &header(0)));
        for index in 1..out.packets() {
            assert!(!into.is_complete());
            assert!(into.push(&cut, out.part(&cut, index)));
        }
        assert!(into.is_complete());
        assert!(!into.push(&cut, &[]), "nothing comes behind the end");
        let mut taken = Vec::new();
        assert_eq!(into.take(&mut taken), header(body.len()));
        assert_eq!(taken, body);
    }

    #[test]
    fn first_packets_of_other_requests_lengths_and_kinds_are_refused() {
        let cut = PacketCut::new(64, 500);
        let mut into = IncomingParts::default();
        let first = |header: FrameHeader, len: usize| [&header.encode()[..], &vec![0; len]].concat();
        assert!(into.begin(&cut, &first(header(5), 5), &header(0)));
        assert!(!into.begin(&cut, &first(header(5), 4), &header(0)), "too short");
        assert!(!into.begin(&cut, &first(header(5), 6), &header(0)), "too long");
        assert!(!into.begin(&cut, &first(header(501), 24), &header(0)), "more than a message may have");
        assert!(!into.begin(&cut, &first(header(5), 5), &FrameHeader::bare(RpcKind::Request, 3, 8)));
        assert!(!into.begin(&cut, &first(header(5), 5), &FrameHeader::bare(RpcKind::Reply, 3, 9)));
        assert!(!into.begin(&cut, &[0; 23], &header(0)));
        assert_eq!((into.packets(), into.arrived()), (1, 1), "a refused packet changes nothing");
    }
}
