//! The send window: what is in flight, and the limits of sending more: credits, READ depth, and the room.
//!
//! ```text
//!   una              next (cursor)        sent
//!    │◄── in flight ──►│                    │      PSN ─►
//!    acknowledged      to be sent (again)   never sent
//! ```

use wire::Psn;

use crate::attr::Tuning;
use crate::congestion::{Aimd, Congestion};
use crate::host::Host;
use crate::qp_core::QpCore;
use crate::queue::send::{PACKET_OVERHEAD_BYTES, SendWqe};
use crate::rc::ack_requests::AckRequests;
use crate::rc::credits::PeerCredits;
use crate::rc::reads::OutstandingReads;
use crate::rc::request::{SendCursor, packet_number};
use crate::rc::selective::SelectiveRepair;
use crate::wr::SendOp;

/// Packets of the largest path MTU that leave in one piece.
const GROUP_PACKETS: u32 = 15;
/// With fewer groups in the window each packet leaves as soon as it may.
const MIN_GROUPS: u64 = 4;
/// The most packets between two that ask for an ACK within a message, if the window is large.
const ACK_REQUEST_INTERVAL: u32 = 32;

/// See the module.
#[derive(Debug)]
pub(super) struct SendWindow {
    pub(super) cursor: SendCursor,
    /// PSN of the cursor.
    pub(super) next: Psn,
    /// The oldest unacknowledged PSN. It lies in the head of the send queue.
    pub(super) una: Psn,
    /// The PSN after the highest ever sent.
    pub(super) sent: Psn,
    pub(super) reads: OutstandingReads,
    pub(super) credits: PeerCredits,
    pub(super) congestion: Aimd,
    pub(super) ack_requests: AckRequests,
    /// The packets that arrived out of order and those that are missing, after a loss.
    pub(super) repair: SelectiveRepair,
    /// Packets that may still leave before the room is computed again.
    burst: u32,
}

impl SendWindow {
    pub(super) fn new(tuning: &Tuning) -> SendWindow {
        SendWindow {
            cursor: SendCursor::default(),
            next: Psn::default(),
            una: Psn::default(),
            sent: Psn::default(),
            reads: OutstandingReads::default(),
            credits: PeerCredits::default(),
            congestion: Aimd::new(tuning.window_initial_bytes, tuning.window_max_bytes),
            ack_requests: AckRequests::default(),
            repair: SelectiveRepair::default(),
            burst: 0,
        }
    }

    /// RTR to RTS: the send queue is empty and PSNs begin at `sq_psn`.
    pub(super) fn start(&mut self, core: &QpCore) {
        let first = core.attr.sq_psn;
        (self.next, self.una, self.sent) = (first, first, first);
        self.congestion.restart(packet_cost(core));
    }

    /// Nothing more is sent.
    pub(super) fn stop(&mut self) {
        self.cursor = SendCursor::default();
        self.reads.clear();
        self.repair.clear();
    }

    /// The cursor lies in the PSN window and in the send queue.
    #[inline]
    pub(super) fn debug_check(&self, core: &QpCore) {
        debug_assert!(!self.next.before(self.una) && !self.sent.before(self.next), "una <= next <= sent");
        debug_assert!(self.cursor.wqe <= core.sq.len(), "the cursor is in the send queue");
        debug_assert!(core.sq.is_empty() || !core.sq.end_psn().before(self.sent), "only posted requests are sent");
    }

    /// Whether everything that was begun has been acknowledged.
    pub(super) fn is_drained(&self) -> bool {
        self.una == self.sent
    }

    /// Whether the packet at the cursor was never sent.
    #[inline]
    pub(super) fn is_new(&self) -> bool {
        !self.next.before(self.sent)
    }

    /// Whether a response may carry this PSN: something with it was sent and is unanswered.
    pub(super) fn is_outstanding(&self, psn: Psn) -> bool {
        !psn.before(self.una) && psn.before(self.sent)
    }

    /// Whether an ACK was asked for and has not come.
    pub(super) fn awaits_answer(&self) -> bool {
        self.una.before(self.sent) && self.ack_requests.asked_since(self.una)
    }

    /// Whether to ask for an ACK, for any message; `is_last` if no packet may follow now.
    pub(super) fn is_answer_due(&self, core: &QpCore, is_last: bool) -> bool {
        self.ack_requests.is_due(self.ack_request_interval(core), is_last, self.awaits_answer())
    }

    /// Several ACKs per window, so that the loss of one packet or one ACK stops nothing; fewer where the window is
    /// large.
    fn ack_request_interval(&self, core: &QpCore) -> u32 {
        let part = if self.holds_groups(core) { 2 } else { 4 };
        (packets_in(self.congestion.window_bytes(), packet_cost(core)) / part).clamp(1, ACK_REQUEST_INTERVAL)
    }

    /// Whether the packet at the cursor is the last one that may leave now. Begins a burst if there is none.
    #[inline]
    pub(super) fn ends_burst(&mut self, core: &QpCore, wqe: &SendWqe) -> bool {
        if self.burst == 0 {
            self.burst = self.next_burst(core).max(1);
        }
        self.burst == 1 || self.fills(core, wqe)
    }

    /// A packet of the burst leaves, the last one if it `ends` it.
    #[inline]
    pub(super) fn count_in_burst(&mut self, ends: bool) {
        self.burst = if ends { 0 } else { self.burst - 1 };
    }

    /// Moves the cursor behind a packet of `step` PSNs.
    #[inline]
    pub(super) fn advance(&mut self, core: &QpCore, step: u32) {
        self.next = self.next.add(step);
        if self.sent.before(self.next) {
            self.sent = self.next;
        }
        self.cursor.packet += step;
        if core.sq.get(self.cursor.wqe).is_some_and(|wqe| self.cursor.packet >= wqe.packets) {
            self.cursor = SendCursor { wqe: self.cursor.wqe + 1, packet: 0 };
        }
    }

    /// Moves the cursor back to the oldest unacknowledged packet, to send everything from there on again.
    pub(super) fn rewind(&mut self, core: &QpCore) {
        self.cursor_to_una(core);
        self.reads.rewind();
        self.repair.clear();
        self.ack_requests.rewind();
    }

    /// Completes WQEs at the head whose last PSN is acknowledged.
    #[inline]
    pub(super) fn complete_done(&mut self, core: &mut QpCore, host: &mut impl Host) {
        while let Some(head) = core.sq.head() {
            let done = if head.op.is_local() { head.executed } else { !self.una.before(head.end_psn()) };
            if !done {
                break;
            }
            core.complete_head(host);
            self.cursor = match self.cursor.wqe {
                0 => SendCursor::default(),
                n => SendCursor { wqe: n - 1, ..self.cursor },
            };
        }
        self.reads.acknowledge(self.una);
        if self.next.before(self.una) {
            self.cursor_to_una(core);
        }
    }

    fn cursor_to_una(&mut self, core: &QpCore) {
        let packet = core.sq.head().map_or(0, |head| packet_number(head, self.una));
        self.cursor = SendCursor { wqe: 0, packet };
        self.next = self.una;
    }

    /// Marks packets as lost that others have overtaken. Whether there are any.
    pub(super) fn note_missing(&mut self, core: &QpCore) -> bool {
        let lost = self.repair.note_missing(core, self.una, self.next, self.reads.parts());
        if lost != 0 {
            self.congestion.on_missing(u64::from(lost) * packet_cost(core), self.una, self.sent);
        }
        lost != 0
    }

    /// Whether a missing packet is to be sent again, and may be now.
    pub(super) fn may_repair(&self, core: &QpCore) -> Option<bool> {
        let cost = self.repair.due(core)?.cost(core);
        Some(self.room(core) >= cost || self.in_use(core) == 0)
    }

    /// Whether the packet at the cursor fits the window, the credits, the READ depth and the parts of READs.
    pub(super) fn fits(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        let idle = self.next == self.una;
        let has_credit = idle || self.cursor.packet != 0 || self.credits.allow(wqe);
        let has_depth = !wqe.op.is_read_or_atomic() || self.reads.len() < usize::from(core.attr.max_rd_atomic);
        let waits_for_front = self.cursor.packet != 0 && self.reads.parts().is_cut_at(self.next);
        has_credit
            && has_depth
            && self.repair.fits_bitmap(self.una, self.next.next())
            && (idle || !waits_for_front && self.needed_room(core, wqe) <= self.room(core))
            && (idle || self.burst > 0 || self.next_burst(core) > 0)
    }

    /// Packets that may leave one after the other: as many whole groups as the window has room for, since a group
    /// costs the system much more than a packet in it. None while an ACK is to come that will make more room. There
    /// is no bound if all waiting packets fit, if the window holds few groups, or after a loss.
    fn next_burst(&self, core: &QpCore) -> u32 {
        let room = self.room(core);
        if !self.holds_groups(core) || self.repair.is_active() {
            return u32::MAX;
        }
        let mtu = core.mtu();
        let cost_at = |wqe, packet| core.sq.cost_at(wqe, packet, mtu);
        let waiting = cost_at(core.sq.len(), 0) - cost_at(self.cursor.wqe, self.cursor.packet);
        match packets_in(room, packet_cost(core)) / GROUP_PACKETS * GROUP_PACKETS {
            _ if waiting <= room => u32::MAX,
            0 if !self.awaits_answer() => u32::MAX,
            packets => packets,
        }
    }

    /// Whether the window is so large that only whole groups leave.
    fn holds_groups(&self, core: &QpCore) -> bool {
        self.congestion.window_bytes() >= MIN_GROUPS * u64::from(GROUP_PACKETS) * packet_cost(core)
    }

    /// Bytes of the window that are free.
    fn room(&self, core: &QpCore) -> u64 {
        self.congestion.window_bytes().saturating_sub(self.in_use(core))
    }

    /// Bytes of the window that are taken.
    pub(super) fn in_use(&self, core: &QpCore) -> u64 {
        let mtu = core.mtu();
        let una_packet = core.sq.head().map_or(0, |head| packet_number(head, self.una));
        let in_flight = core.sq.cost_at(self.cursor.wqe, self.cursor.packet, mtu) - core.sq.cost_at(0, una_packet, mtu);
        in_flight.saturating_sub(self.repair.not_in_flight())
    }

    /// Bytes of the window that the next step needs: a packet, or a worthwhile part of a READ.
    fn needed_room(&self, core: &QpCore, wqe: &SendWqe) -> u64 {
        let packets = self.answer_part(core, wqe);
        let bytes = (u64::from(packets) * u64::from(core.mtu())).min(u64::from(wqe.len_bytes));
        bytes + u64::from(packets) * PACKET_OVERHEAD_BYTES
    }

    /// PSNs that the packet at the cursor takes.
    #[inline]
    pub(super) fn answer_part(&self, core: &QpCore, wqe: &SendWqe) -> u32 {
        match wqe.op {
            SendOp::Read(_) => self.read_part(core, wqe),
            _ if wqe.op.is_extension() => wqe.packets - self.cursor.packet,
            _ => 1,
        }
    }

    /// Response packets that one READ request asks for: what is left, or half a window; what was asked
    /// for before, up to the end of that part, if it fits the window.
    fn read_part(&self, core: &QpCore, wqe: &SendWqe) -> u32 {
        let packet_bytes = u64::from(core.mtu()) + PACKET_OVERHEAD_BYTES;
        let depth = u64::from(core.attr.max_rd_atomic.clamp(1, 2));
        let part = match self.part_again(core, self.next) {
            Some(part) => part,
            None => packets_in(self.congestion.window_bytes() / depth, packet_bytes),
        };
        (wqe.packets - self.cursor.packet).min(part)
    }

    /// Response packets from `psn` on that a READ sent again asks for; `None` if they were never asked for.
    pub(super) fn part_again(&self, core: &QpCore, psn: Psn) -> Option<u32> {
        let packet_bytes = u64::from(core.mtu()) + PACKET_OVERHEAD_BYTES;
        let rest = self.reads.parts().rest_of_part(psn)?;
        Some(rest.min(packets_in(self.congestion.window_bytes(), packet_bytes)))
    }

    /// Whether nothing more can leave after this packet: then it must ask for an ACK.
    fn fills(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        self.room(core) < self.needed_room(core, wqe) + u64::from(core.mtu()) + PACKET_OVERHEAD_BYTES
    }
}

/// The window cost of a full packet.
fn packet_cost(core: &QpCore) -> u64 {
    u64::from(core.mtu()) + PACKET_OVERHEAD_BYTES
}

/// Full packets that fit `bytes`, at least one.
fn packets_in(bytes: u64, packet_bytes: u64) -> u32 {
    (bytes / packet_bytes).clamp(1, u32::MAX.into()) as u32
}
