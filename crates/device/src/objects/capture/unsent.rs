//! Packets that no wire has seen: what went through shared memory.

use transport::AddressVector;
use transport::transcript;
use wire::{Flow, ICRC_LEN, Qpn, icrc};

use super::{Capture, Direction, Meta, Place, hop_limit};
use crate::objects::counters::Counters;

/// Bytes that are collected before they go to the file.
const BATCH_BYTES: usize = 256 << 10;

/// The way that packets would have taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// Our address and the peer's.
    pub(crate) address: AddressVector,
    /// UDP source port, but for the bits that tell the slot.
    pub(crate) entropy: u16,
    /// We and the peer.
    pub(crate) local: Qpn,
    pub(crate) remote: Qpn,
}

impl Way {
    /// The same way from the peer to us.
    pub(crate) fn reversed(self) -> Way {
        let AddressVector { source, destination, .. } = self.address;
        let address = AddressVector { source: destination, destination: source, ..self.address };
        Way { address, local: self.remote, remote: self.local, ..self }
    }

    fn meta(&self, direction: Direction) -> Meta {
        let AddressVector { source, destination, traffic_class, .. } = self.address;
        let source_port = udp::port_toward(self.remote, self.entropy);
        Meta {
            place: Place::SharedMemory,
            flow: Flow { source: source.ip(), destination: destination.ip(), source_port },
            identification: 0,
            traffic_class,
            hop_limit: hop_limit(self.address.hop_limit),
            direction,
            comment: None,
        }
    }
}

/// A batch of them. What is in it goes to the capture when it is dropped, at the latest.
pub(crate) struct Unsent<'a> {
    capture: &'a Capture,
    counters: &'a Counters,
    /// Of what we send, and of what comes.
    metas: [Meta; 2],
    bytes: Vec<u8>,
    /// Each packet with the end of its bytes.
    packets: Vec<(Meta, usize)>,
}

impl<'a> Unsent<'a> {
    pub(crate) fn new(capture: &'a Capture, counters: &'a Counters, way: &Way) -> Unsent<'a> {
        let metas = [way.meta(Direction::Outbound), way.reversed().meta(Direction::Inbound)];
        Unsent { capture, counters, metas, bytes: Vec::new(), packets: Vec::new() }
    }

    /// Adds a packet, BTH to pad. The ICRC is that of the bytes as they are here.
    pub(crate) fn add(&mut self, direction: transcript::PacketDirection, packet: &[u8], comment: Option<&'static str>) {
        let [sent, received] = self.metas;
        let meta = if direction == transcript::PacketDirection::Sent { sent } else { received };
        self.bytes.extend_from_slice(packet);
        self.bytes.extend_from_slice(&icrc::compute(&meta.flow, meta.identification, packet).to_le_bytes());
        const _: () = assert!(size_of::<u32>() == ICRC_LEN);
        self.packets.push((Meta { comment, ..meta }, self.bytes.len()));
        if self.bytes.len() >= BATCH_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        let mut start = 0;
        let packets = self.packets.iter().map(|(meta, end)| {
            let bytes = &self.bytes[start..*end];
            start = *end;
            (*meta, bytes)
        });
        self.capture.record(packets, self.counters);
        self.packets.clear();
        self.bytes.clear();
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if !self.packets.is_empty() {
            self.write();
        }
    }
}
