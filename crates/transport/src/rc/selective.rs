//! Selective retransmission, the requester's half: between two Longarm peers only what is missing is sent again.
//!
//! Both ends have agreed on it first (see [`agreement`](super::agreement)). The responder keeps packets ahead of
//! sequence and names the missing ones; the requester sends only those again. Until it is agreed, and with any other
//! peer, losses are repaired by go-back-N.
//!
//! ```text
//!  10  11  12  13  14     ──── 11 lost ──►  expects 11, keeps 12 13 14
//!                         ◄──────────────  missing 11; here: 12 13 14
//!  11                     ──────────────►  carries out 11 12 13 14
//! ```
//! Packets that have arrived or are lost are not in flight, so the window moves on meanwhile, up to the length of
//! one bitmap.

use wire::{Cookie, Packet, Psn, Sack, SyndromeKind};

use crate::congestion::Congestion;
use crate::drop::DropReason;
use crate::host::Host;
use crate::network::Transmit;
use crate::qp_core::QpCore;
use crate::queue::send::PACKET_OVERHEAD_BYTES;
use crate::rc::agreement::AnswerKind;
use crate::rc::request::{RequestPart, SendCursor, build_request, packet_number};
use crate::rc::requester::RcRequester;
use crate::rc::scoreboard::Scoreboard;
use crate::reason::Reason;
use crate::time::Time;
use crate::wr::SendOp;

impl RcRequester {
    /// Learns from a response about the agreement. AckReq beside a mark says that the peer takes requests that carry
    /// ACKs: in a response it has no other meaning.
    #[inline]
    pub(super) fn check_mark(&mut self, packet: &Packet<'_>, core: &QpCore) -> Result<(), DropReason> {
        let bth = packet.bth();
        let told = packet.cookie();
        if told.is_some() && packet.sack().is_some() && told != self.agreement.shared() {
            return Err(DropReason::NotAgreed);
        }
        self.agreement.check_mark(bth.mark, told, self.kind_of(packet))?;
        let is_made = self.agreement.is_made();
        self.peer_delays_acks = is_made;
        self.peer_takes_piggybacks = is_made && bth.ack_req && core.tuning.piggyback && !core.is_xrc();
        Ok(())
    }

    #[inline]
    fn kind_of(&self, packet: &Packet<'_>) -> AnswerKind {
        let syndrome = packet.aeth().map(|aeth| aeth.syndrome.kind());
        match syndrome {
            _ if !self.is_outstanding(packet.psn()) => AnswerKind::Ghost,
            None | Some(SyndromeKind::Ack { .. }) => AnswerKind::Positive,
            Some(_) => AnswerKind::Negative,
        }
    }

    /// Whether a request that carries an ACK and this cookie may be the peer's.
    pub(super) fn is_proven_by(&self, cookie: Cookie, core: &QpCore) -> bool {
        core.tuning.piggyback && !core.is_xrc() && self.agreement.shared() == Some(cookie)
    }

    /// Takes a selective ACK: everything before its PSN has arrived, and the packets in its bitmap.
    pub(super) fn handle_selective(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let sack = packet.sack().ok_or(DropReason::BadResponse)?;
        let psn = packet.psn();
        if psn.before(self.una) || self.sent.before(psn) {
            return Err(DropReason::GhostResponse);
        }
        let beyond = sack.highest().is_some_and(|highest| !psn.add(highest).before(self.sent));
        if beyond {
            core.counters.impossible_notices += 1;
            // The peer has kept what we never sent. Going back repairs what is missing without its notices.
            if self.una.before(self.sent) {
                self.rewind_after_loss(core, now);
            }
            return Err(DropReason::BadResponse);
        }
        core.counters.rx_selective_acks += 1;
        if self.acknowledge(core, psn, now, host) != psn {
            self.imply_nak(core, now);
            return Ok(());
        }
        self.probe.forget_psn();
        if sack.highest().is_some() && !self.retry.waits_for_receiver() {
            self.scoreboard.get_or_insert_with(|| Box::new(Scoreboard::new(psn))).merge(psn, &sack);
            self.note_missing(core);
        }
        Ok(())
    }

    /// The oldest unacknowledged packet is another one.
    pub(super) fn advance_scoreboard(&mut self, core: &QpCore) {
        let Some(board) = &mut self.scoreboard else { return };
        board.advance(self.una);
        self.note_missing(core);
        if self.scoreboard.as_ref().is_some_and(|board| board.is_empty()) {
            self.scoreboard = None;
        }
    }

    /// Marks as lost: packets sent before the last one that arrived, and that did not arrive.
    fn note_missing(&mut self, core: &QpCore) {
        let Some(board) = &mut self.scoreboard else { return };
        // After going back, what follows the cursor is sent again in any case.
        let end = Some(board.end_of_missing()).filter(|end| end.before(self.next)).unwrap_or(self.next);
        let mut lost = board.note_lost_again();
        let (mut psn, mut index) = (self.una, 0);
        while psn.before(end) {
            let Some(wqe) = core.sq.get(index) else { break };
            if !psn.before(wqe.end_psn()) {
                index += 1;
                continue;
            }
            let packets = match wqe.op {
                SendOp::Read(_) => self.reads.parts().rest_of_part(psn).unwrap_or(1).max(1),
                _ => 1,
            };
            if !board.has_arrived(psn) && board.note_missing(psn, packets) {
                lost += packets;
            }
            psn = psn.add(packets);
        }
        if lost != 0 {
            let packet_bytes = u64::from(core.mtu()) + PACKET_OVERHEAD_BYTES;
            self.congestion.on_missing(u64::from(lost) * packet_bytes, self.una, self.sent);
            self.retry.rewound();
        }
        self.update_not_in_flight(core);
    }

    /// Computes the part of the window that is not in flight: arrived, or lost and not sent again.
    fn update_not_in_flight(&mut self, core: &QpCore) {
        self.not_in_flight = 0;
        let Some(board) = &self.scoreboard else { return };
        let (mut psn, mut index) = (self.una, 0);
        let end = board.highest().map_or(self.una, Psn::next);
        let mut bytes = 0;
        while psn.before(end) {
            let Some(wqe) = core.sq.get(index) else { break };
            if !psn.before(wqe.end_psn()) {
                index += 1;
                continue;
            }
            // Of a READ that arrived the response is in flight.
            if board.has_arrived(psn) && !wqe.op.is_read_or_atomic() {
                bytes += packets_cost(core, index, packet_number(wqe, psn), 1);
            }
            psn = psn.next();
        }
        let due = board.all_due().filter_map(|(psn, packets)| {
            let SendCursor { wqe, packet } = find(core, psn)?;
            Some(packets_cost(core, wqe, packet, packets))
        });
        self.not_in_flight = bytes + due.sum::<u64>();
    }

    /// Whether a missing packet is to be sent again, and may be now.
    pub(super) fn may_repair(&self, core: &QpCore) -> Option<bool> {
        let (psn, _) = self.scoreboard.as_ref()?.due()?;
        let cursor = find(core, psn)?;
        let cost = packets_cost(core, cursor.wqe, cursor.packet, 1);
        Some(self.room(core) >= cost || self.window_in_use(core) == 0)
    }

    /// Sends the next missing packet again.
    pub(super) fn send_repair(
        &mut self,
        core: &mut QpCore,
        now: Time,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        let (psn, more) = self.scoreboard.as_ref()?.due()?;
        let cursor = find(core, psn)?;
        let wqe = core.sq.get(cursor.wqe)?;
        let step = match wqe.op {
            SendOp::Read(_) => self.part_again(core, psn).unwrap_or(1).min(wqe.packets - cursor.packet),
            _ => 1,
        };
        let part = RequestPart { cursor, step, psn, ack_req: !more, piggyback_ack: None };
        let len_bytes = match build_request(core, self.agreement.request_mark(), &part, out, host) {
            Ok(len_bytes) => len_bytes,
            Err(refused) => {
                // The rewind finds the same refusal in its turn, and reports it.
                self.blocked = Some(Reason::LocalMemory(refused));
                self.scoreboard = None;
                self.update_not_in_flight(core);
                self.cursor = cursor;
                self.next = psn;
                return None;
            }
        };
        if matches!(wqe.op, SendOp::Read(_)) {
            self.reads.note_part(psn.add(step), true);
        }
        self.count(core, psn, !more, now);
        core.counters.repaired_packets += 1;
        let frontier = self.next;
        if let Some(board) = &mut self.scoreboard {
            board.sent_again(psn, frontier);
        }
        self.update_not_in_flight(core);
        Some(core.transmit(len_bytes))
    }

    /// While something is missing, the peer keeps no more than one bitmap speaks of.
    pub(super) fn fits_bitmap(&self, end: Psn) -> bool {
        self.scoreboard.is_none() || end.distance(self.una) <= Sack::BITS as i32
    }
}

/// The place of the packet with `psn`; it lies within a bitmap's length of the head.
fn find(core: &QpCore, psn: Psn) -> Option<SendCursor> {
    let mut index = 0;
    loop {
        let wqe = core.sq.get(index)?;
        if psn.before(wqe.end_psn()) {
            let packet = packet_number(wqe, psn);
            return (!psn.before(wqe.first_psn)).then_some(SendCursor { wqe: index, packet });
        }
        index += 1;
    }
}

/// Cost in the window of `packets` of a WQE from `packet` on.
fn packets_cost(core: &QpCore, wqe: usize, packet: u32, packets: u32) -> u64 {
    let cost = |packet| core.sq.cost_at(wqe, packet, core.mtu());
    cost(packet + packets).saturating_sub(cost(packet)).max(PACKET_OVERHEAD_BYTES)
}
