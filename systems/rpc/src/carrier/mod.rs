//! The ways to carry a message from one end of a session to the other.

mod immediate;
mod record;
mod ring;
mod slots;

use std::time::Instant;

pub(crate) use immediate::ImmediateCarrier;
pub(crate) use ring::{RING_START_BYTES, RingCarrier};
pub(crate) use slots::{MAX_SLOTS, SlotSet};

use crate::frame::FrameHeader;
use crate::link::{LinkBusy, SessionLink};

/// One end of a session, in one of the ways.
pub(crate) enum Carrier {
    Ring(RingCarrier),
    Immediate(ImmediateCarrier),
}

impl Carrier {
    /// The longest body that a message can have; longer ones the receiver READs.
    pub(crate) fn inline_bytes(&self) -> usize {
        match self {
            Carrier::Ring(ring) => ring.inline_bytes(),
            Carrier::Immediate(immediate) => immediate.inline_bytes(),
        }
    }

    /// Sends a message. The bytes may be used again when this returns.
    pub(crate) fn send<L: SessionLink>(
        &mut self,
        link: &mut L,
        header: &FrameHeader,
        body: &[u8],
        _: Instant,
    ) -> Result<(), LinkBusy> {
        match self {
            Carrier::Ring(ring) => ring.send(link, header, body),
            Carrier::Immediate(immediate) => immediate.send(link, header, body),
        }
    }

    /// Takes the next message, if there is one; its body replaces the contents of `body`.
    pub(crate) fn receive<L: SessionLink>(
        &mut self,
        link: &mut L,
        body: &mut Vec<u8>,
        _: Instant,
    ) -> Option<FrameHeader> {
        match self {
            Carrier::Ring(ring) => ring.receive(link, body),
            Carrier::Immediate(immediate) => immediate.receive(link, body),
        }
    }

    /// Immediate data has arrived.
    pub(crate) fn on_imm(&mut self, imm: u32) {
        match self {
            Carrier::Ring(ring) => ring.broken = true,
            Carrier::Immediate(immediate) => immediate.on_imm(imm),
        }
    }

    /// True if the peer has broken the rules of the way: nothing that it sends can be trusted to be what it seems.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Carrier::Ring(ring) => ring.broken,
            Carrier::Immediate(immediate) => immediate.broken,
        }
    }

    /// True if messages or replies may get lost, so that requests are sent again.
    pub(crate) fn may_lose(&self) -> bool {
        match self {
            Carrier::Ring(_) | Carrier::Immediate(_) => false,
        }
    }

    /// True if a completion tells of each message, so that the receiver may sleep.
    pub(crate) fn wakes(&self) -> bool {
        matches!(self, Carrier::Immediate(_))
    }
}
