//! What arrives, packet by packet: is it one, and for whom?

use transport::{RecvMeta, Time};
use udp::Datagram;
use wire::icrc::{Check, Sealer};
use wire::{Gid, ICRC_LEN, Packet, Qpn};

use crate::objects::counters::{Counter, Counters};
use crate::path::pump::Acks;

/// The shortest packet: a BTH and an ICRC.
const MIN_PACKET_BYTES: usize = wire::Bth::LEN + ICRC_LEN;

/// What the packets of one datagram have in common.
pub(crate) struct Inbound {
    sealer: Sealer,
    pub(crate) arrival: RecvMeta,
    pub(crate) interface: u32,
    pub(crate) now: Time,
    /// What becomes of the acknowledges.
    pub(crate) acks: Acks,
}

impl Inbound {
    /// What `datagram` brings. Most come from where the `last` one came from, and then little is new.
    #[inline]
    pub(crate) fn of<'a>(datagram: &Datagram<'_>, now: Time, acks: Acks, last: &'a mut Option<Inbound>) -> &'a Inbound {
        if !last.as_ref().is_some_and(|last| last.is_from_there(datagram)) {
            *last = None;
        }
        let inbound = last.get_or_insert_with(|| Inbound::new(datagram, now, acks));
        (inbound.now, inbound.acks) = (now, acks);
        inbound
    }

    fn is_from_there(&self, datagram: &Datagram<'_>) -> bool {
        let Inbound { sealer, arrival, interface, .. } = self;
        let flow = sealer.flow();
        let flags = (arrival.traffic_class, arrival.hop_limit);
        flow.source_port == datagram.source.port()
            && flow.source == datagram.source.ip()
            && flow.destination == datagram.destination
            && *interface == datagram.interface
            && flags == (datagram.traffic_class, datagram.hop_limit)
    }

    #[cold]
    fn new(datagram: &Datagram<'_>, now: Time, acks: Acks) -> Inbound {
        let flow = datagram.flow();
        let arrival = RecvMeta {
            source: Gid::from(flow.source.to_canonical()),
            destination: Gid::from(flow.destination.to_canonical()),
            traffic_class: datagram.traffic_class,
            hop_limit: datagram.hop_limit,
            ecn_ce: datagram.ecn_ce(),
        };
        Inbound { sealer: Sealer::new(flow), arrival, interface: datagram.interface, now, acks }
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

/// The packet in a segment, if its ICRC is right and its headers make sense; the counters
/// know why not. `index` is the segment's place in its datagram, and so the identification
/// that a sender like ourselves gives it. Returns the packet's real identification too.
#[inline]
pub(crate) fn admit<'a>(inbound: &Inbound, index: u16, segment: &'a [u8], counters: &Counters) -> Option<Packet<'a>> {
    match inbound.sealer.check(segment, index) {
        Check::Good => {}
        Check::Identification(_) => counters.add(Counter::RxIdentification, 1),
        Check::Bad => {
            counters.add(Counter::DropBadIcrc, 1);
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
pub(crate) fn identification(inbound: &Inbound, index: u16, segment: &[u8]) -> u16 {
    match inbound.sealer.check(segment, index) {
        Check::Good | Check::Bad => index,
        Check::Identification(identification) => identification,
    }
}
