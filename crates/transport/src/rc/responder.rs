//! The responder: executes the peer's requests, each through the same named steps.
//!
//! ```text
//!  PSN ─► opcode order ─► operation allowed ─► length ─► receive WQE ─► key ─► execute ─► acknowledge
//!   │          │                 │                │           │          │        │
//!   │          └────── NAK invalid request ───────┘        RNR NAK    NAK remote access error
//!   ├─ ahead: NAK sequence error, once
//!   └─ behind: duplicate, answered again, never executed again
//! ```

mod duplicates;
mod out_of_order;
mod reads_atomics;
mod replies;
mod write;

use std::collections::VecDeque;

use wire::{Cookie, NakCode, Operation, Packet, Position, Psn, RKey};

use crate::completion::{Completion, CompletionOp, Status};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::{Host, QpEvent};
use crate::limits::MAX_MESSAGE_BYTES;
use crate::memory::Memory;
use crate::network::Transmit;
use crate::qp_core::QpCore;
use crate::rc::agreement::ResponderAgreement;
use crate::rc::credits::AdvertisedCredits;
use crate::rc::delayed_ack::DelayedAck;
use crate::rc::refusal::{RcRefusal, RefusalEffect, recv_status};
use crate::rc::reorder::Reorder;
use crate::rc::replies::KeptReplies;
use crate::rc::request_target::{RequestTarget, check_packet_length, with_notice};
use crate::rc::response::{PiggybackAck, Response, Responses};
use crate::rc::response_packets::ResponseContext;
use crate::reason::Reason;
use crate::time::Time;
use crate::wr::RecvWr;

/// The message that is arriving.
#[derive(Debug, Default)]
enum RcInbound {
    #[default]
    None,
    /// A SEND, into the receive WQE that its first packet took.
    Send { wr: RecvWr, received: u32, capacity: u32 },
    /// A WRITE; `addr` and `left_bytes` say what is still to come.
    Write { rkey: RKey, addr: u64, left_bytes: u32, total_bytes: u32 },
}

#[derive(Debug, Default)]
pub(crate) struct RcResponder {
    expected: Psn,
    msn: u32,
    target: RequestTarget,
    inbound: RcInbound,
    responses: Responses,
    /// Results of the latest atomics, for duplicates.
    atomics: VecDeque<(Psn, u64)>,
    /// The latest replies, for duplicates.
    replies: KeptReplies,
    /// A NAK was sent for the expected PSN: the highest PSN seen since.
    ahead: Option<Psn>,
    /// Packets that came before their turn.
    reorder: Option<Box<Reorder>>,
    /// Whether the peer has agreed to selective retransmission, and what proves it.
    agreement: ResponderAgreement,
    delayed_ack: DelayedAck,
    /// An RNR NAK told the peer to wait with the expected PSN.
    receiver_not_ready: bool,
    advertised: AdvertisedCredits,
    failure: Option<QpFailure>,
}

impl RcResponder {
    /// INIT to RTR.
    pub(crate) fn start(&mut self, core: &mut QpCore) {
        let agreement = ResponderAgreement::new(core.draw_cookie());
        let (expected, target) = (core.attr.rq_psn, RequestTarget::new(core));
        *self = RcResponder { expected, target, agreement, ..RcResponder::default() };
    }

    pub(crate) fn expected_psn(&self) -> Psn {
        self.expected
    }

    pub(crate) fn has_urgent(&self) -> bool {
        self.responses.has_urgent()
    }

    pub(crate) fn has_ack(&self) -> bool {
        self.responses.has_any()
    }

    /// Whether the next response carries the data of a READ.
    pub(crate) fn sends_data(&self) -> bool {
        self.responses.sends_data()
    }

    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        self.failure.take()
    }

    /// Gives back the receive WQE of a message that will not be finished.
    pub(crate) fn flush(&mut self, core: &QpCore, host: &mut impl Host) {
        self.reorder = None;
        self.ack_now();
        if let RcInbound::Send { wr, .. } = core::mem::take(&mut self.inbound) {
            let c = Completion::failure(wr.wr_id, core.qpn, CompletionOp::Recv, Status::WorkRequestFlushed);
            self.target.complete(core, c, host);
        }
    }

    /// A receive WQE was posted: sends an ACK if the last one said that there are none (9.7.7.2).
    pub(crate) fn recv_posted(&mut self, core: &QpCore) {
        if self.advertised.take_empty() && !core.shared_recv {
            self.responses.acknowledge(self.expected.sub(1), self.msn);
        }
    }

    /// The time of the packet that was just handled.
    #[inline]
    pub(crate) fn note_time(&mut self, now: Time) {
        self.delayed_ack.stamp(now);
    }

    /// `Time::NEVER` if there is none.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Time {
        self.delayed_ack.due_at()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.delayed_ack.due_at() <= now {
            self.ack_now();
        }
    }

    /// A delayed ACK becomes due.
    pub(crate) fn ack_now(&mut self) {
        if self.delayed_ack.take() {
            self.responses.acknowledge(self.expected.sub(1), self.msn);
        }
    }

    pub(crate) fn handle_request(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let bth = packet.bth();
        if !self.agreement.admits(bth.mark, bth.psn, self.expected) {
            return Err(DropReason::NotAgreed);
        }
        match bth.psn.distance(self.expected) {
            0 => self.handle_expected(core, packet, host),
            1.. => self.handle_out_of_order(core, packet, host),
            _ => self.handle_duplicate(core, packet, host),
        }
    }

    fn handle_expected(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        self.ahead = None;
        self.agreement.note_in_order(packet.bth().mark);
        core.note_established(host);
        self.receiver_not_ready = false;
        if let Err(refusal) = self.execute(core, packet, host) {
            return Err(self.refuse(core, refusal, host));
        }
        if self.reorder.is_some() {
            self.execute_kept(core, host);
        }
        Ok(())
    }

    fn execute(&mut self, core: &mut QpCore, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), RcRefusal> {
        self.check_opcode_order(packet)?;
        if core.is_xrc() {
            self.target.check_xrc_srq(packet, host)?;
        }
        match packet.info().operation {
            Operation::Send => self.execute_send(core, packet, host)?,
            Operation::Write => self.execute_write(core, packet, host)?,
            Operation::ReadRequest => return self.execute_read(core, packet, host),
            Operation::CompareSwap | Operation::FetchAdd => return self.execute_atomic(core, packet, host),
            Operation::AtomicWrite => return self.execute_atomic_write(core, packet, host),
            Operation::Flush => return self.execute_flush(core, packet, host),
            Operation::ObjectRead | Operation::Call => return self.execute_extension(core, packet, host),
            _ => return Err(RcRefusal::Invalid("an opcode that is not a request")),
        }
        let ends = packet.info().ends_message();
        self.expected = self.expected.next();
        self.msn = if ends { next_msn(self.msn) } else { self.msn };
        if packet.bth().ack_req {
            self.delayed_ack.cancel();
            self.responses.acknowledge(packet.psn(), self.msn);
        } else if ends && self.agreement.is_agreed() {
            self.delayed_ack.owe();
        }
        Ok(())
    }

    /// First after the end of a message, Middle and Last after its beginning (9.7.4.1.2).
    fn check_opcode_order(&self, packet: &Packet<'_>) -> Result<(), RcRefusal> {
        let info = packet.info();
        let fits = match (&self.inbound, info.position) {
            (RcInbound::None, Position::First | Position::Only) => true,
            (RcInbound::Send { .. }, Position::Middle | Position::Last) => info.operation == Operation::Send,
            (RcInbound::Write { .. }, Position::Middle | Position::Last) => info.operation == Operation::Write,
            _ => false,
        };
        if fits { Ok(()) } else { Err(RcRefusal::Invalid("opcodes out of order")) }
    }

    fn execute_send(&mut self, core: &mut QpCore, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), RcRefusal> {
        check_packet_length(core, packet)?;
        if packet.info().starts_message() {
            let wr = self.target.take_recv(core, host)?;
            let capacity = wr.capacity_bytes().min(MAX_MESSAGE_BYTES) as u32;
            self.inbound = RcInbound::Send { wr, received: 0, capacity };
        }
        let RcInbound::Send { wr, received, capacity } = &mut self.inbound else { return Ok(()) };
        let data = packet.payload();
        if data.len() > (*capacity - *received) as usize {
            return Err(RcRefusal::TooLong);
        }
        if !data.is_empty() {
            host.memory()
                .scatter(self.target.recv_pd, &wr.sgl, u64::from(*received), data)
                .map_err(RcRefusal::Local)?;
        }
        *received += data.len() as u32;
        if packet.info().ends_message() { self.finish_send(core, packet, host) } else { Ok(()) }
    }

    fn finish_send(&mut self, core: &mut QpCore, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), RcRefusal> {
        if let Some(rkey) = packet.ieth() {
            host.memory().remote_invalidate(self.target.accessor(core), rkey).map_err(RcRefusal::Access)?;
        }
        if let RcInbound::Send { wr, received, .. } = core::mem::take(&mut self.inbound) {
            let completion = Completion::success(wr.wr_id, core.qpn, CompletionOp::Recv, received);
            self.target.complete(core, with_notice(completion, packet, core), host);
        }
        Ok(())
    }

    /// Queues the NAK, and sets the failure of this queue pair.
    fn refuse(&mut self, core: &mut QpCore, refusal: RcRefusal, host: &mut impl Host) -> DropReason {
        let (psn, msn) = (self.expected, self.msn);
        if let RcRefusal::NotReady = refusal {
            core.counters.tx_rnr_naks += 1;
            self.ahead = Some(psn);
            self.receiver_not_ready = true;
            self.responses.refuse(Response::RnrNak { psn, msn, timer: core.attr.min_rnr_timer });
            return DropReason::ReceiverNotReady;
        }
        core.counters.tx_error_naks += 1;
        let RefusalEffect { code, reason, event, dropped } = refusal.effect();
        if let RcInbound::Send { wr, .. } = core::mem::take(&mut self.inbound) {
            self.target.complete(core, core.failed_recv(wr.wr_id, recv_status(reason), reason), host);
        }
        self.responses.refuse(Response::Nak { psn, msn, code });
        self.failure = Some(QpFailure::QueuePair(reason, event));
        dropped
    }

    /// Builds the next response.
    pub(crate) fn poll_transmit(
        &mut self,
        core: &mut QpCore,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        if !self.responses.has_any() {
            return None;
        }
        let syndrome = AdvertisedCredits::syndrome(core);
        self.advertised.note_sent(core);
        let note = ResponseContext {
            syndrome,
            mark: self.agreement.answer_mark(),
            piggyback: self.agreement.peer_understands() && core.tuning.piggyback && !core.is_xrc(),
            extends: self.agreement.peer_understands() && core.tuning.extensions && !core.is_xrc(),
            untold_cookie: self.agreement.untold_cookie(),
            own: self.agreement.own().unwrap_or_default(),
            reorder: self.reorder.as_deref(),
            expected: self.expected,
            replies: &self.replies,
        };
        match self.responses.build(core, &note, out, host)? {
            Ok(len_bytes) => {
                core.counters.tx_acks += 1;
                Some(core.transmit(len_bytes))
            }
            Err((psn, refused)) => {
                core.counters.tx_error_naks += 1;
                self.responses.refuse(Response::Nak { psn, msn: self.msn, code: NakCode::RemoteAccessError });
                let reason = Reason::PeerAccessRefused(refused);
                self.failure = Some(QpFailure::QueuePair(reason, Some(QpEvent::AccessError)));
                let len_bytes = self.responses.build(core, &note, out, host)?.ok()?;
                Some(core.transmit(len_bytes))
            }
        }
    }

    /// The waiting ACK, if it is the only response and a request may carry it.
    pub(crate) fn lone_ack(&self, core: &QpCore) -> Option<PiggybackAck> {
        let cookie = self.agreement.shared()?;
        let piggyback = self.responses.lone_ack(AdvertisedCredits::syndrome(core))?;
        Some(PiggybackAck { piggyback, cookie })
    }

    /// A request has carried the ACK.
    pub(crate) fn ack_piggybacked(&mut self, core: &mut QpCore) {
        self.advertised.note_sent(core);
        self.responses.drop_lone_ack();
        core.counters.tx_acks += 1;
        core.counters.tx_piggybacks += 1;
    }

    #[cfg(test)]
    pub(crate) fn own_cookie(&self) -> Cookie {
        self.agreement.cookie().unwrap_or_default()
    }

    /// Our cookie, if the peer knows it, or will know it soon.
    pub(crate) fn told_cookie(&self) -> Option<Cookie> {
        self.agreement.own()
    }

    /// Our cookie, if the peer has proven that it knows it.
    pub(crate) fn shared_cookie(&self) -> Option<Cookie> {
        self.agreement.shared()
    }
}

fn next_msn(msn: u32) -> u32 {
    (msn + 1) & 0xff_ffff
}
