//! The ways to carry a message from one end of a session to the other.

mod checked;
mod counters;
pub(crate) mod datagram;
mod fetch;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod herd;
mod immediate;
mod record;
mod ring;
mod round_trip;
mod slot_list;
mod slot_order;
mod slots;

use std::time::Instant;

pub(crate) use counters::CarrierCounters;
pub(crate) use datagram::{DatagramCarrier, DatagramSetup, PacketCut, PacketEnd, READ_ABOVE_BYTES};
pub(crate) use fetch::{FetchClient, FetchServer, FetchSession};
pub(crate) use herd::{HerdClient, HerdServer, HerdSession};
pub(crate) use immediate::ImmediateCarrier;
pub(crate) use record::RECORD_OVERHEAD_BYTES;
pub(crate) use ring::{RING_START_BYTES, RingCarrier};
pub(crate) use slot_list::SlotList;
pub(crate) use slots::{MAX_SLOTS, SlotSet};

use crate::frame::FrameHeader;
use crate::link::{LinkBusy, SessionLink};

/// The places in a datagram to a client where the ways have the session's secret, if they are that long: *datagram*, *herd*.
pub(crate) fn datagram_tokens(datagram: &[u8]) -> [Option<u32>; 2] {
    let word = |at: usize| datagram.get(at..at + 4)?.first_chunk().copied().map(u32::from_le_bytes);
    [word(4), word(0)]
}

/// One end of a session, in one of the ways.
pub(crate) enum Carrier {
    Ring(RingCarrier),
    Immediate(ImmediateCarrier),
    Datagram(Box<DatagramCarrier>),
    HerdClient(HerdClient),
    HerdServer(HerdServer),
    FetchClient(FetchClient),
    FetchServer(FetchServer),
}

impl Carrier {
    /// The longest body of a request; longer ones the server READs.
    pub(crate) fn request_inline_bytes(&self) -> usize {
        match self {
            Carrier::Ring(ring) => ring.inline_bytes(),
            Carrier::Immediate(immediate) => immediate.inline_bytes(),
            Carrier::Datagram(datagram) => datagram.inline_bytes(),
            Carrier::HerdClient(client) => client.session().request_inline_bytes(),
            Carrier::HerdServer(server) => server.session().request_inline_bytes(),
            Carrier::FetchClient(client) => client.session().request_inline_bytes(),
            Carrier::FetchServer(server) => server.session().request_inline_bytes(),
        }
    }

    /// The longest body of a reply; longer ones the client READs.
    pub(crate) fn reply_inline_bytes(&self) -> usize {
        match self {
            Carrier::Ring(ring) => ring.inline_bytes(),
            Carrier::Immediate(immediate) => immediate.inline_bytes(),
            Carrier::Datagram(datagram) => datagram.inline_bytes(),
            Carrier::HerdClient(client) => client.session().reply_inline_bytes(),
            Carrier::HerdServer(server) => server.session().reply_inline_bytes(),
            Carrier::FetchClient(client) => client.session().reply_inline_bytes(),
            Carrier::FetchServer(server) => server.session().reply_inline_bytes(),
        }
    }

    /// Sends a message. The bytes may be used again when this returns.
    pub(crate) fn send<L: SessionLink>(
        &mut self,
        link: &mut L,
        header: &FrameHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<(), LinkBusy> {
        match self {
            Carrier::Ring(ring) => ring.send(link, header, body),
            Carrier::Immediate(immediate) => immediate.send(link, header, body),
            Carrier::Datagram(datagram) => datagram.send(link, header, body, now),
            Carrier::HerdClient(client) => client.send(link, header, body, now),
            Carrier::HerdServer(server) => server.send(link, header, body),
            Carrier::FetchClient(client) => client.send(link, header, body, now),
            Carrier::FetchServer(server) => server.send(link, header, body),
        }
    }

    /// Takes the next message, if there is one; its body replaces the contents of `body`.
    pub(crate) fn receive<L: SessionLink>(
        &mut self,
        link: &mut L,
        body: &mut Vec<u8>,
        now: Instant,
    ) -> Option<FrameHeader> {
        match self {
            Carrier::Ring(ring) => ring.receive(link, body),
            Carrier::Immediate(immediate) => immediate.receive(link, body),
            Carrier::Datagram(datagram) => datagram.receive(link, body, now),
            Carrier::HerdClient(client) => client.receive(body),
            Carrier::HerdServer(server) => server.receive(link, body),
            Carrier::FetchClient(client) => client.receive(link, body),
            Carrier::FetchServer(server) => server.receive(link, body),
        }
    }

    /// Immediate data has arrived.
    pub(crate) fn on_imm(&mut self, imm: u32) {
        match self {
            Carrier::Ring(ring) => ring.broken = true,
            Carrier::Immediate(immediate) => immediate.on_imm(imm),
            Carrier::Datagram(datagram) => datagram.on_imm(),
            Carrier::HerdClient(client) => client.broken = true,
            Carrier::HerdServer(server) => server.broken = true,
            Carrier::FetchClient(client) => client.broken = true,
            Carrier::FetchServer(server) => server.broken = true,
        }
    }

    /// A datagram has arrived, from the peer or from anybody else.
    pub(crate) fn on_datagram(&mut self, bytes: &[u8], now: Instant) {
        match self {
            Carrier::HerdClient(client) => client.on_datagram(bytes, now),
            Carrier::Datagram(datagram) => datagram.on_datagram(bytes, now),
            _ => {}
        }
    }

    /// True if the peer sends datagrams to this end.
    pub(crate) fn takes_datagrams(&self) -> bool {
        matches!(self, Carrier::HerdClient(_) | Carrier::Datagram(_))
    }

    /// A READ of the carrier's own is over: its tag has the bit [`CARRIER_READ`](crate::link::CARRIER_READ). Without bytes the connection has ended.
    pub(crate) fn on_read(&mut self, tag: u64, bytes: Option<&[u8]>) {
        if let (Carrier::FetchClient(client), Some(bytes)) = (self, bytes) {
            client.on_read(tag, bytes);
        }
    }

    /// Does the work whose time has come. Sessions call this whenever they have found no message.
    pub(crate) fn tick<L: SessionLink>(&mut self, link: &mut L, now: Instant) {
        match self {
            Carrier::Datagram(datagram) => datagram.tick(link, now),
            Carrier::HerdClient(client) => client.tick(link, now),
            Carrier::FetchClient(client) => client.tick(link, now),
            _ => {}
        }
    }

    /// True if the device did not take what the last [`tick`](Carrier::tick) wanted to send, so that another one is due.
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(self, Carrier::Datagram(datagram) if datagram.is_blocked())
    }

    /// The first moment at which [`tick`](Carrier::tick) has something to do.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        match self {
            Carrier::Datagram(datagram) => datagram.next_timer(),
            Carrier::HerdClient(client) => client.next_timer(),
            Carrier::FetchClient(client) => client.next_timer(),
            _ => None,
        }
    }

    /// Packets that were sent again, and datagrams that were dropped: doubled, late, of another session, or forged.
    pub(crate) fn counters(&self) -> CarrierCounters {
        match self {
            Carrier::HerdClient(client) => CarrierCounters { repeated: 0, dropped: client.strays() },
            Carrier::Datagram(datagram) => datagram.counters().summary(),
            _ => CarrierCounters::default(),
        }
    }

    /// True if the peer has broken the rules of the way: nothing that it sends can be trusted to be what it seems.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Carrier::Ring(ring) => ring.broken,
            Carrier::Immediate(immediate) => immediate.broken,
            Carrier::Datagram(datagram) => datagram.is_broken(),
            Carrier::HerdClient(client) => client.broken,
            Carrier::HerdServer(server) => server.broken,
            Carrier::FetchClient(client) => client.broken,
            Carrier::FetchServer(server) => server.broken,
        }
    }

    /// True if messages or replies may get lost, so that requests are sent again. The way datagram does that itself.
    pub(crate) fn may_lose(&self) -> bool {
        matches!(self, Carrier::HerdClient(_) | Carrier::HerdServer(_))
    }

    /// Packets that the peer may have under way, without a receive of the connection for each.
    pub(crate) fn credits(&self) -> u32 {
        match self {
            Carrier::Datagram(datagram) => datagram.credits(),
            _ => 0,
        }
    }

    /// True if each message of the peer takes a receive of the connection, for its immediate data.
    pub(crate) fn takes_receives(&self) -> bool {
        matches!(self, Carrier::Immediate(_))
    }

    /// True if a completion tells of each message, so that the receiver may sleep.
    pub(crate) fn wakes(&self) -> bool {
        matches!(self, Carrier::Immediate(_) | Carrier::Datagram(_))
    }
}
