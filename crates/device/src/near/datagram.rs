//! Datagrams to queue pairs of processes on this host: whole packets in lanes.
//!
//! ```text
//!   | head | source, 16 bytes | destination, 16 bytes | traffic class | hop limit | packet, BTH to pad |
//! ```
//! UD has no connection that a way could be chosen for, so every datagram looks for a link to the
//! process that it goes to. The first ones find none, ask for it, and take the wire. A full lane makes
//! the sender wait where a full socket would lose the datagram.

use std::sync::Arc;
use std::time::Duration;

use local::{Frame, LANES};
use transport::near::frame::{HEAD_BYTES, Head, Kind};
use transport::{Arrival, Datagram, DropReason, MAX_PACKET_BYTES, QpType, Time, Transmit};
use wire::{Gid, Packet, Qpn};

use super::links::NearLink;
use crate::counters::Counter;
use crate::engine::{Engine, Host, Outcome, Staging};
use crate::qp::{Live, QpEntry};

/// Between the head and the packet.
const ENVELOPE_BYTES: usize = 34;
/// BTH, DETH, immediate data and pad at most.
const HEADER_BYTES: usize = 12 + 8 + 4 + 3;
/// When a queue pair looks for room at the latest.
const ROOM_WAIT: Duration = Duration::from_micros(50);

/// The process that the last datagram of a queue pair went to.
pub(crate) struct Neighbour {
    destination: Gid,
    slot: u8,
    /// Of the list of links when it was looked for.
    version: u64,
    link: Option<Arc<NearLink>>,
}

impl Engine {
    /// Sends the datagrams of a locked queue pair, up to the first that does not go to a process on this host.
    pub(crate) fn send_to_neighbours(
        &self,
        entry: &Arc<QpEntry>,
        live: &mut Live,
        staging: &mut Staging,
        outcome: &mut Outcome,
        now: Time,
    ) {
        while let Some((datagram, len_bytes)) = live.qp.next_datagram() {
            let Some(link) = self.neighbour(&mut live.neighbour, &datagram) else { return };
            let Some(packet) = staging.room() else { return };
            let mut lane = link.producer(usize::from(entry.qpn().index()) % LANES);
            let most = HEAD_BYTES + ENVELOPE_BYTES + HEADER_BYTES + len_bytes as usize;
            let Some(mut room) = lane.reserve(most) else {
                live.qp.hold_datagrams(now + ROOM_WAIT);
                return self.note_stalled(entry);
            };
            let near = live.near.as_ref();
            let host = &mut Host { engine: self, entry, parents: &live.parents, near, outcome };
            let Some(transmit) = live.qp.poll_transmit(now, packet, host) else { return };
            let head = Head {
                len_bytes: transmit.len_bytes as u32,
                ..Head::new(Kind::Datagram, entry.qpn(), datagram.remote_qpn)
            };
            room.write(0, &head.encode());
            room.write(HEAD_BYTES, &envelope(&transmit));
            room.write(HEAD_BYTES + ENVELOPE_BYTES, &packet[..transmit.len_bytes]);
            room.commit();
        }
    }

    /// The link to the process that a datagram goes to, if it is another on this host and the link is up.
    fn neighbour(&self, last: &mut Option<Neighbour>, datagram: &Datagram) -> Option<Arc<NearLink>> {
        let near = self.near.as_ref()?;
        let (destination, slot) = (datagram.address.destination, datagram.remote_qpn.slot());
        let version = near.links.version();
        let same = |last: &Neighbour| (last.destination, last.slot, last.version) == (destination, slot, version);
        let link = match last {
            Some(last) if same(last) => last.link.clone(),
            _ => {
                let link = self.look_for_neighbour(datagram);
                *last = Some(Neighbour { destination, slot, version, link: link.clone() });
                link
            }
        };
        link.filter(|link| link.is_direct() && !link.is_dead() && !self.capture.is_active())
    }

    fn look_for_neighbour(&self, datagram: &Datagram) -> Option<Arc<NearLink>> {
        let (to, slot) = (datagram.remote_qpn, datagram.remote_qpn.slot());
        let is_other = to != Qpn::MULTICAST && !self.is_own_slot(slot);
        if !is_other || !self.devices.has_address(datagram.address.destination) {
            return None;
        }
        self.near.as_ref()?.links.at_hand(slot, || self.look_at_wishes())
    }

    /// Takes a datagram of a process on this host in.
    pub(super) fn take_datagram(
        &self,
        qp: &mut transport::Qp,
        head: &Head,
        frame: &Frame<'_, '_>,
        host: &mut Host<'_>,
    ) -> Result<(), DropReason> {
        if qp.qp_type() != QpType::Ud {
            return Err(DropReason::WrongService);
        }
        let mut bytes = [0; MAX_PACKET_BYTES];
        let Some((arrival, packet)) = self.open_envelope(head, frame, &mut bytes) else {
            self.counters.add(Counter::DropNearMalformed, 1);
            return Ok(());
        };
        qp.handle_packet(&packet, &arrival, Time(0), host)
    }

    /// What is in the frame, copied out before it is looked at. The peer may not name others' addresses.
    fn open_envelope<'a>(
        &self,
        head: &Head,
        frame: &Frame<'_, '_>,
        bytes: &'a mut [u8; MAX_PACKET_BYTES],
    ) -> Option<(Arrival, Packet<'a>)> {
        let mut envelope = [0; ENVELOPE_BYTES];
        let bytes = bytes.get_mut(..head.len_bytes as usize)?;
        let whole = frame.copy_out(HEAD_BYTES, &mut envelope) && frame.copy_out(HEAD_BYTES + ENVELOPE_BYTES, bytes);
        if !whole {
            return None;
        }
        let arrival = arrival(&envelope);
        let is_ours = self.devices.has_address(arrival.source) && self.devices.has_address(arrival.destination);
        let packet = Packet::parse(bytes).ok()?;
        (is_ours && packet.bth().dest_qpn == head.dst).then_some((arrival, packet))
    }
}

fn envelope(transmit: &Transmit) -> [u8; ENVELOPE_BYTES] {
    let address = &transmit.address;
    let mut bytes = [0; ENVELOPE_BYTES];
    bytes[..16].copy_from_slice(&address.source.0);
    bytes[16..32].copy_from_slice(&address.destination.0);
    bytes[32..].copy_from_slice(&[address.traffic_class, address.hop_limit]);
    bytes
}

fn arrival(envelope: &[u8; ENVELOPE_BYTES]) -> Arrival {
    let [source, destination] = [0, 16].map(|at| {
        let mut gid = Gid::default();
        gid.0.copy_from_slice(&envelope[at..at + 16]);
        gid
    });
    Arrival { source, destination, traffic_class: envelope[32], hop_limit: envelope[33], ecn_ce: false }
}
