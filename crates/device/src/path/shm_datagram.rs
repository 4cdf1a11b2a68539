//! The shared-memory path of datagrams: whole packets in lanes.
//!
//! UD has no connection that a path could be chosen for, so each datagram looks for a link to the process of its
//! destination. The first one asks for the link. Until it is up, some datagrams take the wire and the others wait (see
//! [`Meanwhile`]). If the link comes up late, a queue pair changes to it in a pause, so that its datagrams stay in order.
//! A full lane makes the sender wait, where a full socket would lose the datagram.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use shm::Frame;
use transport::shm::frame::{FrameHead, FrameKind, HEAD_BYTES};
use transport::transcript::PacketDirection;
use transport::{AddressVector, DropReason, MAX_PACKET_BYTES, QpType, Time, UdDestination};
use wire::Qpn;

use crate::objects::capture::{RecordedFlow, UnsentPackets};
use crate::objects::counters::EngineCounter;
use crate::path::SendCall;
use crate::path::shm::LanePath;
use crate::qp::entry::Live;
use crate::qp::host::QpHost;
use crate::qp::services::QpServices;
use crate::schedule::Schedule;
use crate::shm::datagram::{self, DatagramPath, ENVELOPE_BYTES, ShmDatagramPeer};
use crate::shm::lane::{self, LaneWait};
use crate::shm::links::LinkStatus;
use crate::shm::meanwhile::Meanwhile;

/// The hub's share of the UDP port: no process has queue pairs there. Programs send datagrams to QP0 that must not be received.
const HUB_SLOT: u8 = 0;
/// BTH, DETH, immediate data and pad at most.
const HEADER_BYTES: usize = 12 + 8 + 4 + 3;
/// The longest time for which a queue pair waits for room or for a link before it tries again.
const PAUSE: Duration = Duration::from_micros(50);
/// The time without a send after which a queue pair may change from the wire to a link that came up late. A frame then
/// hardly overtakes earlier packets.
const SETTLED: Duration = Duration::from_millis(10);

/// The surroundings in which datagrams choose their path.
pub(crate) struct DatagramSender<'a, B, A> {
    pub(crate) path: &'a LanePath,
    pub(crate) services: &'a QpServices,
    pub(crate) schedule: &'a Schedule,
    /// Makes a copy of the bell that wakes this process.
    pub(crate) bell: B,
    /// Makes the background thread ask the hub for links.
    pub(crate) ask_hub: A,
}

impl<B: Fn() -> io::Result<OwnedFd>, A: Fn()> DatagramSender<'_, B, A> {
    /// Sends the datagrams of a locked queue pair, up to the first that takes the wire. Returns how many of `max` may
    /// take the wire in this turn.
    pub(crate) fn send(&self, call: &mut SendCall<'_>, live: &mut Live, max: usize) -> usize {
        while let Some((datagram, len_bytes)) = live.qp.next_datagram() {
            let link = match self.choose(&mut live.last_peer, &datagram, len_bytes, call.now) {
                DatagramPath::Lane(link) => link,
                DatagramPath::NotYet(Meanwhile::Wire) => return 1,
                DatagramPath::NotYet(Meanwhile::Hold) => {
                    self.pause(call, live, &LaneWait::Link(datagram.remote_qpn.slot()));
                    break;
                }
                DatagramPath::Wire | DatagramPath::Late(_) => break,
            };
            let local = call.entry.qpn();
            let SendCall { services, entry, staging, notices, now } = &mut *call;
            let Some(packet) = staging.room() else { break };
            let number = lane::of_qp(local);
            let mut lane = link.producer(number);
            let max_bytes = HEAD_BYTES + ENVELOPE_BYTES + HEADER_BYTES + len_bytes as usize;
            let Some(mut room) = lane.reserve(max_bytes) else {
                drop(lane);
                self.pause(call, live, &LaneWait::Lane(link, number));
                break;
            };
            let (qp, mut host) = live.hosted(services, entry, notices);
            let Some(transmit) = qp.poll_transmit(*now, packet, &mut host) else { break };
            let packet = &packet[..transmit.len_bytes];
            let head = FrameHead {
                len_bytes: packet.len() as u32,
                ..FrameHead::new(FrameKind::Datagram, local, datagram.remote_qpn)
            };
            room.write(0, &head.encode());
            room.write(HEAD_BYTES, &datagram::envelope(&transmit.address));
            room.write(HEAD_BYTES + ENVELOPE_BYTES, packet);
            room.commit();
            if link.is_recorded() {
                let (address, remote) = (transmit.address, datagram.remote_qpn);
                let flow = RecordedFlow { address, entropy: transmit.source_port, local, remote };
                record(services, PacketDirection::Sent, &flow, packet);
            }
        }
        max
    }

    /// Whether the next datagram of a queue pair, behind one that took the wire, takes the wire as well.
    #[inline]
    pub(crate) fn stays_on_wire(&self, live: &Live) -> bool {
        let Some((datagram, _)) = live.qp.next_datagram() else { return true };
        live.last_peer.as_ref().is_none_or(|last| last.is_for(&datagram)) || !self.is_on_this_host(&datagram)
    }

    /// Makes the datagrams of a queue pair wait for a while, or until the application's next polls.
    fn pause(&self, call: &SendCall<'_>, live: &mut Live, wait: &LaneWait) {
        live.qp.hold_datagrams(call.now + PAUSE);
        self.schedule.stall(call.entry, wait);
    }

    /// The path of a datagram.
    fn choose(
        &self,
        last: &mut Option<ShmDatagramPeer>,
        datagram: &UdDestination,
        len_bytes: u32,
        now: Time,
    ) -> DatagramPath {
        let version = self.path.links.list.version();
        if let Some(known) = last.as_mut().filter(|last| last.is_for(datagram)) {
            match &mut known.path {
                DatagramPath::Late(sent) if now.since(*sent) < SETTLED => {
                    *sent = now;
                    return DatagramPath::Wire;
                }
                DatagramPath::Late(_) | DatagramPath::NotYet(_) => {}
                path if known.version == version => return path.if_open(),
                _ => {}
            }
        }
        let path = self.find(datagram, len_bytes, now);
        let (destination, slot) = (datagram.address.destination, datagram.remote_qpn.slot());
        last.insert(ShmDatagramPeer { destination, slot, version, path }).path.if_open()
    }

    fn find(&self, datagram: &UdDestination, len_bytes: u32, now: Time) -> DatagramPath {
        let slot = datagram.remote_qpn.slot();
        if slot == HUB_SLOT || !self.is_on_this_host(datagram) {
            return DatagramPath::Wire;
        }
        if self.services.slots.is_own(slot) {
            return self.path.link_to_itself(&self.bell).map_or(DatagramPath::Wire, DatagramPath::Lane);
        }
        match self.path.links.status(slot, len_bytes, &self.ask_hub) {
            LinkStatus::Up(link) => DatagramPath::Lane(link),
            LinkStatus::NotYet(meanwhile) => DatagramPath::NotYet(meanwhile),
            LinkStatus::Late => DatagramPath::Late(now),
            LinkStatus::None => DatagramPath::Wire,
        }
    }

    fn is_on_this_host(&self, datagram: &UdDestination) -> bool {
        datagram.remote_qpn != Qpn::MULTICAST && self.services.devices.has_address(datagram.address.destination)
    }
}

/// Hands a datagram from a process on this host to its queue pair. The sender may not use addresses of other hosts.
pub(crate) fn receive(
    services: &QpServices,
    qp: &mut transport::Qp,
    head: &FrameHead,
    frame: &Frame<'_, '_>,
    host: &mut QpHost<'_>,
) -> Result<(), DropReason> {
    if qp.qp_type() != QpType::Ud {
        return Err(DropReason::WrongService);
    }
    let is_ours = |address| services.devices.has_address(address);
    let mut bytes = [0; MAX_PACKET_BYTES];
    let opened = datagram::open(head, frame, &mut bytes);
    let Some((arrival, packet)) = opened.filter(|(arrival, _)| is_ours(arrival.source) && is_ours(arrival.destination))
    else {
        services.counters.add(EngineCounter::DropShmMalformed, 1);
        return Ok(());
    };
    if services.capture.is_active() {
        let (local, remote) = (head.dst, head.src);
        let address = AddressVector {
            hop_limit: arrival.hop_limit,
            traffic_class: arrival.traffic_class,
            ..AddressVector::new(arrival.destination, arrival.source)
        };
        let flow = RecordedFlow { address, entropy: wire::source_port_ud(remote), local, remote };
        record(services, PacketDirection::Received, &flow, packet.bytes());
    }
    qp.handle_packet(&packet, &arrival, Time(0), host)
}

/// Tells the capture of a datagram. The flow is that from our queue pair to the other one.
#[cold]
fn record(services: &QpServices, direction: PacketDirection, flow: &RecordedFlow, packet: &[u8]) {
    UnsentPackets::new(&services.capture, &services.counters, flow).add(direction, packet, None);
}
