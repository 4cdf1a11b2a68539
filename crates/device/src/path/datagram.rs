//! Datagrams to queue pairs of processes on this host: whole packets in lanes.
//!
//! ```text
//!   | head | source, 16 bytes | destination, 16 bytes | traffic class | hop limit | packet, BTH to pad |
//! ```
//! UD has no connection that a way could be chosen for, so every datagram looks for a link to the
//! process that it goes to. The first one asks for it. Until it is up, some datagrams take the wire and the others
//! wait (see [`Meanwhile`](super::meanwhile::Meanwhile)). If it comes up late, a queue pair changes to it in a pause, so
//! that its datagrams stay in order. A full lane makes the sender wait where a full socket would lose the datagram.

use std::sync::Arc;
use std::time::Duration;

use shm::{Frame, LANES};
use transport::shm::frame::{FrameHead, FrameKind, HEAD_BYTES};
use transport::transcript::PacketDirection;
use transport::{AddressVector, DropReason, MAX_PACKET_BYTES, QpType, RecvMeta, Time, Transmit, UdDestination};
use wire::{Gid, Packet, Qpn};

use crate::engine::Engine;
use crate::objects::capture;
use crate::objects::capture::Unsent;
use crate::objects::counters::Counter;
use crate::path::pump::TURN_PACKETS;
use crate::qp::entry::{Live, QpEntry};
use crate::qp::host::{Host, Outcome};
use crate::schedule::stalled::Shortage;
use crate::shm::links::{AtHand, ShmLink};
use crate::shm::meanwhile::Meanwhile;
use crate::wire::staging::Staging;

/// The hub's share of the UDP port: no process has queue pairs there. Programs send to QP0 what nobody shall receive.
const HUB_SLOT: u8 = 0;
/// Between the head and the packet.
const ENVELOPE_BYTES: usize = 34;
/// BTH, DETH, immediate data and pad at most.
const HEADER_BYTES: usize = 12 + 8 + 4 + 3;
/// When a queue pair looks again, at the latest, for room or for a link.
const PAUSE: Duration = Duration::from_micros(50);
/// A queue pair that has sent nothing for so long may change from the wire to a link that came up late: a frame hardly
/// overtakes what was sent before.
const SETTLED: Duration = Duration::from_millis(10);

/// The process that the last datagram of a queue pair went to.
pub(crate) struct Neighbour {
    destination: Gid,
    slot: u8,
    /// Of the list of links when it was looked for.
    version: u64,
    way: Way,
}

/// How datagrams get to a process.
#[derive(Clone)]
enum Way {
    Lane(Arc<ShmLink>),
    Wire,
    /// A link may come up.
    NotYet(Meanwhile),
    /// The wire, since the link did not come up in time. When the last datagram went so.
    Late(Time),
}

impl Neighbour {
    fn is_for(&self, datagram: &UdDestination) -> bool {
        (self.destination, self.slot) == (datagram.address.destination, datagram.remote_qpn.slot())
    }
}

impl Engine {
    /// Sends the datagrams of a locked queue pair, up to the first that takes the wire. Returns how many may take it
    /// in this turn.
    pub(crate) fn send_to_neighbours(
        &self,
        entry: &Arc<QpEntry>,
        live: &mut Live,
        staging: &mut Staging,
        outcome: &mut Outcome,
        now: Time,
    ) -> usize {
        while let Some((datagram, len_bytes)) = live.qp.next_datagram() {
            let link = match self.way(&mut live.neighbour, &datagram, len_bytes, now) {
                Way::Lane(link) => link,
                Way::NotYet(Meanwhile::Wire) => return 1,
                Way::NotYet(Meanwhile::Wait) => {
                    self.pause(entry, live, &Shortage::Link(datagram.remote_qpn.slot()), now);
                    break;
                }
                Way::Wire | Way::Late(_) => break,
            };
            let Some(packet) = staging.room() else { break };
            let number = usize::from(entry.qpn().index()) % LANES;
            let mut lane = link.producer(number);
            let most = HEAD_BYTES + ENVELOPE_BYTES + HEADER_BYTES + len_bytes as usize;
            let Some(mut room) = lane.reserve(most) else {
                drop(lane);
                self.pause(entry, live, &Shortage::Lane(link, number), now);
                break;
            };
            let shm = live.shm.as_ref();
            let host = &mut Host { engine: self, entry, parents: &live.parents, shm, outcome };
            let Some(transmit) = live.qp.poll_transmit(now, packet, host) else { break };
            let head = FrameHead {
                len_bytes: transmit.len_bytes as u32,
                ..FrameHead::new(FrameKind::Datagram, entry.qpn(), datagram.remote_qpn)
            };
            room.write(0, &head.encode());
            room.write(HEAD_BYTES, &envelope(&transmit));
            room.write(HEAD_BYTES + ENVELOPE_BYTES, &packet[..transmit.len_bytes]);
            room.commit();
            if link.is_recorded() {
                let (local, remote) = (entry.qpn(), datagram.remote_qpn);
                let way = capture::Way { address: transmit.address, entropy: transmit.source_port, local, remote };
                self.record_datagram(PacketDirection::Sent, &way, &packet[..transmit.len_bytes]);
            }
        }
        TURN_PACKETS
    }

    /// Looks again in a while, or at the application's next polls.
    fn pause(&self, entry: &Arc<QpEntry>, live: &mut Live, shortage: &Shortage, now: Time) {
        live.qp.hold_datagrams(now + PAUSE);
        self.note_stalled(entry, shortage);
    }

    /// How a datagram gets to its process.
    fn way(&self, last: &mut Option<Neighbour>, datagram: &UdDestination, len_bytes: u32, now: Time) -> Way {
        let Some(shm) = &self.shm else { return Way::Wire };
        let version = shm.links.version();
        if let Some(known) = last.as_mut().filter(|last| last.is_for(datagram)) {
            match &mut known.way {
                Way::Late(sent) if now.since(*sent) < SETTLED => {
                    *sent = now;
                    return Way::Wire;
                }
                Way::Late(_) | Way::NotYet(_) => {}
                way if known.version == version => return self.if_open(way),
                _ => {}
            }
        }
        let way = self.look_for_way(datagram, len_bytes, now);
        let (destination, slot) = (datagram.address.destination, datagram.remote_qpn.slot());
        let known = last.insert(Neighbour { destination, slot, version, way });
        self.if_open(&known.way)
    }

    /// Whether the next datagram of a queue pair, behind one that took the wire, is to take it as well.
    #[inline]
    pub(crate) fn stays_on_wire(&self, live: &Live) -> bool {
        let Some((datagram, _)) = live.qp.next_datagram().filter(|_| self.shm.is_some()) else { return true };
        live.neighbour.as_ref().is_none_or(|last| last.is_for(&datagram))
            || datagram.remote_qpn == Qpn::MULTICAST
            || !self.devices.has_address(datagram.address.destination)
    }

    /// The wire instead of a lane that is not to be used, or not any more.
    fn if_open(&self, way: &Way) -> Way {
        match way {
            Way::Lane(link) if !link.is_direct() || link.is_dead() => Way::Wire,
            way => way.clone(),
        }
    }

    fn look_for_way(&self, datagram: &UdDestination, len_bytes: u32, now: Time) -> Way {
        let (to, slot) = (datagram.remote_qpn, datagram.remote_qpn.slot());
        let Some(shm) = self.shm.as_ref().filter(|_| to != Qpn::MULTICAST && slot != HUB_SLOT) else {
            return Way::Wire;
        };
        if !self.devices.has_address(datagram.address.destination) {
            return Way::Wire;
        }
        if self.is_own_slot(slot) {
            return self.link_to_itself(shm).map_or(Way::Wire, Way::Lane);
        }
        match shm.links.at_hand(slot, len_bytes, || self.look_at_wishes()) {
            AtHand::Up(link) => Way::Lane(link),
            AtHand::NotYet(meanwhile) => Way::NotYet(meanwhile),
            AtHand::Late => Way::Late(now),
            AtHand::None => Way::Wire,
        }
    }

    /// Takes a datagram of a process on this host in.
    pub(crate) fn take_datagram(
        &self,
        qp: &mut transport::Qp,
        head: &FrameHead,
        frame: &Frame<'_, '_>,
        host: &mut Host<'_>,
    ) -> Result<(), DropReason> {
        if qp.qp_type() != QpType::Ud {
            return Err(DropReason::WrongService);
        }
        let mut bytes = [0; MAX_PACKET_BYTES];
        let Some((arrival, packet)) = self.open_envelope(head, frame, &mut bytes) else {
            self.counters.add(Counter::DropShmMalformed, 1);
            return Ok(());
        };
        if self.capture.is_active() {
            let (local, remote) = (head.dst, head.src);
            let address = AddressVector {
                hop_limit: arrival.hop_limit,
                traffic_class: arrival.traffic_class,
                ..AddressVector::new(arrival.destination, arrival.source)
            };
            let way = capture::Way { address, entropy: wire::source_port_ud(remote), local, remote };
            self.record_datagram(PacketDirection::Received, &way, packet.bytes());
        }
        qp.handle_packet(&packet, &arrival, Time(0), host)
    }

    /// Tells the capture of a datagram; the way is ours to the other queue pair.
    #[cold]
    fn record_datagram(&self, direction: PacketDirection, way: &capture::Way, packet: &[u8]) {
        Unsent::new(&self.capture, &self.counters, way).add(direction, packet, None);
    }

    /// What is in the frame, copied out before it is looked at. The peer may not name others' addresses.
    fn open_envelope<'a>(
        &self,
        head: &FrameHead,
        frame: &Frame<'_, '_>,
        bytes: &'a mut [u8; MAX_PACKET_BYTES],
    ) -> Option<(RecvMeta, Packet<'a>)> {
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

fn arrival(envelope: &[u8; ENVELOPE_BYTES]) -> RecvMeta {
    let [source, destination] = [0, 16].map(|at| {
        let mut gid = Gid::default();
        gid.0.copy_from_slice(&envelope[at..at + 16]);
        gid
    });
    RecvMeta { source, destination, traffic_class: envelope[32], hop_limit: envelope[33], ecn_ce: false }
}
