//! The ways to carry a message from one end of a session to the other.

mod datagram;
mod immediate;
mod record;
mod ring;
mod slots;

use std::time::Instant;

pub(crate) use datagram::DatagramCarrier;
pub(crate) use immediate::ImmediateCarrier;
pub(crate) use ring::{RING_START_BYTES, RingCarrier};
pub(crate) use slots::{MAX_SLOTS, SlotSet};

use crate::frame::FrameHeader;
use crate::link::{LinkBusy, SessionLink};

/// The bit of a READ's tag that says that the carrier has asked for it, not the session.
pub(crate) const CARRIER_READ: u64 = 1 << 63;

/// One end of a session, in one of the ways.
pub(crate) enum Carrier {
    Ring(RingCarrier),
    Immediate(ImmediateCarrier),
    Datagram(Box<DatagramCarrier>),
}

impl Carrier {
    /// The longest body of a request; longer ones the server READs.
    pub(crate) fn request_inline_bytes(&self) -> usize {
        match self {
            Carrier::Ring(ring) => ring.inline_bytes(),
            Carrier::Immediate(immediate) => immediate.inline_bytes(),
            Carrier::Datagram(datagram) => datagram.inline_bytes(),
        }
    }

    /// The longest body of a reply; longer ones the client READs.
    pub(crate) fn reply_inline_bytes(&self) -> usize {
        match self {
            Carrier::Ring(ring) => ring.inline_bytes(),
            Carrier::Immediate(immediate) => immediate.inline_bytes(),
            Carrier::Datagram(datagram) => datagram.inline_bytes(),
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
        }
    }

    /// Immediate data has arrived.
    pub(crate) fn on_imm(&mut self, imm: u32) {
        match self {
            Carrier::Ring(ring) => ring.broken = true,
            Carrier::Immediate(immediate) => immediate.on_imm(imm),
            Carrier::Datagram(_) => {} // The connection beside the datagrams carries none.
        }
    }

    /// A datagram has arrived, from the peer or from anybody else.
    pub(crate) fn on_datagram(&mut self, bytes: &[u8], now: Instant) {
        match self {
            Carrier::Ring(_) | Carrier::Immediate(_) => {}
            Carrier::Datagram(datagram) => datagram.on_datagram(bytes, now),
        }
    }

    /// A READ of the carrier's own is over: its tag has the bit [`CARRIER_READ`]. Without bytes the connection has ended.
    pub(crate) fn on_read(&mut self, _: u64, _: Option<&[u8]>) {
        match self {
            Carrier::Ring(_) | Carrier::Immediate(_) | Carrier::Datagram(_) => {}
        }
    }

    /// Does the work whose time has come. Sessions call this whenever they have found no message.
    pub(crate) fn tick<L: SessionLink>(&mut self, link: &mut L, now: Instant) {
        match self {
            Carrier::Ring(_) | Carrier::Immediate(_) => {}
            Carrier::Datagram(datagram) => datagram.tick(link, now),
        }
    }

    /// The first moment at which [`tick`](Carrier::tick) has something to do.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        match self {
            Carrier::Ring(_) | Carrier::Immediate(_) => None,
            Carrier::Datagram(datagram) => datagram.next_timer(),
        }
    }

    /// The client has taken the reply to a request: nobody waits for another.
    pub(crate) fn finished(&mut self, _slot: u16, _number: u32) {
        match self {
            Carrier::Ring(_) | Carrier::Immediate(_) | Carrier::Datagram(_) => {}
        }
    }

    /// True if the peer has broken the rules of the way: nothing that it sends can be trusted to be what it seems.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Carrier::Ring(ring) => ring.broken,
            Carrier::Immediate(immediate) => immediate.broken,
            Carrier::Datagram(_) => false, // Anybody can send datagrams: none is believed to be the peer's fault.
        }
    }

    /// True if messages or replies may get lost, so that requests are sent again.
    pub(crate) fn may_lose(&self) -> bool {
        match self {
            Carrier::Ring(_) | Carrier::Immediate(_) => false,
            // The carrier itself sends again what is lost.
            Carrier::Datagram(_) => false,
        }
    }

    /// True if a completion tells of each message, so that the receiver may sleep.
    pub(crate) fn wakes(&self) -> bool {
        matches!(self, Carrier::Immediate(_) | Carrier::Datagram(_))
    }
}
