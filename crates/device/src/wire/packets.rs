//! Received packets: whether a segment is one, and its destination.

use transport::RecvMeta;
use udp::Datagram;
use wire::icrc::{Check, Sealer};
use wire::{Gid, ICRC_LEN, Packet, Qpn};

use crate::objects::counters::{EngineCounter, EngineCounters};

/// The shortest packet: a BTH and an ICRC.
const MIN_PACKET_BYTES: usize = wire::Bth::LEN + ICRC_LEN;
/// The position of the high byte of the destination QPN in a packet.
pub(crate) const DEST_SLOT: usize = 5;

/// The values that the packets of one datagram share.
pub(crate) struct InboundFlow {
    sealer: Sealer,
    pub(crate) arrival: RecvMeta,
    pub(crate) interface: u32,
}

impl InboundFlow {
    /// The flow of `datagram`, which is most often the `last` one.
    #[inline]
    pub(crate) fn of<'a>(datagram: &Datagram<'_>, last: &'a mut Option<InboundFlow>) -> &'a InboundFlow {
        if !last.as_ref().is_some_and(|last| last.is_of(datagram)) {
            *last = None;
        }
        last.get_or_insert_with(|| InboundFlow::new(datagram))
    }

    fn is_of(&self, datagram: &Datagram<'_>) -> bool {
        let InboundFlow { sealer, arrival, interface } = self;
        let flow = sealer.flow();
        let flags = (arrival.traffic_class, arrival.hop_limit);
        flow.source_port == datagram.source.port()
            && flow.source == datagram.source.ip()
            && flow.destination == datagram.destination
            && *interface == datagram.interface
            && flags == (datagram.traffic_class, datagram.hop_limit)
    }

    #[cold]
    fn new(datagram: &Datagram<'_>) -> InboundFlow {
        let flow = datagram.flow();
        let arrival = RecvMeta {
            source: Gid::from(flow.source.to_canonical()),
            destination: Gid::from(flow.destination.to_canonical()),
            traffic_class: datagram.traffic_class,
            hop_limit: datagram.hop_limit,
            ecn_ce: datagram.ecn_ce(),
        };
        InboundFlow { sealer: Sealer::new(flow), arrival, interface: datagram.interface }
    }
}

/// The destination of what may be a packet; `None` if it is too short to be one.
#[inline]
pub(crate) fn dest_qpn(bytes: &[u8]) -> Option<Qpn> {
    if bytes.len() < MIN_PACKET_BYTES {
        return None;
    }
    let [_, _, _, _, _, a, b, c, ..] = *bytes else { return None };
    Some(Qpn::new(u32::from_be_bytes([0, a, b, c])))
}

/// The packet in a segment, if its ICRC is right and its headers make sense; otherwise the counters tell why not.
///
/// `index` is the segment's place in its datagram, which is the identification that a Longarm sender gives it.
#[inline]
pub(crate) fn admit<'a>(
    flow: &InboundFlow,
    index: u16,
    segment: &'a [u8],
    counters: &EngineCounters,
) -> Option<Packet<'a>> {
    match flow.sealer.check(segment, index) {
        Check::Good => {}
        Check::Identification(_) => counters.add(EngineCounter::RxIdentification, 1),
        Check::Bad => {
            counters.add(EngineCounter::DropBadIcrc, 1);
            return None;
        }
    }
    match Packet::parse(&segment[..segment.len() - ICRC_LEN]) {
        Ok(packet) => Some(packet),
        Err(error) => {
            counters.malformed(&error);
            None
        }
    }
}

/// The identification of a segment, as far as its ICRC tells.
pub(crate) fn identification(flow: &InboundFlow, index: u16, segment: &[u8]) -> u16 {
    match flow.sealer.check(segment, index) {
        Check::Good | Check::Bad => index,
        Check::Identification(identification) => identification,
    }
}
