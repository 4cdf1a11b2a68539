//! The requester: request packets from WQEs, in PSN order, within the window.
//!
//! It walks a cursor over the send queue. After a loss the cursor goes back to the oldest unacknowledged packet
//! (go-back-N, 9.7.5.1.1) and the same code builds the packets again. A READ is asked for in parts no larger than
//! the window, so that its response never overruns the socket it arrives at. After a loss it continues at the first
//! missing packet.
//!
//! ```text
//!   una              next (cursor)        sent
//!    │◄── in flight ──►│                    │      PSN ─►
//!    acknowledged      to be sent (again)   never sent
//! ```

mod retransmit;
mod window;

use wire::{Cookie, Piggyback, Psn};

use crate::attr::{QpState, Tuning};
use crate::congestion::{Aimd, Congestion, Evidence};
use crate::failure::QpFailure;
use crate::host::Host;
use crate::memory::Memory;
use crate::network::Transmit;
use crate::qp_core::QpCore;
use crate::queue::send::{PACKET_OVERHEAD_BYTES, SendWqe};
use crate::rc::agreement::RequesterAgreement;
use crate::rc::credits::PeerCredits;
use crate::rc::probe::Probe;
use crate::rc::reads::OutstandingReads;
use crate::rc::request::{RequestPart, SendCursor, build_request};
use crate::rc::response::PiggybackAck;
use crate::rc::retry::RetryTimers;
use crate::rc::scoreboard::Scoreboard;
use crate::reason::Reason;
use crate::state;
use crate::time::Time;
use crate::wr::{SendFlags, SendOp};

/// A message asks for an ACK at least every so many packets, if the window is large.
const ACK_REQUEST_INTERVAL: u32 = 32;

#[derive(Debug)]
pub(crate) struct RcRequester {
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
    pub(super) retry: RetryTimers,
    since_ack_request: u32,
    pub(super) probe: Probe,
    /// The PSN and the time of the last rewind.
    last_rewind: Option<(Psn, Time)>,
    /// Rewinds since then that brought no progress.
    pub(super) futile_rewinds: u32,
    /// Whether the peer has agreed to selective retransmission, and what proves it.
    pub(super) agreement: RequesterAgreement,
    /// The packets that arrived out of order and those that are missing, after a loss.
    pub(super) scoreboard: Option<Box<Scoreboard>>,
    /// Window cost of packets that have arrived or are lost, by the scoreboard: sent, not acknowledged, and not in
    /// flight.
    pub(super) not_in_flight: u64,
    /// The peer sends a delayed ACK for requests that do not ask for one.
    pub(super) peer_delays_acks: bool,
    /// The peer takes requests that carry an ACK.
    pub(super) peer_takes_piggybacks: bool,
    /// The last PSN that asked for an ACK.
    asked: Option<Psn>,
    /// Packets that may still leave before the room in the window is computed again.
    burst: u32,
    /// Nothing that was never sent may leave.
    pub(super) held: bool,
    /// The reason for which the WQE at the cursor cannot be sent. It fails when those before it are done.
    pub(super) blocked: Option<Reason>,
    pub(super) failure: Option<QpFailure>,
}

impl RcRequester {
    pub(crate) fn new(tuning: &Tuning) -> RcRequester {
        RcRequester {
            cursor: SendCursor::default(),
            next: Psn::default(),
            una: Psn::default(),
            sent: Psn::default(),
            reads: OutstandingReads::default(),
            credits: PeerCredits::default(),
            congestion: Aimd::new(tuning.window_initial_bytes, tuning.window_max_bytes),
            retry: RetryTimers::new(tuning),
            since_ack_request: 0,
            probe: Probe::default(),
            last_rewind: None,
            futile_rewinds: 0,
            agreement: RequesterAgreement::new(tuning.selective),
            scoreboard: None,
            not_in_flight: 0,
            peer_delays_acks: false,
            peer_takes_piggybacks: false,
            asked: None,
            burst: 0,
            held: false,
            blocked: None,
            failure: None,
        }
    }

    /// RTR to RTS: the send queue is empty and PSNs begin at `sq_psn`.
    pub(crate) fn start(&mut self, core: &QpCore) {
        let first = core.attr.sq_psn;
        (self.next, self.una, self.sent) = (first, first, first);
        self.congestion.restart(u64::from(core.mtu()) + PACKET_OVERHEAD_BYTES);
        self.retry.configure(&core.attr);
    }

    /// Nothing more is sent.
    pub(crate) fn stop(&mut self) {
        self.cursor = SendCursor::default();
        self.reads.clear();
        self.forget_scoreboard();
        self.retry.disarm();
        self.blocked = None;
        self.probe.clear();
    }

    pub(crate) fn next_psn(&self) -> Psn {
        self.next
    }

    pub(crate) fn retry(&self) -> &RetryTimers {
        &self.retry
    }

    /// Whether everything that was begun has been acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.una == self.sent
    }

    /// Bytes per second that the window lets leave at most, as far as the round trip is known.
    pub(crate) fn possible_rate(&self) -> u64 {
        let per_ns =
            self.retry.round_trip().map(|rtt| self.congestion.window_bytes() as f64 / rtt.as_nanos().max(1) as f64);
        per_ns.map_or(u64::MAX, |per_ns| (per_ns * 1e9) as u64)
    }

    pub(crate) fn congestion_notified(&mut self, evidence: Evidence) {
        self.congestion.on_congestion_notification(evidence, self.una, self.sent);
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
        self.last_rewind.is_some_and(|(_, at)| at >= then)
    }

    /// A failure, also the one of a blocked WQE when its turn has come.
    pub(crate) fn take_failure(&mut self, core: &QpCore) -> Option<QpFailure> {
        if self.failure.is_none() && self.cursor.wqe == 0 && !core.sq.is_empty() {
            self.failure = self.blocked.take().map(QpFailure::SendQueue);
        }
        self.failure.take()
    }

    /// Whether all posted requests were sent, and none is to be sent again now.
    #[inline]
    pub(crate) fn has_sent_all(&self, core: &QpCore) -> bool {
        self.cursor.wqe == core.sq.len() && !self.probe.is_due() && self.scoreboard.is_none()
    }

    pub(crate) fn wants_transmit(&self, core: &QpCore) -> bool {
        if self.probe.is_due() {
            return true;
        }
        if let Some(may_repair) = self.may_repair_now(core) {
            return may_repair;
        }
        match core.sq.get(self.cursor.wqe) {
            Some(wqe) if self.may_work(core, wqe) => wqe.op.is_local() || self.may_send(core, wqe),
            _ => false,
        }
    }

    /// Builds the next request packet, and executes local operations before it. Takes `piggyback_ack` if the packet
    /// carries it.
    pub(crate) fn poll_transmit(
        &mut self,
        core: &mut QpCore,
        now: Time,
        piggyback_ack: &mut Option<PiggybackAck>,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        self.debug_check(core);
        if self.probe.is_due() {
            return self.send_probe(core, now, out, host);
        }
        if let Some(may_repair) = self.may_repair_now(core) {
            return if may_repair { self.send_repair(core, now, out, host) } else { None };
        }
        loop {
            let wqe = core.sq.get(self.cursor.wqe)?;
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

    /// The cursor lies in the PSN window and in the send queue.
    #[inline]
    fn debug_check(&self, core: &QpCore) {
        debug_assert!(!self.next.before(self.una) && !self.sent.before(self.next), "una <= next <= sent");
        debug_assert!(self.cursor.wqe <= core.sq.len(), "the cursor is in the send queue");
        debug_assert!(core.sq.is_empty() || !core.sq.end_psn().before(self.sent), "only posted requests are sent");
    }

    /// Missing packets come first: whether there are any, and whether one may be sent now.
    fn may_repair_now(&self, core: &QpCore) -> Option<bool> {
        let may_repair = self.may_repair(core)?;
        let state_allows = state::completes(core.state());
        Some(may_repair && state_allows && self.blocked.is_none() && !self.retry.waits_for_receiver())
    }

    fn forget_scoreboard(&mut self) {
        self.scoreboard = None;
        self.not_in_flight = 0;
    }

    /// Notes a READ or atomic request up to `end`.
    fn note_read(&mut self, is_read: bool, end: Psn) {
        self.reads.push(end);
        if is_read {
            self.reads.note_part(end, self.next.before(self.sent));
        }
    }

    fn send_next(
        &mut self,
        core: &mut QpCore,
        now: Time,
        piggyback_ack: &mut Option<PiggybackAck>,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        if self.cursor.packet == 0 && core.sq.get(self.cursor.wqe)?.packets > 1 {
            self.choose_segmentation(core);
        }
        let wqe = core.sq.get(self.cursor.wqe)?;
        let step = if matches!(wqe.op, SendOp::Read(_)) { self.read_part(core, wqe) } else { 1 };
        if self.burst == 0 {
            self.burst = self.next_burst(core).max(1);
        }
        let fills = self.burst == 1 || self.fills_window(core, wqe);
        let last = self.cursor.packet + step == wqe.packets;
        let ack_req = last && self.wants_answer(core, wqe) || self.is_answer_due(core, fills);
        let psn = self.next;
        let piggyback_ack = if self.may_piggyback(core, wqe) { piggyback_ack.take() } else { None };
        let part = RequestPart { cursor: self.cursor, step, psn, ack_req, piggyback_ack };
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
        self.burst = if fills { 0 } else { self.burst - 1 };
        self.advance(core, step);
        Some(core.transmit(len_bytes))
    }

    /// Whether the packet at the cursor may carry an ACK: it is a message of its own, was never sent, is the last
    /// that leaves now, and stays within the path MTU.
    fn may_piggyback(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        let is_last = self.cursor.wqe + 1 == core.sq.len();
        let is_one = wqe.packets == 1 && wqe.len_bytes + (Piggyback::LEN + Cookie::LEN) as u32 <= core.mtu();
        self.peer_takes_piggybacks && is_last && is_one && !wqe.op.is_read_or_atomic() && self.is_new()
    }

    /// A long WRITE goes to a Longarm peer as WRITEs of one packet each. All its packets have the same length then,
    /// so those that leave together form one group; otherwise the first, which alone has an address, would be
    /// longer. Decided before the first packet leaves: retransmissions have the same form.
    fn choose_segmentation(&mut self, core: &mut QpCore) {
        let (is_new, is_longarm) = (self.is_new(), self.peer_delays_acks);
        if is_new && let Some(wqe) = core.sq.get_mut(self.cursor.wqe) {
            wqe.as_single_writes = is_longarm && matches!(wqe.op, SendOp::Write(_));
        }
    }

    /// Whether to ask for an ACK, whatever the message is: after many packets, and with the last one that may leave
    /// now, unless one was asked for lately.
    fn is_answer_due(&self, core: &QpCore, is_last: bool) -> bool {
        let (since, interval) = (self.since_ack_request + 1, self.ack_request_interval(core));
        since >= interval || is_last && (since >= interval / 2 || !self.awaits_answer())
    }

    /// Several ACKs per window, so that the loss of one packet or one ACK stops nothing; fewer where the window is
    /// large.
    fn ack_request_interval(&self, core: &QpCore) -> u32 {
        let part = if self.window_holds_groups(core) { 2 } else { 4 };
        (packets_in(self.congestion.window_bytes(), packet_cost(core)) / part).clamp(1, ACK_REQUEST_INTERVAL)
    }

    /// Whether the end of a message asks for an ACK. If no completion depends on it, and a Longarm peer sends a
    /// delayed ACK anyway, an immediate ACK would only cost both sides time.
    fn wants_answer(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        let awaited = core.signal_all || wqe.flags.contains(SendFlags::SIGNALED) || wqe.op.is_read_or_atomic();
        let crowded = core.sq.len() * 2 > core.caps.max_send_wr as usize && (wqe.packets == 1 || !self.awaits_answer());
        // ACKs bring credits: without them the requester would stop when they are used up.
        let poor = self.credits.are_few_after(wqe);
        awaited || crowded || poor || !self.peer_delays_acks || core.state() != QpState::Rts
    }

    /// Whether an ACK was asked for and has not come.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.una.before(self.sent) && self.asked.is_some_and(|asked| !asked.before(self.una))
    }

    pub(super) fn count(&mut self, core: &mut QpCore, psn: Psn, ack_req: bool, now: Time) {
        self.since_ack_request = if ack_req { 0 } else { self.since_ack_request + 1 };
        self.retry.arm_if_idle(now);
        if ack_req {
            self.asked = Some(psn);
        }
        if psn.before(self.sent) {
            core.counters.retransmitted_packets += 1;
        } else if ack_req {
            self.retry.sample(psn, now);
        }
    }

    fn advance(&mut self, core: &QpCore, step: u32) {
        self.next = self.next.add(step);
        if self.sent.before(self.next) {
            self.sent = self.next;
        }
        self.cursor.packet += step;
        if core.sq.get(self.cursor.wqe).is_some_and(|wqe| self.cursor.packet >= wqe.packets) {
            self.cursor = SendCursor { wqe: self.cursor.wqe + 1, packet: 0 };
        }
    }

    /// Executes the bind or invalidate at the cursor; `None` if it fails.
    fn execute_local(&mut self, core: &mut QpCore, host: &mut impl Host) -> Option<()> {
        let who = core.accessor();
        let wqe = core.sq.get_mut(self.cursor.wqe)?;
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
        self.cursor = SendCursor { wqe: self.cursor.wqe + 1, packet: 0 };
        self.complete_done(core, host);
        Some(())
    }

    /// Completes WQEs at the head whose last PSN is acknowledged.
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
}

/// The window cost of a full packet.
fn packet_cost(core: &QpCore) -> u64 {
    u64::from(core.mtu()) + PACKET_OVERHEAD_BYTES
}

/// Full packets that fit `bytes`, at least one.
fn packets_in(bytes: u64, packet_bytes: u64) -> u32 {
    (bytes / packet_bytes).clamp(1, u32::MAX.into()) as u32
}
