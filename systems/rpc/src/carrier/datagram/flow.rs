//! One call at the client: a sequence of packets, each of which one packet answers.
//!
//! With a request of `n` packets and a reply of `m`, the client sends `n` parts and then `m - 1` pulls. The server's credits
//! answer the parts but the last, the first packet of the reply answers the last part, and the others answer the pulls.
//! So both directions have `n + m - 1` packets. (Kalia et al., "Datacenter RPCs can be General and Fast", NSDI 2019,
//! section 5.1.)

use std::time::{Duration, Instant};

use crate::carrier::datagram::packet::RpcPacketKind;
use crate::carrier::datagram::parts::{IncomingParts, OutgoingParts};

/// The packet whose round trip is measured.
struct Measured {
    place: u32,
    sent_at: Instant,
}

/// One slot of the client.
#[derive(Default)]
pub(crate) struct CallFlow {
    pub(crate) number: u32,
    /// A call is under way.
    pub(crate) active: bool,
    pub(crate) request: OutgoingParts,
    pub(crate) reply: IncomingParts,
    /// Packets sent since the last rollback, and those that were answered.
    sent: u32,
    answered: u32,
    /// Packets ever sent.
    reached: u32,
    measured: Option<Measured>,
    /// The moment at which the answers are late, or at which a parked call asks again.
    pub(crate) timer: Option<Instant>,
    /// Timeouts in a row.
    pub(crate) timeouts: u32,
    /// The server has told that the handler runs: it sends the reply unasked.
    pub(crate) parked: bool,
}

impl CallFlow {
    /// Begins a call whose request is filled in.
    pub(crate) fn begin(&mut self, number: u32) {
        (self.number, self.active, self.parked) = (number, true, false);
        (self.sent, self.answered, self.reached) = (0, 0, 0);
        (self.measured, self.timer, self.timeouts) = (None, None, 0);
        self.reply.clear();
    }

    /// Credits that the call holds.
    pub(crate) fn held(&self) -> u32 {
        self.sent - self.answered
    }

    /// Packets to send, as far as we know.
    fn goal(&self) -> u32 {
        self.request.packets() + self.reply.packets().saturating_sub(1)
    }

    /// True if a packet waits for a credit.
    pub(crate) fn has_more(&self) -> bool {
        self.active && !self.parked && self.sent < self.goal()
    }

    /// The next packet: its kind and its index.
    pub(crate) fn next_packet(&self) -> (RpcPacketKind, u16) {
        let parts = self.request.packets();
        match self.sent.checked_sub(parts) {
            None => (RpcPacketKind::Request, self.sent as u16),
            Some(pulls) => (RpcPacketKind::Pull, (pulls + 1) as u16),
        }
    }

    /// Notes that the next packet has been sent. Returns whether it was for the first time.
    pub(crate) fn on_sent(&mut self, now: Instant) -> bool {
        let is_new = self.sent == self.reached;
        if is_new && self.measured.is_none() {
            self.measured = Some(Measured { place: self.sent, sent_at: now });
        }
        self.sent += 1;
        self.reached = self.reached.max(self.sent);
        is_new
    }

    /// The place in the sequence that the server's packet answers.
    pub(crate) fn place_of(&self, kind: RpcPacketKind, index: u16) -> Option<u32> {
        let last_part = self.request.packets().checked_sub(1)?;
        let index = u32::from(index);
        match kind {
            RpcPacketKind::Credit if index < last_part => Some(index),
            RpcPacketKind::Running if index == last_part => Some(index),
            RpcPacketKind::Reply => Some(last_part + index),
            _ => None,
        }
    }

    /// True if that packet has been sent.
    pub(crate) fn has_sent(&self, place: u32) -> bool {
        place < self.reached
    }

    pub(crate) fn answered(&self) -> u32 {
        self.answered
    }

    /// The packet at `place` and all before it have been answered. Returns the credits that come back and the round trip
    /// time of that packet, if it was measured.
    pub(crate) fn on_answer(&mut self, place: u32, now: Instant) -> (u32, Option<Duration>) {
        let held = self.held();
        self.answered = place + 1;
        // An answer to a packet that was rolled back counts too.
        self.sent = self.sent.max(self.answered);
        self.timeouts = 0;
        self.parked = false;
        let rtt = self
            .measured
            .take_if(|measured| measured.place <= place)
            .and_then(|measured| (measured.place == place).then(|| now.saturating_duration_since(measured.sent_at)));
        (held - self.held(), rtt)
    }

    /// Goes back to the first packet without an answer. Returns the credits that come back.
    pub(crate) fn roll_back(&mut self) -> u32 {
        let held = self.held();
        self.sent = self.answered;
        self.measured = None;
        held
    }

    /// The server executes the request. Nothing is sent until the timer ends. Returns the credits that come back.
    pub(crate) fn park(&mut self) -> u32 {
        let held = self.held();
        self.answered = self.request.packets() - 1;
        self.sent = self.answered;
        self.measured = None;
        self.parked = true;
        held
    }

    /// True if only the server's handler may be late.
    pub(crate) fn awaits_handler(&self) -> bool {
        self.answered + 1 == self.request.packets()
    }

    /// Ends the call.
    pub(crate) fn end(&mut self) {
        debug_assert_eq!(self.held(), 0, "all packets are answered");
        (self.active, self.timer) = (false, None);
        self.request.clear();
    }
}
