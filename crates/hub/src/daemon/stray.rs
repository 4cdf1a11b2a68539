//! Slot 0: packets for QP0, QP1 and for nobody.
//!
//! QP1 is where the connection manager's messages arrive. All else is counted.

use super::gsi;
use crate::mad::MadPacket;
use crate::status::{HubCounters, MadCounters};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use udp::{Datagram, RxBatch, RxSocket};
use wire::{Bth, ICRC_LEN, Qpn};

/// Datagrams read before the hub looks after its clients again.
const MAX_BATCHES: usize = 16;

/// The receiver of slot 0.
#[derive(Debug)]
pub(super) struct StrayPackets {
    socket: RxSocket,
    batch: RxBatch,
}

impl StrayPackets {
    /// Receives on slot 0's socket.
    pub(super) fn new(socket: OwnedFd) -> io::Result<StrayPackets> {
        Ok(StrayPackets { socket: RxSocket::new(socket)?, batch: RxBatch::new(4) })
    }

    /// Takes the MADs that are there, and counts the rest; bounded, so that a flood does not keep
    /// the hub from its clients.
    pub(super) fn take(&mut self, hub: &mut HubCounters, mads: &mut MadCounters) -> io::Result<Vec<MadPacket>> {
        let mut taken = Vec::new();
        for _ in 0..MAX_BATCHES {
            if self.socket.recv(&mut self.batch)? == 0 {
                break;
            }
            for datagram in self.batch.iter() {
                take_datagram(&datagram, hub, mads, &mut taken);
            }
        }
        Ok(taken)
    }
}

impl AsFd for StrayPackets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn take_datagram(
    datagram: &Datagram<'_>,
    hub: &mut HubCounters,
    counters: &mut MadCounters,
    taken: &mut Vec<MadPacket>,
) {
    let flow = datagram.flow();
    for (index, bytes) in datagram.segments().enumerate() {
        if count_packet(bytes, hub) != Some(Qpn::GSI) || datagram.destination.is_multicast() {
            continue;
        }
        let Some(mad) = gsi::open(&flow, index as u16, bytes, counters) else { continue };
        taken.push(MadPacket {
            local: flow.destination.to_canonical(),
            remote: flow.source.to_canonical(),
            interface: datagram.interface,
            traffic_class: datagram.traffic_class,
            mad,
        });
    }
}

/// Returns the destination of what may be a packet.
fn count_packet(packet: &[u8], counters: &mut HubCounters) -> Option<Qpn> {
    let header = packet.first_chunk::<{ Bth::LEN }>().filter(|_| packet.len() >= Bth::LEN + ICRC_LEN);
    let destination = header.map(|header| Bth::decode(header).dest_qpn);
    match destination {
        None => counters.alien_packets += 1,
        Some(Qpn::SMI | Qpn::GSI) => counters.management_packets += 1,
        Some(_) => counters.stray_packets += 1,
    }
    destination
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_apart_by_their_destination() {
        let packet = |qpn: u32, len: usize| {
            let mut bytes = vec![0; len];
            bytes[5..8].copy_from_slice(&qpn.to_be_bytes()[1..]);
            bytes
        };
        let mut counters = HubCounters::default();
        let packets = [packet(0, 16), packet(1, 300), packet(2, 20), packet(0xff_ffff, 16), packet(1, 15)];
        let destinations = packets.map(|packet| count_packet(&packet, &mut counters).map(Qpn::get));
        assert_eq!(destinations, [Some(0), Some(1), Some(2), Some(0xff_ffff), None]);
        count_packet(&[], &mut counters);
        let counted = (counters.management_packets, counters.stray_packets, counters.alien_packets);
        assert_eq!(counted, (2, 2, 2));
    }
}
