//! The requester: request packets from WQEs, in PSN order, within the window.
//!
//! It walks a cursor over the send queue. After a loss the cursor goes back to the oldest unacknowledged packet
//! (go-back-N, 9.7.5.1.1) and the same code builds the packets again. A READ is asked for in parts no larger than
//! the window, so that its response never overruns the socket it arrives at. After a loss it continues at the first
//! missing packet.
//!
//! The [`SendWindow`] has the cursor and says what may leave; [`LossRecovery`] says when to send again.

mod extension;
mod retransmit;

use wire::{Cookie, Piggyback, Psn};

use crate::attr::{QpState, Tuning};
use crate::congestion::{Congestion, Evidence};
use crate::failure::QpFailure;
use crate::host::Host;
use crate::memory::Memory;
use crate::network::Transmit;
use crate::qp_core::QpCore;
use crate::queue::send::SendWqe;
use crate::rc::agreement::RequesterAgreement;
use crate::rc::recovery::LossRecovery;
use crate::rc::request::{RequestPart, SendCursor, build_request};
use crate::rc::response::PiggybackAck;
use crate::rc::retry::RetryTimers;
use crate::rc::window::SendWindow;
use crate::reason::Reason;
use crate::state;
use crate::time::Time;
use crate::wr::{SendFlags, SendOp};

#[derive(Debug)]
pub(crate) struct RcRequester {
    pub(super) window: SendWindow,
    pub(super) recovery: LossRecovery,
    /// Whether the peer has agreed to selective retransmission, and what proves it.
    pub(super) agreement: RequesterAgreement,
    /// Nothing that was never sent may leave.
    pub(super) held: bool,
    /// The reason for which the WQE at the cursor cannot be sent. It fails when those before it are done.
    pub(super) blocked: Option<Reason>,
    pub(super) failure: Option<QpFailure>,
}

impl RcRequester {
    pub(crate) fn new(tuning: &Tuning) -> RcRequester {
        RcRequester {
            window: SendWindow::new(tuning),
            recovery: LossRecovery::new(tuning),
            agreement: RequesterAgreement::new(tuning.selective),
            held: false,
            blocked: None,
            failure: None,
        }
    }

    /// RTR to RTS: the send queue is empty and PSNs begin at `sq_psn`.
    pub(crate) fn start(&mut self, core: &QpCore) {
        self.window.start(core);
        self.recovery.timers.configure(&core.attr);
    }

    /// Nothing more is sent.
    pub(crate) fn stop(&mut self) {
        self.window.stop();
        self.recovery.stop();
        self.blocked = None;
    }

    pub(crate) fn next_psn(&self) -> Psn {
        self.window.next
    }

    pub(crate) fn timers(&self) -> &RetryTimers {
        &self.recovery.timers
    }

    /// Whether everything that was begun has been acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.window.is_drained()
    }

    /// Bytes per second that the window lets leave at most, as far as the round trip is known.
    pub(crate) fn possible_rate(&self) -> u64 {
        let window_bytes = self.window.congestion.window_bytes() as f64;
        let per_ns = self.timers().round_trip().map(|rtt| window_bytes / rtt.as_nanos().max(1) as f64);
        per_ns.map_or(u64::MAX, |per_ns| (per_ns * 1e9) as u64)
    }

    pub(crate) fn congestion_notified(&mut self, evidence: Evidence) {
        self.window.congestion.on_congestion_notification(evidence, self.window.una, self.window.sent);
    }

    /// The cookie that the peer has told us.
    pub(crate) fn shared_cookie(&self) -> Option<Cookie> {
        self.agreement.shared()
    }

    /// Whether the first answer is still to come: it will tell the cookie, if the peer has one.
    pub(crate) fn awaits_cookie(&self) -> bool {
        self.agreement.is_open() && !self.is_drained()
    }

    /// Whether the cursor went back for a loss since then.
    pub(crate) fn lost_since(&self, then: Time) -> bool {
        self.recovery.lost_since(then)
    }

    /// A failure, also the one of a blocked WQE when its turn has come.
    pub(crate) fn take_failure(&mut self, core: &QpCore) -> Option<QpFailure> {
        if self.failure.is_none() && self.window.cursor.wqe == 0 && !core.sq.is_empty() {
            self.failure = self.blocked.take().map(QpFailure::SendQueue);
        }
        self.failure.take()
    }

    /// Whether all posted requests were sent, and none is to be sent again now.
    #[inline]
    pub(crate) fn has_sent_all(&self, core: &QpCore) -> bool {
        self.window.cursor.wqe == core.sq.len() && !self.recovery.probe.is_due() && !self.window.repair.is_active()
    }

    pub(crate) fn wants_transmit(&self, core: &QpCore) -> bool {
        if self.recovery.probe.is_due() {
            return true;
        }
        if let Some(may_repair) = self.may_repair_now(core) {
            return may_repair;
        }
        match core.sq.get(self.window.cursor.wqe) {
            Some(wqe) if self.may_work(core, wqe) => wqe.op.is_local() || self.may_send(core, wqe),
            _ => false,
        }
    }

    /// Builds the next request packet, and executes local operations before it. Takes `piggyback_ack` if the packet
    /// carries it.
    #[inline]
    pub(crate) fn poll_transmit(
        &mut self,
        core: &mut QpCore,
        now: Time,
        piggyback_ack: &mut Option<PiggybackAck>,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        self.window.debug_check(core);
        if self.recovery.probe.is_due() {
            return self.send_probe(core, now, out, host);
        }
        if let Some(may_repair) = self.may_repair_now(core) {
            return if may_repair { self.send_repair(core, now, out, host) } else { None };
        }
        loop {
            let wqe = core.sq.get(self.window.cursor.wqe)?;
            if !self.may_work(core, wqe) {
                return None;
            }
            if !wqe.op.is_local() {
                return if self.may_send(core, wqe) {
                    self.send_next(core, now, piggyback_ack, out, host)
                } else {
                    None
                };
            }
            self.execute_local(core, host)?;
        }
    }

    /// Missing packets come first: whether there are any, and whether one may be sent now.
    fn may_repair_now(&self, core: &QpCore) -> Option<bool> {
        let may_repair = self.window.may_repair(core)?;
        let state_allows = state::completes(core.state());
        Some(may_repair && state_allows && self.blocked.is_none() && !self.recovery.timers.waits_for_receiver())
    }

    /// Notes a READ or atomic request up to `end`.
    fn note_read(&mut self, is_read: bool, end: Psn) {
        let again = !self.window.is_new();
        self.window.reads.push(end);
        if is_read {
            self.window.reads.note_part(end, again);
        }
    }

    #[inline]
    fn send_next(
        &mut self,
        core: &mut QpCore,
        now: Time,
        piggyback_ack: &mut Option<PiggybackAck>,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        let cursor = self.window.cursor;
        if cursor.packet == 0 && core.sq.get(cursor.wqe)?.packets > 1 {
            self.choose_segmentation(core);
        }
        let wqe = core.sq.get(cursor.wqe)?;
        if wqe.flags.contains(SendFlags::EXTENSION) && !self.admit_extension() {
            return None;
        }
        let step = self.window.answer_part(core, wqe);
        let is_last_now = self.window.ends_burst(core, wqe);
        let is_end = cursor.packet + step == wqe.packets;
        let ack_req = is_end && self.wants_answer(core, wqe) || self.window.is_answer_due(core, is_last_now);
        let psn = self.window.next;
        let piggyback_ack = if self.may_piggyback(core, wqe) { piggyback_ack.take() } else { None };
        let part = RequestPart { cursor, step, psn, ack_req, piggyback_ack };
        let len_bytes = match build_request(core, self.agreement.request_mark(), &part, out, host) {
            Ok(len_bytes) => len_bytes,
            Err(refused) => {
                self.blocked = Some(Reason::LocalMemory(refused));
                return None;
            }
        };
        if wqe.op.is_read_or_atomic() {
            self.note_read(matches!(wqe.op, SendOp::Read(_)), psn.add(step));
        }
        self.count(core, psn, ack_req, now);
        self.window.count_in_burst(is_last_now);
        self.window.advance(core, step);
        Some(core.transmit(len_bytes))
    }

    /// Whether the packet at the cursor may carry an ACK: it is a message of its own, was never sent, is the last
    /// that leaves now, and stays within the path MTU.
    fn may_piggyback(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        let is_last = self.window.cursor.wqe + 1 == core.sq.len();
        let is_one = wqe.packets == 1 && wqe.len_bytes + (Piggyback::LEN + Cookie::LEN) as u32 <= core.mtu();
        self.agreement.peer_takes_piggybacks && is_last && is_one && !wqe.op.is_read_or_atomic() && self.window.is_new()
    }

    /// A long WRITE goes to a Longarm peer as WRITEs of one packet each. All its packets have the same length then,
    /// so those that leave together form one group. Otherwise the first, which alone has an address, would be
    /// longer. Decided before the first packet leaves: retransmissions have the same form.
    fn choose_segmentation(&mut self, core: &mut QpCore) {
        let (is_new, is_longarm) = (self.window.is_new(), self.agreement.peer_delays_acks);
        if is_new && let Some(wqe) = core.sq.get_mut(self.window.cursor.wqe) {
            wqe.as_single_writes = is_longarm && matches!(wqe.op, SendOp::Write(_));
        }
    }

    /// Whether the end of a message asks for an ACK. If no completion depends on it, and a Longarm peer sends a
    /// delayed ACK anyway, an immediate ACK would only cost both sides time.
    fn wants_answer(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        let awaited = core.signal_all || wqe.flags.contains(SendFlags::SIGNALED) || wqe.op.is_read_or_atomic();
        let crowded =
            core.sq.len() * 2 > core.caps.max_send_wr as usize && (wqe.packets == 1 || !self.window.awaits_answer());
        // ACKs bring credits: without them the requester would stop when they are used up.
        let poor = self.window.credits.are_few_after(wqe);
        awaited || crowded || poor || !self.agreement.peer_delays_acks || core.state() != QpState::Rts
    }

    /// Whether an ACK was asked for and has not come.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.window.awaits_answer()
    }

    /// Window cost of what was sent and is not answered.
    pub(crate) fn in_flight_bytes(&self, core: &QpCore) -> u64 {
        self.window.in_use(core)
    }

    /// Counts a packet that leaves.
    fn count(&mut self, core: &mut QpCore, psn: Psn, ack_req: bool, now: Time) {
        self.window.ack_requests.note_sent(psn, ack_req);
        self.recovery.timers.arm_if_idle(now);
        if psn.before(self.window.sent) {
            core.counters.retransmitted_packets += 1;
        } else if ack_req {
            self.recovery.timers.sample(psn, now);
        }
    }

    /// Executes the bind or invalidate at the cursor; `None` if it fails.
    fn execute_local(&mut self, core: &mut QpCore, host: &mut impl Host) -> Option<()> {
        let who = core.accessor();
        let wqe = core.sq.get_mut(self.window.cursor.wqe)?;
        let outcome = match &wqe.op {
            _ if wqe.executed => Ok(()),
            SendOp::Bind(bind) => host.memory().bind(who, bind),
            SendOp::LocalInvalidate(rkey) => host.memory().invalidate(who, *rkey),
            _ => Ok(()),
        };
        if let Err(refused) = outcome {
            self.blocked = Some(match wqe.op {
                SendOp::Bind(_) => Reason::BindRefused(refused),
                _ => Reason::InvalidateRefused(refused),
            });
            return None;
        }
        wqe.executed = true;
        self.window.cursor = SendCursor { wqe: self.window.cursor.wqe + 1, packet: 0 };
        self.window.complete_done(core, host);
        Some(())
    }

    /// Whether the queue pair may work on this WQE at all: state, RNR wait, fence.
    fn may_work(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        let begun = wqe.first_psn.before(self.window.sent);
        let state_allows = match core.state() {
            QpState::Rts => true,
            QpState::Sqd => begun && !wqe.op.is_local(),
            _ => false,
        };
        let fenced = wqe.flags.intersects(SendFlags::FENCE | SendFlags::EXTENSION) && self.is_fenced(wqe);
        state_allows && !fenced && self.blocked.is_none() && !self.recovery.timers.waits_for_receiver()
    }

    /// Whether the packet at the cursor fits the window, the credits, the READ depth and the parts of READs,
    /// and is not held back.
    fn may_send(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        !(self.held && self.window.is_new()) && self.window.fits(core, wqe)
    }

    /// Whether a packet that was never sent could leave now, if it were not held back.
    pub(crate) fn is_held_back(&self, core: &QpCore) -> bool {
        let could = |wqe: &SendWqe| self.may_work(core, wqe) && !wqe.op.is_local() && self.window.fits(core, wqe);
        self.held && self.window.is_new() && core.sq.get(self.window.cursor.wqe).is_some_and(could)
    }
}
