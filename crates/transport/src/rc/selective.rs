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

use wire::{Psn, Sack};

use crate::qp_core::QpCore;
use crate::queue::send::PACKET_OVERHEAD_BYTES;
use crate::rc::reads::ReadParts;
use crate::rc::request::{SendCursor, packet_number};
use crate::rc::scoreboard::Scoreboard;
use crate::wr::SendOp;

/// The packets beyond the oldest unacknowledged one that arrived, and those that are missing.
#[derive(Debug, Default)]
pub(super) struct SelectiveRepair {
    /// It exists while something is missing.
    scoreboard: Option<Box<Scoreboard>>,
    /// Window cost of packets that have arrived or are lost: sent, not acknowledged, and not in flight.
    not_in_flight: u64,
}

/// A missing packet that is to be sent again.
#[derive(Clone, Copy)]
pub(super) struct MissingPacket {
    pub(super) psn: Psn,
    pub(super) cursor: SendCursor,
    /// Another one waits behind it.
    pub(super) more: bool,
}

impl SelectiveRepair {
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.scoreboard.is_some()
    }

    /// See the field.
    #[inline]
    pub(super) fn not_in_flight(&self) -> u64 {
        self.not_in_flight
    }

    /// While something is missing, the peer keeps no more than one bitmap speaks of.
    #[inline]
    pub(super) fn fits_bitmap(&self, una: Psn, end: Psn) -> bool {
        self.scoreboard.is_none() || end.distance(una) <= Sack::BITS as i32
    }

    pub(super) fn clear(&mut self) {
        *self = SelectiveRepair::default();
    }

    /// Takes a selective ACK that names packets from `psn` on.
    pub(super) fn merge(&mut self, psn: Psn, sack: &Sack) {
        self.scoreboard.get_or_insert_with(|| Box::new(Scoreboard::new(psn))).merge(psn, sack);
    }

    /// The oldest unacknowledged packet is another one.
    pub(super) fn advance(&mut self, una: Psn) {
        if let Some(board) = &mut self.scoreboard {
            board.advance(una);
        }
    }

    /// Ends the repair if nothing is missing any more.
    pub(super) fn end_if_complete(&mut self) {
        self.scoreboard.take_if(|board| board.is_empty());
    }

    /// The first missing packet that is to be sent again.
    #[inline]
    pub(super) fn due(&self, core: &QpCore) -> Option<MissingPacket> {
        let (psn, more) = self.scoreboard.as_ref()?.due()?;
        Some(MissingPacket { psn, cursor: find(core, psn)?, more })
    }

    /// The packet leaves again; `next` is the PSN at the cursor.
    pub(super) fn sent_again(&mut self, core: &QpCore, psn: Psn, una: Psn, next: Psn) {
        if let Some(board) = &mut self.scoreboard {
            board.sent_again(psn, next);
        }
        self.update_not_in_flight(core, una);
    }

    /// Marks as lost: packets sent before the last one that arrived, and that did not arrive.
    /// Returns how many. `next` is the PSN at the cursor, `parts` are those in which READs were asked for.
    pub(super) fn note_missing(&mut self, core: &QpCore, una: Psn, next: Psn, parts: &ReadParts) -> u32 {
        let Some(board) = &mut self.scoreboard else { return 0 };
        // After going back, what follows the cursor is sent again in any case.
        let end = Some(board.end_of_missing()).filter(|end| end.before(next)).unwrap_or(next);
        let mut lost = board.note_lost_again();
        let (mut psn, mut index) = (una, 0);
        while psn.before(end) {
            let Some(wqe) = core.sq.get(index) else { break };
            if !psn.before(wqe.end_psn()) {
                index += 1;
                continue;
            }
            let packets = match wqe.op {
                SendOp::Read(_) => parts.rest_of_part(psn).unwrap_or(1).max(1),
                _ if wqe.op.is_extension() => wqe.packets_from(psn),
                _ => 1,
            };
            if !board.has_arrived(psn) && board.note_missing(psn, packets) {
                lost += packets;
            }
            psn = psn.add(packets);
        }
        self.update_not_in_flight(core, una);
        lost
    }

    /// Computes the part of the window that is not in flight: arrived, or lost and not sent again.
    fn update_not_in_flight(&mut self, core: &QpCore, una: Psn) {
        self.not_in_flight = 0;
        let Some(board) = &self.scoreboard else { return };
        let (mut psn, mut index) = (una, 0);
        let end = board.highest().map_or(una, Psn::next);
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
}

impl MissingPacket {
    /// Its cost in the window.
    pub(super) fn cost(&self, core: &QpCore) -> u64 {
        packets_cost(core, self.cursor.wqe, self.cursor.packet, 1)
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
