//! Packets that no wire has carried: messages through shared memory.

use transport::AddressVector;
use transport::transcript;
use wire::{Flow, ICRC_LEN, Qpn, icrc};

use super::{CaptureDirection, CaptureInterface, Meta, PacketCapture, hop_limit};
use crate::objects::counters::EngineCounters;

/// The number of bytes that are collected before they are written to the file.
const BATCH_BYTES: usize = 256 << 10;

/// The flow of packets that the wire would have carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordedFlow {
    /// Our address, and that of the peer.
    pub(crate) address: AddressVector,
    /// The UDP source port, without the bits that tell the slot.
    pub(crate) entropy: u16,
    /// Our queue pair, and that of the peer.
    pub(crate) local: Qpn,
    pub(crate) remote: Qpn,
}

impl RecordedFlow {
    /// The flow in the other direction.
    pub(crate) fn reversed(self) -> RecordedFlow {
        let AddressVector { source, destination, .. } = self.address;
        let address = AddressVector { source: destination, destination: source, ..self.address };
        RecordedFlow { address, local: self.remote, remote: self.local, ..self }
    }

    fn meta(&self, direction: CaptureDirection) -> Meta {
        let AddressVector { source, destination, traffic_class, .. } = self.address;
        let source_port = udp::port_toward(self.remote, self.entropy);
        Meta {
            interface: CaptureInterface::SharedMemory,
            flow: Flow { source: source.ip(), destination: destination.ip(), source_port },
            identification: 0,
            traffic_class,
            hop_limit: hop_limit(self.address.hop_limit),
            direction,
            comment: None,
        }
    }
}

/// A batch of such packets. When it is dropped, all of them have been written.
pub(crate) struct UnsentPackets<'a> {
    capture: &'a PacketCapture,
    counters: &'a EngineCounters,
    /// For packets from us, and for packets to us.
    metas: [Meta; 2],
    bytes: Vec<u8>,
    /// The packets, each with the end of its bytes.
    packets: Vec<(Meta, usize)>,
}

impl<'a> UnsentPackets<'a> {
    pub(crate) fn new(
        capture: &'a PacketCapture,
        counters: &'a EngineCounters,
        flow: &RecordedFlow,
    ) -> UnsentPackets<'a> {
        let metas = [flow.meta(CaptureDirection::Outbound), flow.reversed().meta(CaptureDirection::Inbound)];
        UnsentPackets { capture, counters, metas, bytes: Vec::new(), packets: Vec::new() }
    }

    /// Adds a packet, BTH to pad. The ICRC is computed over these bytes.
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

impl Drop for UnsentPackets<'_> {
    fn drop(&mut self) {
        if !self.packets.is_empty() {
            self.write();
        }
    }
}
