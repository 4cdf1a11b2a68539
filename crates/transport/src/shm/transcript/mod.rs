//! What would have been on the wire: the packets of a connection that has none.
//!
//! For captures. Whoever records tells a [`Transcript`] of every frame that was sent or has arrived, and of every
//! request that was carried out without one, and gets the packets in which the wire would have said the same:
//!
//! ```text
//!  frame sent ──────┐              ┌─ requests of ours ── answers of the peer ─┐
//!  frame arrived ───┼─ Transcript ─┤                                           ├─► packets, BTH to pad
//!  Deed, Outcome ───┘              └─ requests of the peer ── answers of ours ─┘
//! ```
//!
//! Messages are cut by the path MTU, PSNs follow each other, a request that is sent again has the PSNs that it had.
//! What nobody but the peer can know is missing: what its processor does in our memory takes no PSN here, and the
//! numbers begin at the queue pair's starting PSN when the recording begins.
//!
//! Pure: memory is asked for through closures, addresses and the ICRC are others' matter.

mod conversation;
mod deeds;
mod message;
mod numbers;
mod sheet;
mod single;

use wire::{PKey, Psn, Qpn};

use super::errand::ERRAND_BYTES;
use super::frame::{Head, Kind};
use super::requester::WRITE_PREFIX_BYTES;
use crate::attr::{Mtu, QpType};
use crate::memory::{MemoryError, PdId};
use crate::qp::Qp;
use crate::wr::{Payload, SendOp};
use conversation::Conversation;
use sheet::Way;

/// Bytes at the front of a frame's body that a transcript looks at, at most.
pub const FRONT_BYTES: usize = ERRAND_BYTES;

/// What all packets of a connection have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    is_reliable: bool,
    local: Qpn,
    remote: Qpn,
    path_mtu: Mtu,
    pkey: PKey,
    sq_psn: Psn,
    rq_psn: Psn,
}

impl Ends {
    /// Those of a queue pair, as its attributes are now.
    pub fn of(qp: &Qp) -> Ends {
        let attr = qp.query();
        Ends {
            is_reliable: qp.qp_type() != QpType::Uc,
            local: qp.qpn(),
            remote: attr.dest_qpn,
            path_mtu: attr.packet_mtu(),
            pkey: attr.pkey,
            sq_psn: attr.sq_psn,
            rq_psn: attr.rq_psn,
        }
    }
}

/// A request that needs no frame: one that our own processor carries out in the peer's memory.
#[derive(Clone, Copy, Debug)]
pub struct Deed<'a> {
    /// What it does.
    pub op: &'a SendOp,
    /// Its bytes, or where the result is.
    pub payload: &'a Payload,
    /// The domain of the keys in `payload`.
    pub pd: PdId,
    /// Length of the message in bytes.
    pub len_bytes: u32,
    /// The peer is asked for an event.
    pub solicited: bool,
}

/// How a [`Deed`] has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It is done, and this was in the peer's memory before.
    Value(u64),
    /// It is done, and the peer is told by a frame with this number, which it will answer.
    Told(u32),
    /// The peer's memory refused.
    Refused(MemoryError),
    /// There is nobody (yet).
    NoAnswer,
}

/// Whether a packet would have left or come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the peer to us.
    Received,
    /// From us to the peer.
    Sent,
}

/// Bytes of a message that are still in some memory.
pub struct Bytes<'a> {
    /// How many.
    pub len_bytes: u32,
    /// Copies as many as fit from an offset on; false if they cannot be had any more.
    pub read: &'a mut dyn FnMut(u32, &mut [u8]) -> bool,
}

impl core::fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Bytes").field("len_bytes", &self.len_bytes).finish_non_exhaustive()
    }
}

/// Takes a packet, BTH to pad without ICRC, and maybe a comment for who reads the capture.
pub type Show<'a> = dyn FnMut(Direction, &[u8], Option<&'static str>) + 'a;

/// Where a connection is, as far as it was watched.
#[derive(Debug)]
pub struct Transcript {
    ends: Ends,
    /// Our requests and the peer's answers; from the first request on.
    ours: Option<Conversation>,
    /// The peer's requests and our answers.
    theirs: Option<Conversation>,
}

impl Transcript {
    /// One that begins now.
    pub fn new(ends: Ends) -> Transcript {
        Transcript { ends, ours: None, theirs: None }
    }

    /// The queue pair was modified.
    pub fn set_ends(&mut self, ends: Ends) {
        if self.ends.sq_psn != ends.sq_psn {
            self.ours = None;
        }
        self.ends = ends;
    }

    /// A frame has left. `head` is as it left, `front` the beginning of its body, and `bytes` what it
    /// brings of a message.
    pub fn sent(&mut self, head: &Head, front: &[u8], bytes: Bytes<'_>, show: &mut Show<'_>) {
        use Direction::{Received, Sent};
        let Transcript { ends, ours, theirs } = self;
        if let Some(theirs) = theirs {
            theirs.acknowledge(acknowledged(head), &mut |_, packet, comment| show(Sent, packet, comment));
        }
        match head.kind {
            // The deed that it belongs to was told of.
            Kind::Notice | Kind::Refused | Kind::Datagram => {}
            kind if kind.is_request() => {
                ours_of(ours, ends).request(head, front, bytes, &mut |way, packet, comment| {
                    show(if way == Way::Request { Sent } else { Received }, packet, comment);
                });
            }
            _ => theirs_of(theirs, ends)
                .answer(head, front, bytes, &mut |_, packet, comment| show(Sent, packet, comment)),
        }
    }

    /// A frame has arrived.
    pub fn arrived(&mut self, head: &Head, front: &[u8], bytes: Bytes<'_>, show: &mut Show<'_>) {
        use Direction::{Received, Sent};
        let Transcript { ends, ours, theirs } = self;
        if let Some(ours) = ours {
            ours.acknowledge(acknowledged(head), &mut |_, packet, comment| show(Received, packet, comment));
        }
        match head.kind {
            Kind::Datagram => {}
            kind if kind.is_request() => {
                theirs_of(theirs, ends).request(head, front, bytes, &mut |way, packet, comment| {
                    show(if way == Way::Request { Received } else { Sent }, packet, comment);
                });
            }
            _ => ours_of(ours, ends)
                .answer(head, front, bytes, &mut |_, packet, comment| show(Received, packet, comment)),
        }
    }

    /// A request of ours has ended that needed no frame. `read` copies bytes of its payload, also of what
    /// a READ has brought.
    pub fn done(
        &mut self,
        deed: &Deed<'_>,
        outcome: Outcome,
        read: &mut dyn FnMut(u32, &mut [u8]) -> bool,
        show: &mut Show<'_>,
    ) {
        ours_of(&mut self.ours, &self.ends).deed(deed, outcome, read, &mut |way, packet, comment| {
            show(if way == Way::Request { Direction::Sent } else { Direction::Received }, packet, comment);
        });
    }
}

/// What a frame acknowledges; an answer that brings something does so by itself for its request.
fn acknowledged(head: &Head) -> u32 {
    if matches!(head.kind, Kind::Data | Kind::Result) { head.request } else { head.ack }
}

fn ours_of<'a>(ours: &'a mut Option<Conversation>, ends: &Ends) -> &'a mut Conversation {
    ours.get_or_insert_with(|| Conversation::new(ends, ends.local, ends.remote, ends.sq_psn))
}

fn theirs_of<'a>(theirs: &'a mut Option<Conversation>, ends: &Ends) -> &'a mut Conversation {
    theirs.get_or_insert_with(|| Conversation::new(ends, ends.remote, ends.local, ends.rq_psn))
}

/// Bytes in front of the part of a message in a frame's body.
pub fn prefix_bytes(kind: Kind) -> usize {
    if kind == Kind::Write { WRITE_PREFIX_BYTES } else { 0 }
}
