//! QP1 on the wire: MADs into packets, and packets into MADs.

use super::devices::is_link_local;
use crate::mad::{AddressedMad, MAD_BYTES};
use crate::status::MadCounters;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use udp::{Family, SendError, TxGroup, TxPool};
use wire::icrc::{self, Check};
use wire::mad::packet::{self, MadPacketError};
use wire::{Flow, ICRC_LEN, Psn, Qpn};

/// The reason why a MAD was not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum MadSendError {
    /// No socket for the source port.
    #[error("no socket: {0}")]
    Socket(#[from] io::Error),
    /// The system refused it.
    #[error(transparent)]
    Send(SendError),
}

/// The sender of QP1.
#[derive(Debug)]
pub(super) struct GsiSender {
    pool: TxPool,
    psn: Psn,
    /// Addresses that MADs were sent from: each may have opened a socket.
    sources: BTreeSet<IpAddr>,
    /// Whether a socket may have been opened since the last [`take_unwatched`](GsiSender::take_unwatched).
    unwatched: bool,
}

/// A MAD that the network could not deliver.
#[derive(Debug)]
pub(super) struct UndeliveredMad {
    pub(super) mad: [u8; MAD_BYTES],
    /// The address that it was sent to.
    pub(super) remote: IpAddr,
    /// The network's reason.
    pub(super) errno: u32,
}

impl GsiSender {
    /// Opens no socket yet.
    pub(super) fn new() -> GsiSender {
        GsiSender { pool: TxPool::reporting(0), psn: Psn::default(), sources: BTreeSet::new(), unwatched: false }
    }

    /// Sends a MAD, without waiting. All MADs have the same UDP source port, as in Linux.
    pub(super) fn send(&mut self, mad: &AddressedMad) -> Result<(), MadSendError> {
        let (source, destination) = (mad.local.to_canonical(), mad.remote.to_canonical());
        let wanted = wire::source_port_ud(Qpn::GSI);
        let source_port = self.pool.source_port(wanted, Family::of(&destination))?;
        self.unwatched |= self.sources.insert(source);
        let flow = Flow { source, destination, source_port };
        let mut bytes = packet::encode(self.psn, &mad.mad);
        let Some((ib, icrc)) = bytes.split_last_chunk_mut::<ICRC_LEN>() else { return Ok(()) };
        *icrc = icrc::compute(&flow, 0, ib).to_le_bytes();
        let group = TxGroup {
            flow,
            traffic_class: mad.traffic_class,
            hop_limit: 0,
            interface: if is_link_local(destination) { mad.interface } else { 0 },
            segment_bytes: packet::PACKET_LEN as u16,
            bytes: &bytes,
        };
        let mut outcome = Ok(());
        self.pool.send(&[group], |_, error| outcome = Err(MadSendError::Send(error)));
        self.psn = self.psn.next();
        outcome
    }

    /// The sockets to watch for errors, if one may have been opened since the last call.
    pub(super) fn take_unwatched(&mut self) -> Option<impl Iterator<Item = BorrowedFd<'_>>> {
        std::mem::take(&mut self.unwatched).then(|| self.pool.descriptors())
    }

    /// Takes the MADs that the network could not deliver.
    pub(super) fn take_undelivered(&self) -> Vec<UndeliveredMad> {
        let mut returned = Vec::new();
        self.pool.take_undelivered(|packet| {
            let whole = packet.payload.len().checked_sub(ICRC_LEN).map(|len| packet::parse(&packet.payload[..len]));
            let errno = packet.error.raw_os_error().and_then(|errno| u32::try_from(errno).ok());
            if let (Some(Ok(mad)), Some(errno)) = (whole, errno) {
                returned.push(UndeliveredMad { mad: *mad.mad, remote: packet.destination, errno });
            }
        });
        returned
    }
}

/// Takes the MAD out of a packet for QP1 (BTH to ICRC), or counts why there is none. `index` is the number of
/// the packet in its datagram.
pub(super) fn open(flow: &Flow, index: u16, bytes: &[u8], counters: &mut MadCounters) -> Option<[u8; MAD_BYTES]> {
    if icrc::check(flow, bytes, index) == Check::Bad {
        counters.drop_icrc += 1;
        return None;
    }
    let counter = match packet::parse(&bytes[..bytes.len().saturating_sub(ICRC_LEN)]) {
        Ok(packet) => return Some(*packet.mad),
        Err(MadPacketError::Partition(_)) => &mut counters.drop_pkey,
        Err(MadPacketError::QKey(_)) => &mut counters.drop_qkey,
        Err(_) => &mut counters.drop_malformed,
    };
    *counter += 1;
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Bth, Deth};

    fn flow() -> Flow {
        Flow { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into(), source_port: 55410 }
    }

    fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
        let at = bytes.len() - ICRC_LEN;
        let icrc = icrc::compute(&flow(), 0x1234, &bytes[..at]);
        bytes[at..].copy_from_slice(&icrc.to_le_bytes());
        bytes
    }

    #[test]
    fn a_packet_becomes_its_mad() {
        let mad = std::array::from_fn(|i| i as u8);
        let bytes = seal(packet::encode(Psn::new(5), &mad).to_vec());
        assert_eq!(open(&flow(), 0, &bytes, &mut MadCounters::default()), Some(mad));
    }

    #[test]
    fn other_packets_are_counted_by_reason() {
        let good = packet::encode(Psn::new(5), &[7; MAD_BYTES]).to_vec();
        let changed = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            seal(bytes)
        };
        let mut damaged = seal(good.clone());
        damaged[100] ^= 1;
        let (pkey, qkey) = (2, Bth::LEN);
        let payload = Bth::LEN + Deth::LEN;
        let mut counters = MadCounters::default();
        let packets = [
            damaged,
            vec![0; 20],
            vec![],
            changed(pkey, 0x12),
            changed(qkey, 0),
            changed(0, 0x04),
            seal(good[..payload + 252 + ICRC_LEN].to_vec()),
            seal([good.as_slice(), &[0; 4]].concat()),
        ];
        for packet in &packets {
            assert_eq!(open(&flow(), 0, packet, &mut counters), None);
        }
        let counted = [counters.drop_icrc, counters.drop_pkey, counters.drop_qkey, counters.drop_malformed];
        assert_eq!(counted, [3, 1, 1, 3]);
    }
}
