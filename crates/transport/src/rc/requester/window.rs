//! The limits of sending: state, fences, credits, READ depth, and the room in the window.

use wire::Psn;

use crate::attr::QpState;
use crate::congestion::Congestion;
use crate::qp_core::QpCore;
use crate::queue::send::{PACKET_OVERHEAD_BYTES, SendWqe};
use crate::rc::request::packet_number;
use crate::rc::requester::{RcRequester, packet_cost, packets_in};
use crate::wr::{SendFlags, SendOp};

/// Packets of the largest path MTU that leave in one piece.
const GROUP_PACKETS: u32 = 15;
/// With fewer groups in the window each packet leaves as soon as it may.
const MIN_GROUPS: u64 = 4;

impl RcRequester {
    /// Whether the queue pair may work on this WQE at all: state, RNR wait, fence.
    pub(super) fn may_work(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        let begun = wqe.first_psn.before(self.sent);
        let state_allows = match core.state() {
            QpState::Rts => true,
            QpState::Sqd => begun && !wqe.op.is_local(),
            _ => false,
        };
        let fenced = wqe.flags.contains(SendFlags::FENCE) && self.cursor.packet == 0 && !self.reads.is_empty();
        state_allows && !fenced && self.blocked.is_none() && !self.retry.waits_for_receiver()
    }

    /// Whether the packet at the cursor fits the window, the credits, the READ depth and the parts of READs,
    /// and is not held back.
    pub(super) fn may_send(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        !(self.held && self.is_new()) && self.fits(core, wqe)
    }

    /// Whether a packet that was never sent could leave now, if it were not held back.
    pub(crate) fn is_held_back(&self, core: &QpCore) -> bool {
        let could = |wqe: &SendWqe| self.may_work(core, wqe) && !wqe.op.is_local() && self.fits(core, wqe);
        self.held && self.is_new() && core.sq.get(self.cursor.wqe).is_some_and(could)
    }

    /// Whether the packet at the cursor was never sent.
    pub(super) fn is_new(&self) -> bool {
        !self.next.before(self.sent)
    }

    pub(super) fn fits(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        let idle = self.next == self.una;
        let has_credit = idle || self.cursor.packet != 0 || self.credits.allow(wqe);
        let has_depth = !wqe.op.is_read_or_atomic() || self.reads.len() < usize::from(core.attr.max_rd_atomic);
        let waits_for_front = self.cursor.packet != 0 && self.reads.parts().is_cut_at(self.next);
        has_credit
            && has_depth
            && self.fits_bitmap(self.next.next())
            && (idle || !waits_for_front && self.needed_room(core, wqe) <= self.room(core))
            && (idle || self.burst > 0 || self.next_burst(core) > 0)
    }

    /// Packets that may leave one after the other: as many whole groups as the window has room for, since a group
    /// costs the system much more than a packet in it. None while an ACK is to come that will make more room. There
    /// is no bound if all waiting packets fit, if the window holds few groups, or after a loss.
    pub(super) fn next_burst(&self, core: &QpCore) -> u32 {
        let room = self.room(core);
        if !self.window_holds_groups(core) || self.scoreboard.is_some() {
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
    pub(super) fn window_holds_groups(&self, core: &QpCore) -> bool {
        self.congestion.window_bytes() >= MIN_GROUPS * u64::from(GROUP_PACKETS) * packet_cost(core)
    }

    /// Bytes of the window that are free.
    pub(in crate::rc) fn room(&self, core: &QpCore) -> u64 {
        self.congestion.window_bytes().saturating_sub(self.window_in_use(core))
    }

    /// Bytes of the window that are taken.
    pub(crate) fn window_in_use(&self, core: &QpCore) -> u64 {
        let mtu = core.mtu();
        let una_packet = core.sq.head().map_or(0, |head| packet_number(head, self.una));
        let in_flight = core.sq.cost_at(self.cursor.wqe, self.cursor.packet, mtu) - core.sq.cost_at(0, una_packet, mtu);
        in_flight.saturating_sub(self.not_in_flight)
    }

    /// Bytes of the window that the next step needs: a packet, or a worthwhile part of a READ.
    pub(super) fn needed_room(&self, core: &QpCore, wqe: &SendWqe) -> u64 {
        let packets = if matches!(wqe.op, SendOp::Read(_)) { self.read_part(core, wqe) } else { 1 };
        let bytes = (u64::from(packets) * u64::from(core.mtu())).min(u64::from(wqe.len_bytes));
        bytes + u64::from(packets) * PACKET_OVERHEAD_BYTES
    }

    /// Response packets that one READ request asks for: what is left, or half a window; what was asked
    /// for before, up to the end of that part, if it fits the window.
    pub(super) fn read_part(&self, core: &QpCore, wqe: &SendWqe) -> u32 {
        let packet_bytes = u64::from(core.mtu()) + PACKET_OVERHEAD_BYTES;
        let depth = u64::from(core.attr.max_rd_atomic.clamp(1, 2));
        let part = match self.part_again(core, self.next) {
            Some(part) => part,
            None => packets_in(self.congestion.window_bytes() / depth, packet_bytes),
        };
        (wqe.packets - self.cursor.packet).min(part)
    }

    /// Response packets from `psn` on that a READ sent again asks for; `None` if they were never asked for.
    pub(in crate::rc) fn part_again(&self, core: &QpCore, psn: Psn) -> Option<u32> {
        let packet_bytes = u64::from(core.mtu()) + PACKET_OVERHEAD_BYTES;
        let rest = self.reads.parts().rest_of_part(psn)?;
        Some(rest.min(packets_in(self.congestion.window_bytes(), packet_bytes)))
    }

    /// Whether nothing more can leave after this packet: then it must ask for an ACK.
    pub(super) fn fills_window(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        self.room(core) < self.needed_room(core, wqe) + u64::from(core.mtu()) + PACKET_OVERHEAD_BYTES
    }
}
