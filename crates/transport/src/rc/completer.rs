//! The completer: takes responses and completes the WQEs that wait for them.
//!
//! Responses come in PSN order. An ACK covers everything before it, but never a READ or atomic whose own response is
//! missing: then that response was lost, and the request is sent again from there (implied NAK, 9.7.5.1.2).

mod reply;

use wire::{Aeth, Cookie, NakCode, Operation, Packet, Piggyback, Psn, SyndromeKind};

use crate::congestion::Congestion;
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::Host;
use crate::memory::{Memory, MemoryError};
use crate::qp_core::QpCore;
use crate::queue::send::SendWqe;
use crate::rc::agreement::AnswerKind;
use crate::rc::requester::RcRequester;
use crate::reason::Reason;
use crate::time::Time;
use crate::wr::SendOp;

impl RcRequester {
    /// Takes an ACK, a NAK, or a response with data.
    #[inline]
    pub(super) fn handle_response(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        self.check_agreement(packet, core)?;
        self.recovery.timers.answered();
        match packet.info().operation {
            Operation::ReadResponse | Operation::AtomicAcknowledge => self.handle_data(core, packet, now, host),
            Operation::SelectiveAcknowledge => self.handle_selective(core, packet, now, host),
            Operation::Reply => self.handle_reply(core, packet, now, host),
            _ => self.handle_acknowledge(core, packet, now, host),
        }
    }

    /// Learns from a response about the agreement.
    #[inline]
    fn check_agreement(&mut self, packet: &Packet<'_>, core: &QpCore) -> Result<(), DropReason> {
        let kind = self.kind_of(packet);
        self.agreement.check_response(packet, kind, core.tuning.piggyback && !core.is_xrc())
    }

    #[inline]
    fn kind_of(&self, packet: &Packet<'_>) -> AnswerKind {
        let syndrome = packet.aeth().map(|aeth| aeth.syndrome.kind());
        match syndrome {
            _ if !self.window.is_outstanding(packet.psn()) => AnswerKind::Ghost,
            None | Some(SyndromeKind::Ack { .. }) => AnswerKind::Positive,
            Some(_) => AnswerKind::Negative,
        }
    }

    /// Whether a request that carries an ACK and this cookie may be the peer's.
    pub(super) fn is_proven_by(&self, cookie: Cookie, core: &QpCore) -> bool {
        core.tuning.piggyback && !core.is_xrc() && self.agreement.shared() == Some(cookie)
    }

    fn handle_acknowledge(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let aeth = packet.aeth().ok_or(DropReason::BadResponse)?;
        self.handle_aeth(core, packet.psn(), aeth, now, host)
    }

    /// Takes the ACK that a request has carried, which the cookie has proven.
    pub(super) fn handle_piggyback(
        &mut self,
        core: &mut QpCore,
        piggyback_ack: &Piggyback,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        self.recovery.timers.answered();
        self.handle_aeth(core, piggyback_ack.psn, piggyback_ack.aeth, now, host)
    }

    #[inline]
    fn handle_aeth(
        &mut self,
        core: &mut QpCore,
        psn: Psn,
        aeth: Aeth,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        match aeth.syndrome.kind() {
            SyndromeKind::Ack { credits } => self.handle_ack(core, psn, credits, now, host),
            SyndromeKind::RnrNak { timer } => self.handle_rnr_nak(core, psn, timer, now, host),
            SyndromeKind::Nak(code) => self.handle_nak(core, psn, code, now, host),
            SyndromeKind::Reserved => Err(DropReason::ReservedSyndrome),
        }
    }

    #[inline]
    fn handle_ack(
        &mut self,
        core: &mut QpCore,
        psn: Psn,
        credits: Option<u32>,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let repeats_last = psn.next() == self.window.una;
        if !repeats_last && !self.window.is_outstanding(psn) {
            return Err(DropReason::GhostResponse);
        }
        let reached = self.acknowledge(core, psn.next(), now, host);
        if reached == psn.next() {
            self.window.credits.update(core.sq.recvs_used_before(self.window.una), credits);
        } else {
            self.imply_nak(core, now);
        }
        self.conclude_probe(core, psn, now);
        Ok(())
    }

    /// A probe acknowledged alone, and not with what was sent after it, has filled a gap:
    /// what followed was dropped by the peer and is sent again.
    fn conclude_probe(&mut self, core: &QpCore, acknowledged: Psn, now: Time) {
        let Some(probed) = self.recovery.probe.conclude(acknowledged) else { return };
        if acknowledged == probed && self.window.una.before(self.window.sent) {
            self.window.congestion.on_loss(self.window.una, self.window.sent);
            self.rewind(core, now);
        }
    }

    fn imply_nak(&mut self, core: &mut QpCore, now: Time) {
        core.counters.implied_naks += 1;
        self.rewind_after_loss(core, now);
    }

    /// Everything before `upto` has arrived. Stops before a READ or atomic that is
    /// unanswered; tells how far it came.
    fn acknowledge(&mut self, core: &mut QpCore, upto: Psn, now: Time, host: &mut impl Host) -> Psn {
        let mut reached = self.window.una;
        for index in 0.. {
            let Some(wqe) = core.sq.get(index) else { break };
            if wqe.op.is_local() {
                continue;
            }
            if !wqe.first_psn.before(upto) || wqe.op.is_read_or_atomic() {
                break;
            }
            reached = if wqe.end_psn().before(upto) { wqe.end_psn() } else { upto };
        }
        if self.window.una.before(reached) {
            self.move_una(core, reached, now, host);
        }
        self.window.una
    }

    fn move_una(&mut self, core: &mut QpCore, to: Psn, now: Time, host: &mut impl Host) {
        let packets = to.distance(self.window.una) as u64;
        self.window.una = to;
        self.window.congestion.on_acked(packets * u64::from(core.mtu()));
        self.recovery.progress(to, now, to.before(self.window.sent));
        self.window.complete_done(core, host);
        if self.window.repair.is_active() {
            self.window.repair.advance(to);
            self.note_missing(core);
            self.window.repair.end_if_complete();
        }
    }

    /// Takes a selective ACK: everything before its PSN has arrived, and the packets in its bitmap.
    fn handle_selective(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let sack = packet.sack().ok_or(DropReason::BadResponse)?;
        let psn = packet.psn();
        if psn.before(self.window.una) || self.window.sent.before(psn) {
            return Err(DropReason::GhostResponse);
        }
        let beyond = sack.highest().is_some_and(|highest| !psn.add(highest).before(self.window.sent));
        if beyond {
            core.counters.impossible_notices += 1;
            // The peer has kept what we never sent. Going back repairs what is missing without its notices.
            if self.window.una.before(self.window.sent) {
                self.rewind_after_loss(core, now);
            }
            return Err(DropReason::BadResponse);
        }
        core.counters.rx_selective_acks += 1;
        if self.acknowledge(core, psn, now, host) != psn {
            self.imply_nak(core, now);
            return Ok(());
        }
        self.recovery.probe.forget_psn();
        if sack.highest().is_some() && !self.recovery.timers.waits_for_receiver() {
            self.window.repair.merge(psn, &sack);
            self.note_missing(core);
        }
        Ok(())
    }

    /// Marks packets as lost that others have overtaken.
    fn note_missing(&mut self, core: &QpCore) {
        if self.window.note_missing(core) {
            self.recovery.timers.rewound();
        }
    }

    fn handle_nak(
        &mut self,
        core: &mut QpCore,
        psn: Psn,
        code: NakCode,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        if !self.window.is_outstanding(psn) {
            return Err(DropReason::GhostResponse);
        }
        self.acknowledge(core, psn, now, host);
        self.recovery.probe.forget_psn();
        if code == NakCode::PsnSequenceError {
            core.counters.rx_sequence_naks += 1;
            self.rewind_after_loss(core, now);
        } else {
            core.counters.rx_error_naks += 1;
            self.failure = Some(QpFailure::SendQueue(Reason::PeerRefused(code)));
        }
        Ok(())
    }

    fn handle_rnr_nak(
        &mut self,
        core: &mut QpCore,
        psn: Psn,
        timer: u8,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        if !self.window.is_outstanding(psn) {
            return Err(DropReason::GhostResponse);
        }
        if self.recovery.timers.waits_for_receiver() && psn == self.window.una {
            return Ok(()); // the same news twice
        }
        core.counters.rx_rnr_naks += 1;
        if self.acknowledge(core, psn, now, host) != psn {
            self.imply_nak(core, now);
            return Ok(());
        }
        if let Some(failure) = self.recovery.count_rnr_retry(core.attr.rnr_retry) {
            self.failure = Some(failure);
            return Ok(());
        }
        self.rewind(core, now);
        self.recovery.timers.wait_for_receiver(now + wire::rnr_timer(timer));
        Ok(())
    }

    /// Takes a response with data at its PSN. Requests before it are acknowledged by it.
    /// Tells whether it is the one that is due.
    fn acknowledge_before(
        &mut self,
        core: &mut QpCore,
        psn: Psn,
        now: Time,
        host: &mut impl Host,
    ) -> Result<bool, DropReason> {
        if !self.window.is_outstanding(psn) {
            return Err(DropReason::GhostResponse);
        }
        if self.acknowledge(core, psn, now, host) == psn {
            return Ok(true);
        }
        self.imply_nak(core, now);
        Ok(false)
    }

    /// Takes the packet of a READ response, or the response to an atomic, whose turn it is.
    fn handle_data(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        if !self.acknowledge_before(core, packet.psn(), now, host)? {
            return Err(DropReason::OutOfSequence);
        }
        check_ack_syndrome(packet.aeth())?;
        let head = core.sq.head().expect("an outstanding PSN lies in a WQE");
        let original = packet.atomic_ack().map(|eth| eth.original.to_ne_bytes());
        let data = original.as_ref().map_or(packet.payload(), |value| value);
        let offset = self.window.una.distance(head.first_psn).max(0) as u64 * u64::from(core.mtu());
        if !fits_request(core, head, packet.info().operation, offset, data) {
            return Err(self.bad_response());
        }
        if let Err(refused) = store(core, head, offset, data, host) {
            self.failure = Some(QpFailure::SendQueue(Reason::LocalMemory(refused)));
            return Ok(());
        }
        self.move_una(core, self.window.una.next(), now, host);
        Ok(())
    }

    /// A response that fits no request ends the connection (9.9.2, bad response).
    fn bad_response(&mut self) -> DropReason {
        self.failure = Some(QpFailure::SendQueue(Reason::BadResponse));
        DropReason::BadResponse
    }
}

/// Whether a response of this kind with this data answers the request at the head of the queue.
fn fits_request(core: &QpCore, head: &SendWqe, operation: Operation, offset: u64, data: &[u8]) -> bool {
    let len_bytes = data.len() as u64;
    match (operation, head.op) {
        (Operation::AtomicAcknowledge, SendOp::Atomic(..)) => true,
        (Operation::ReadResponse, SendOp::Read(_)) => {
            len_bytes == (u64::from(head.len_bytes) - offset).min(core.mtu().into())
        }
        // A READ response of no bytes says that the request is executed (Annex A19).
        (Operation::ReadResponse, SendOp::AtomicWrite(_) | SendOp::Flush { .. }) => len_bytes == 0,
        _ => false,
    }
}

fn check_ack_syndrome(aeth: Option<Aeth>) -> Result<(), DropReason> {
    match aeth.map(|aeth| aeth.syndrome.kind()) {
        None | Some(SyndromeKind::Ack { .. }) => Ok(()),
        Some(_) => Err(DropReason::ReservedSyndrome),
    }
}

pub(super) fn store(
    core: &QpCore,
    wqe: &SendWqe,
    offset: u64,
    data: &[u8],
    host: &impl Host,
) -> Result<(), MemoryError> {
    match wqe.payload.result() {
        _ if data.is_empty() => Ok(()),
        Some(sgl) => host.memory().scatter(core.pd, sgl, offset, data),
        None => Err(MemoryError::NoPermission),
    }
}
