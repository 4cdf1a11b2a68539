//! Slot 0: packets for QP0, QP1 and for nobody.
//!
//! QP1 is where the connection manager's messages arrive. Until there is one they are
//! counted, like everything else here.

use crate::status::HubCounters;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use udp::{RxBatch, RxSocket};
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

    /// Counts what is there; bounded, so that a flood does not keep the hub from its clients.
    pub(super) fn count(&mut self, counters: &mut HubCounters) -> io::Result<()> {
        for _ in 0..MAX_BATCHES {
            if self.socket.recv(&mut self.batch)? == 0 {
                break;
            }
            let packets = self.batch.iter().flat_map(|datagram| datagram.segments());
            packets.for_each(|packet| count_packet(packet, counters));
        }
        Ok(())
    }
}

impl AsFd for StrayPackets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn count_packet(packet: &[u8], counters: &mut HubCounters) {
    let header = packet.first_chunk::<{ Bth::LEN }>().filter(|_| packet.len() >= Bth::LEN + ICRC_LEN);
    match header.map(|header| Bth::decode(header).dest_qpn) {
        None => counters.alien_packets += 1,
        Some(Qpn::SMI | Qpn::GSI) => counters.management_packets += 1,
        Some(_) => counters.stray_packets += 1,
    }
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
        packets.iter().for_each(|packet| count_packet(packet, &mut counters));
        count_packet(&[], &mut counters);
        let counted = (counters.management_packets, counters.stray_packets, counters.alien_packets);
        assert_eq!(counted, (2, 2, 2));
    }
}
