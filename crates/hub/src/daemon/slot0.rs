//! The receiver of slot 0, whose QPNs belong to the hub: MADs for QP1, and packets that no client has.
//!
//! The connection manager's messages arrive at QP1. All other packets are counted and dropped.

use super::gsi;
use crate::mad::AddressedMad;
use crate::status::{HubCounters, MadCounters};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use udp::{Datagram, RxBatch, RxSocket};
use wire::{Bth, ICRC_LEN, Qpn};

/// Batches of datagrams read for one event.
const MAX_BATCHES: usize = 16;

/// Slot 0's socket.
#[derive(Debug)]
pub(super) struct Slot0Receiver {
    socket: RxSocket,
    batch: RxBatch,
}

impl Slot0Receiver {
    /// Receives on slot 0's socket.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Slot0Receiver> {
        Ok(Slot0Receiver { socket: RxSocket::new(socket)?, batch: RxBatch::new(4) })
    }

    /// Takes the MADs that have arrived, and counts the other packets. Reads a limited number, so that a flood does
    /// not keep the hub from its clients.
    pub(super) fn receive(&mut self, hub: &mut HubCounters, mads: &mut MadCounters) -> io::Result<Vec<AddressedMad>> {
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

impl AsFd for Slot0Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn take_datagram(
    datagram: &Datagram<'_>,
    hub: &mut HubCounters,
    counters: &mut MadCounters,
    taken: &mut Vec<AddressedMad>,
) {
    let flow = datagram.flow();
    for (index, bytes) in datagram.segments().enumerate() {
        if count_packet(bytes, hub) != Some(Qpn::GSI) || datagram.destination.is_multicast() {
            continue;
        }
        let Some(mad) = gsi::open(&flow, index as u16, bytes, counters) else { continue };
        taken.push(AddressedMad {
            local: flow.destination.to_canonical(),
            remote: flow.source.to_canonical(),
            interface: datagram.interface,
            traffic_class: datagram.traffic_class,
            mad,
        });
    }
}

/// Counts a packet. Returns its destination, unless it is too short for a RoCEv2 packet.
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
    fn packets_are_counted_by_their_destination() {
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
