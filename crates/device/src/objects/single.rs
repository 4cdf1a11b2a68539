//! Packets that travel alone: copied out of their group, with the ICRC of the first packet of a group.

use udp::TxGroup;
use wire::{Flow, ICRC_LEN, icrc};

/// One packet and its flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SinglePacket {
    flow: Flow,
    traffic_class: u8,
    hop_limit: u8,
    interface: u32,
    /// From BTH to ICRC.
    pub(crate) bytes: Vec<u8>,
}

impl SinglePacket {
    /// A copy of a group's only packet.
    pub(crate) fn copy_of(packet: &TxGroup<'_>) -> SinglePacket {
        let TxGroup { flow, traffic_class, hop_limit, interface, segment_bytes: _, bytes } = *packet;
        SinglePacket { flow, traffic_class, hop_limit, interface, bytes: bytes.to_vec() }
    }

    /// The packets of a group, each sealed for identification 0.
    pub(crate) fn split(group: &TxGroup<'_>) -> impl Iterator<Item = SinglePacket> {
        let TxGroup { flow, traffic_class, hop_limit, interface, segment_bytes, bytes } = *group;
        bytes.chunks(usize::from(segment_bytes).max(1)).enumerate().map(move |(index, segment)| {
            let mut bytes = segment.to_vec();
            if index > 0 {
                seal(&flow, &mut bytes);
            }
            SinglePacket { flow, traffic_class, hop_limit, interface, bytes }
        })
    }

    /// The packet as a group for the socket.
    pub(crate) fn to_send(&self) -> TxGroup<'_> {
        TxGroup {
            flow: self.flow,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            interface: self.interface,
            segment_bytes: self.bytes.len() as u16,
            bytes: &self.bytes,
        }
    }
}

fn seal(flow: &Flow, packet: &mut [u8]) {
    if let Some((ib, end)) = packet.split_last_chunk_mut::<ICRC_LEN>() {
        *end = icrc::compute(flow, 0, ib).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::icrc::Check;

    #[test]
    fn every_packet_of_a_group_is_right_on_its_own() {
        let flow = Flow { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), source_port: 0xc001 };
        let mut bytes = Vec::new();
        for index in 0..3u16 {
            let packet = [index as u8; 20];
            bytes.extend(packet);
            bytes.extend(icrc::compute(&flow, index, &packet).to_le_bytes());
        }
        let group = TxGroup { flow, traffic_class: 4, hop_limit: 9, interface: 0, segment_bytes: 24, bytes: &bytes };
        let packets: Vec<_> = SinglePacket::split(&group).collect();
        assert_eq!(packets.len(), 3);
        for (index, packet) in packets.iter().enumerate() {
            assert_eq!(packet.bytes[..20], [index as u8; 20]);
            assert_eq!(icrc::check(&flow, &packet.bytes, 0), Check::Good);
            assert_eq!(packet.to_send().hop_limit, 9);
        }
    }
}
