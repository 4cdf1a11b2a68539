//! Reliable connection (IB specification 9.7): the three roles of a queue pair. Extended reliable
//! connections (Annex A14) are the same, but each end has only half of the roles, and every request
//! names a shared receive queue.
//!
//! ```text
//!  send queue ─► requester ── requests ──►  (peer's responder)
//!  completions ◄─ completer ◄─ responses ─  (peer's responder)
//!  (peer's requester) ── requests ─► responder ─► memory, receive completions
//!  (peer's completer) ◄─ responses ─ responder
//! ```
//! The requester builds request packets from WQEs and sends them again after a loss. The completer reads the
//! responses and completes WQEs. Both share the state in [`RcRequester`]. The responder executes the peer's
//! requests.

mod ack_requests;
mod agreement;
mod completer;
mod credits;
mod delayed_ack;
mod evidence;
mod pace;
mod probe;
mod reads;
mod recovery;
mod refusal;
mod reorder;
mod replies;
mod request;
mod request_target;
mod requester;
mod responder;
mod response;
mod response_packets;
mod retry;
mod scoreboard;
mod selective;
mod window;

use wire::{Operation, Packet, TransportService};

use crate::attr::{QpAttr, QpState, QpType, Tuning};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::{Host, QpEvent};
use crate::network::{RecvMeta, Transmit};
use crate::qp_core::QpCore;
use crate::state;
use crate::time::Time;
use evidence::evidence_of;
use pace::RcPacing;
use requester::RcRequester;
use responder::RcResponder;
use response::PiggybackAck;

/// The RC part of a queue pair.
#[derive(Debug)]
pub(crate) struct RcQp {
    requester: RcRequester,
    responder: RcResponder,
    failure: Option<QpFailure>,
    drained_event_due: bool,
    pace: RcPacing,
    /// When a packet left last.
    last_sent: Time,
}

impl RcQp {
    pub(crate) fn new(tuning: &Tuning) -> RcQp {
        RcQp {
            requester: RcRequester::new(tuning),
            responder: RcResponder::default(),
            failure: None,
            drained_event_due: false,
            pace: RcPacing::default(),
            last_sent: Time::NEVER,
        }
    }

    pub(crate) fn query(&self, core: &QpCore, attr: &mut QpAttr) {
        attr.sq_psn = self.requester.next_psn();
        attr.rq_psn = self.responder.expected_psn();
        attr.draining = core.state() == QpState::Sqd && !self.requester.is_drained();
    }

    pub(crate) fn entered(&mut self, core: &mut QpCore, from: QpState, host: &mut impl Host) {
        match (from, core.state()) {
            (QpState::Init, QpState::Rtr) => self.responder.start(core),
            (QpState::Rtr, QpState::Rts) => self.requester.start(core),
            (QpState::Rts, QpState::Sqd) => self.drained_event_due = core.attr.notify_drained,
            _ => {}
        }
        self.note_drained(core, host);
    }

    /// The queue pair enters the error state: the receive WQE of an unfinished message is flushed. Responses that
    /// are due (a NAK above all) still leave.
    pub(crate) fn failed(&mut self, core: &mut QpCore, host: &mut impl Host) {
        self.requester.stop();
        self.pace = RcPacing::default();
        self.responder.flush(core, host);
    }

    #[inline]
    pub(crate) fn handle_packet(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        arrival: &RecvMeta,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let info = packet.info();
        let own = if core.is_xrc() { TransportService::Xrc } else { TransportService::Rc };
        if info.service != own && !matches!(info.service, TransportService::Cnp | TransportService::Own) {
            return Err(DropReason::WrongService);
        }
        if !core.is_from_peer(arrival) {
            return Err(DropReason::WrongSource);
        }
        let outcome = match info.operation {
            Operation::Cnp => self.handle_cnp(core, packet, now),
            _ if info.is_response() => self.handle_response(core, packet, now, host),
            _ if core.qp_type == QpType::XrcSend => Err(DropReason::WrongService),
            _ if info.service == TransportService::Own && !info.is_extension() => {
                self.handle_piggybacked(core, packet, now, host)
            }
            _ => {
                let outcome = self.handle_request(core, packet, host);
                self.responder.note_time(now);
                outcome
            }
        };
        if arrival.ecn_ce && is_from_a_peer_in_sequence(outcome) {
            self.pace.marked(core, now);
        }
        outcome
    }

    /// A request that carries an ACK: the ACK first, and then the request. The peer proves it by the cookie that it
    /// once told us. The packet counts as taken if the request is.
    fn handle_piggybacked(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let proven = packet.cookie().filter(|cookie| self.requester.is_proven_by(*cookie, core));
        let piggyback_ack = proven.and(packet.piggyback()).ok_or(DropReason::NotAgreed)?;
        if !state::completes(core.state()) || self.requester.handle_piggyback(core, &piggyback_ack, now, host).is_err()
        {
            core.counters.refused_piggybacks += 1;
        }
        self.failure = self.requester.take_failure(core);
        self.note_drained(core, host);
        if self.failure.is_some() {
            return Ok(());
        }
        let outcome = self.handle_request(core, packet, host);
        self.responder.note_time(now);
        outcome
    }

    fn handle_response(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        if !state::completes(core.state()) {
            return Err(DropReason::QpState);
        }
        let outcome = self.requester.handle_response(core, packet, now, host);
        self.failure = self.requester.take_failure(core);
        self.note_drained(core, host);
        outcome
    }

    fn handle_request(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let outcome = self.responder.handle_request(core, packet, host);
        self.failure = self.responder.take_failure();
        outcome
    }

    /// READ responses and NAKs go first, then requests, and a plain ACK last: it is the shortest packet and so fits
    /// the end of a batch.
    #[inline]
    pub(crate) fn poll_transmit(
        &mut self,
        core: &mut QpCore,
        now: Time,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        if self.pace.notification_due() {
            let cookie = self.requester.shared_cookie().or(self.responder.told_cookie());
            return Some(self.pace.notify(core, cookie.unwrap_or_default(), out));
        }
        if self.pace.is_limited() && self.pace.must_wait(core, now) {
            // A short response does not wait for its time.
            let is_short = self.responder.has_urgent() && !self.responder.sends_data();
            return if is_short { self.poll_responder(core, out, host) } else { None };
        }
        let transmit = self.poll_data(core, now, out, host)?;
        self.last_sent = now;
        Some(self.pace.sent(core, transmit, now))
    }

    #[inline]
    fn poll_data(&mut self, core: &mut QpCore, now: Time, out: &mut [u8], host: &mut impl Host) -> Option<Transmit> {
        if self.responder.has_urgent() {
            return self.poll_responder(core, out, host);
        }
        let mut piggyback_ack = self.piggyback_ack(core, now);
        let waits = piggyback_ack.is_some();
        let transmit = self.requester.poll_transmit(core, now, &mut piggyback_ack, out, host);
        if waits && piggyback_ack.is_none() && transmit.is_some() {
            self.responder.ack_piggybacked(core);
        }
        self.failure = self.requester.take_failure(core);
        self.note_drained(core, host);
        if transmit.is_some() || self.failure.is_some() {
            return transmit;
        }
        self.poll_responder(core, out, host)
    }

    /// The ACK that the next request may carry. Packets that leave together are one group, and a plain ACK fits its
    /// end; so only a request that leaves alone carries an ACK.
    fn piggyback_ack(&self, core: &QpCore, now: Time) -> Option<PiggybackAck> {
        let alone = self.requester.agreement.peer_takes_piggybacks && self.last_sent != now;
        if alone { self.responder.lone_ack(core) } else { None }
    }

    fn poll_responder(&mut self, core: &mut QpCore, out: &mut [u8], host: &mut impl Host) -> Option<Transmit> {
        let transmit = self.responder.poll_transmit(core, out, host);
        self.failure = self.responder.take_failure();
        transmit
    }

    #[inline]
    pub(crate) fn is_idle(&self, core: &QpCore) -> bool {
        let nothing_to_say = !self.responder.has_urgent() && !self.responder.has_ack();
        nothing_to_say && !self.pace.notification_due() && self.requester.has_sent_all(core)
    }

    pub(crate) fn wants_transmit(&self, core: &QpCore) -> bool {
        match self.pace.waits_until() {
            _ if self.pace.notification_due() => true,
            Some(_) => self.responder.has_urgent() && !self.responder.sends_data(),
            None => self.responder.has_urgent() || self.requester.wants_transmit(core),
        }
    }

    /// Whether the peer carries out requests of Longarm's own. `None`: no answer has told yet.
    pub(crate) fn peer_extends(&self) -> Option<bool> {
        self.requester.peer_extends()
    }

    /// Holds requests that were never sent, or releases them.
    pub(crate) fn hold_requests(&mut self, hold: bool) {
        self.requester.held = hold;
    }

    pub(crate) fn is_held_back(&self, core: &QpCore) -> bool {
        self.requester.is_held_back(core)
    }

    /// Probes and timeouts since the peer's last answer.
    #[inline]
    pub(crate) fn unanswered_probes(&self) -> u32 {
        self.requester.timers().unanswered()
    }

    /// Window cost of what was sent and is not answered.
    pub(crate) fn in_flight_bytes(&self, core: &QpCore) -> u64 {
        if core.sq.is_empty() { 0 } else { self.requester.in_flight_bytes(core) }
    }

    pub(crate) fn ack_due(&self) -> bool {
        self.responder.has_ack() && (self.pace.waits_until().is_none() || !self.responder.sends_data())
    }

    pub(crate) fn recv_posted(&mut self, core: &QpCore) {
        self.responder.recv_posted(core);
    }

    #[inline]
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let pace = Time::or_never(self.pace.waits_until());
        let at = self.requester.timers().next_timeout().min(self.responder.next_timeout()).min(pace);
        (at != Time::NEVER).then_some(at)
    }

    /// Bytes per second that CNPs have left to it; `None`: no limit.
    pub(crate) fn rate_limit(&self) -> Option<u64> {
        self.pace.rate()
    }

    /// Takes a CNP. It counts in full if the cookie proves it, else by the evidence for it (docs/security.md).
    fn handle_cnp(&mut self, core: &mut QpCore, packet: &Packet<'_>, now: Time) -> Result<(), DropReason> {
        let evidence = evidence_of(packet, &self.requester, &self.responder, self.last_sent, now)?;
        core.counters.rx_cnps += 1;
        if core.tuning.dcqcn.enabled {
            self.pace.notified(core, self.requester.possible_rate(), evidence, now);
        } else {
            self.requester.congestion_notified(evidence);
        }
        Ok(())
    }

    /// Whether an answer was asked for and has not come.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.requester.awaits_answer()
    }

    /// Makes a delayed ACK due.
    pub(crate) fn ack_now(&mut self) {
        self.responder.ack_now();
    }

    pub(crate) fn handle_timeout(&mut self, core: &mut QpCore, now: Time) {
        self.pace.time_passed(now);
        self.responder.handle_timeout(now);
        if state::completes(core.state()) {
            self.requester.handle_timeout(core, now);
            self.failure = self.requester.take_failure(core);
        }
    }

    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        self.failure.take()
    }

    #[cfg(test)]
    pub(crate) fn own_cookie(&self) -> wire::Cookie {
        self.responder.own_cookie()
    }

    /// Gives the event for SQD once nothing is outstanding (10.3.1, SQD).
    fn note_drained(&mut self, core: &QpCore, host: &mut impl Host) {
        if self.drained_event_due && core.state() == QpState::Sqd && self.requester.is_drained() {
            self.drained_event_due = false;
            host.event(QpEvent::SendQueueDrained);
        }
    }
}

/// Whether the outcome of a packet shows that its PSN was right, or near. Anybody may have sent a congestion mark on
/// any other packet.
fn is_from_a_peer_in_sequence(outcome: Result<(), DropReason>) -> bool {
    matches!(outcome, Ok(()) | Err(DropReason::OutOfSequence | DropReason::ReceiverNotReady))
}

#[cfg(test)]
mod tests;
