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
mod write;

use std::collections::VecDeque;

use wire::{Cookie, NakCode, Operation, Packet, Position, Psn, RKey, Syndrome};

use crate::completion::{Completion, CompletionOp, Status};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::{CqSide, Host, QpEvent};
use crate::limits::MAX_MESSAGE_BYTES;
use crate::memory::{Accessor, Memory, MemoryError, PdId};
use crate::network::Transmit;
use crate::qp_core::QpCore;
use crate::rc::agreement::ResponderAgreement;
use crate::rc::delayed_ack::DelayedAck;
use crate::rc::reorder::Reorder;
use crate::rc::response::{PiggybackAck, Response, ResponseContext, Responses};
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

/// The reason for which a request is not executed.
#[derive(Debug)]
enum RcRefusal {
    /// The peer broke a rule: NAK invalid request.
    Invalid(&'static str),
    /// The peer may not do this: NAK remote access error.
    Access(MemoryError),
    /// No receive WQE: RNR NAK.
    NotReady,
    /// Our own receive WQE is at fault: NAK remote operational error.
    Local(MemoryError),
    /// The message does not fit the receive WQE: NAK invalid request (C9-80).
    TooLong,
    /// The XRC domain has no such shared receive queue: NAK invalid RD request (Annex A14).
    NoSrq,
}

#[derive(Debug, Default)]
pub(crate) struct RcResponder {
    expected: Psn,
    msn: u32,
    /// The protection domain of remote keys: the queue pair's, for XRC that of the shared receive queue.
    pd: PdId,
    /// The protection domain of receive buffers.
    recv_pd: PdId,
    /// XRC: the shared receive queue of the message that is arriving.
    xrc_srq: u32,
    inbound: RcInbound,
    responses: Responses,
    /// Results of the latest atomics, for duplicates.
    atomics: VecDeque<(Psn, u64)>,
    /// A NAK was sent for the expected PSN: the highest PSN seen since.
    ahead: Option<Psn>,
    /// Packets that came before their turn.
    reorder: Option<Box<Reorder>>,
    /// Whether the peer has agreed to selective retransmission, and what proves it.
    agreement: ResponderAgreement,
    delayed_ack: DelayedAck,
    /// An RNR NAK told the peer to wait with the expected PSN.
    receiver_not_ready: bool,
    /// The last ACK said that no receive WQE is posted.
    advertised_empty: bool,
    failure: Option<QpFailure>,
}

impl RcResponder {
    /// INIT to RTR.
    pub(crate) fn start(&mut self, core: &mut QpCore) {
        let agreement = ResponderAgreement::new(core.draw_cookie());
        let (expected, pd, recv_pd) = (core.attr.rq_psn, core.pd, core.recv_pd);
        *self = RcResponder { expected, pd, recv_pd, agreement, ..RcResponder::default() };
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
            self.complete(core, c, host);
        }
    }

    /// A receive WQE was posted: sends an ACK if the last one said that there are none (9.7.7.2).
    pub(crate) fn recv_posted(&mut self, core: &QpCore) {
        if core::mem::take(&mut self.advertised_empty) && !core.shared_recv {
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
            self.check_xrc_srq(packet, host)?;
        }
        match packet.info().operation {
            Operation::Send => self.execute_send(core, packet, host)?,
            Operation::Write => self.execute_write(core, packet, host)?,
            Operation::ReadRequest => return self.execute_read(core, packet, host),
            Operation::CompareSwap | Operation::FetchAdd => return self.execute_atomic(core, packet, host),
            Operation::AtomicWrite => return self.execute_atomic_write(core, packet, host),
            Operation::Flush => return self.execute_flush(core, packet, host),
            _ => return Err(RcRefusal::Invalid("an opcode that is no request")),
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

    /// Checks that every request of a message names the same shared receive queue, and that the queue exists. It
    /// tells the protection domain of keys.
    fn check_xrc_srq(&mut self, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), RcRefusal> {
        let srq = packet.xrceth().ok_or(RcRefusal::Invalid("an XRC request without its header"))?.srq;
        if !packet.info().starts_message() && srq != self.xrc_srq {
            return Err(RcRefusal::Invalid("a message for more than one shared receive queue"));
        }
        self.pd = host.xrc_srq(srq).ok_or(RcRefusal::NoSrq)?;
        self.recv_pd = self.pd;
        self.xrc_srq = srq;
        Ok(())
    }

    fn accessor(&self, core: &QpCore) -> Accessor {
        Accessor { pd: self.pd, qpn: core.qpn }
    }

    fn take_recv(&self, core: &mut QpCore, host: &mut impl Host) -> Result<RecvWr, RcRefusal> {
        let wr = match core.is_xrc() {
            false => core.take_recv(host),
            true if host.inject_receiver_not_ready() => None,
            true => host.take_xrc_recv(self.xrc_srq),
        };
        wr.ok_or(RcRefusal::NotReady)
    }

    fn complete(&self, core: &QpCore, completion: Completion, host: &mut impl Host) {
        match core.is_xrc() {
            false => host.complete(CqSide::Recv, completion),
            true => host.complete_xrc(self.xrc_srq, completion),
        }
    }

    fn execute_send(&mut self, core: &mut QpCore, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), RcRefusal> {
        check_packet_length(core, packet)?;
        if packet.info().starts_message() {
            let wr = self.take_recv(core, host)?;
            let capacity = wr.capacity_bytes().min(MAX_MESSAGE_BYTES) as u32;
            self.inbound = RcInbound::Send { wr, received: 0, capacity };
        }
        let RcInbound::Send { wr, received, capacity } = &mut self.inbound else { return Ok(()) };
        let data = packet.payload();
        if data.len() > (*capacity - *received) as usize {
            return Err(RcRefusal::TooLong);
        }
        if !data.is_empty() {
            host.memory().scatter(self.recv_pd, &wr.sgl, u64::from(*received), data).map_err(RcRefusal::Local)?;
        }
        *received += data.len() as u32;
        if packet.info().ends_message() { self.finish_send(core, packet, host) } else { Ok(()) }
    }

    fn finish_send(&mut self, core: &mut QpCore, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), RcRefusal> {
        if let Some(rkey) = packet.ieth() {
            host.memory().remote_invalidate(self.accessor(core), rkey).map_err(RcRefusal::Access)?;
        }
        if let RcInbound::Send { wr, received, .. } = core::mem::take(&mut self.inbound) {
            let completion = Completion::success(wr.wr_id, core.qpn, CompletionOp::Recv, received);
            self.complete(core, with_notice(completion, packet, core), host);
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
        let dropped = if let RcRefusal::NoSrq = refusal { DropReason::XrcSrq } else { DropReason::Refused };
        let (code, reason, event) = match refusal {
            RcRefusal::Invalid(what) => {
                (NakCode::InvalidRequest, Reason::PeerBrokeProtocol(what), Some(QpEvent::RequestError))
            }
            RcRefusal::Access(e) => {
                (NakCode::RemoteAccessError, Reason::PeerAccessRefused(e), Some(QpEvent::AccessError))
            }
            RcRefusal::Local(e) => (NakCode::RemoteOperationalError, Reason::LocalMemory(e), None),
            RcRefusal::NoSrq => {
                let what = "it names a shared receive queue that the XRC domain does not have";
                (NakCode::InvalidRdRequest, Reason::PeerBrokeProtocol(what), Some(QpEvent::RequestError))
            }
            RcRefusal::TooLong | RcRefusal::NotReady => (NakCode::InvalidRequest, Reason::MessageTooLong, None),
        };
        self.fail_inbound(core, reason, host);
        self.responses.refuse(Response::Nak { psn, msn, code });
        self.failure = Some(QpFailure::QueuePair(reason, event));
        dropped
    }

    /// Completes the receive WQE of the refused message with the reason.
    fn fail_inbound(&mut self, core: &mut QpCore, reason: Reason, host: &mut impl Host) {
        if let RcInbound::Send { wr, .. } = core::mem::take(&mut self.inbound) {
            let status = match reason {
                Reason::LocalMemory(_) | Reason::MessageTooLong => reason.status(),
                Reason::PeerAccessRefused(_) => Status::LocalAccess,
                _ => Status::RemoteInvalidRequest,
            };
            self.complete(core, core.failed_recv(wr.wr_id, status, reason), host);
        }
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
        let syndrome = self.syndrome(core);
        self.note_advertised(core);
        let note = ResponseContext {
            syndrome,
            mark: self.agreement.answer_mark(),
            piggyback: self.agreement.peer_understands() && core.tuning.piggyback && !core.is_xrc(),
            untold_cookie: self.agreement.untold_cookie(),
            own: self.agreement.own().unwrap_or_default(),
            reorder: self.reorder.as_deref(),
            expected: self.expected,
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
        let piggyback = self.responses.lone_ack(self.syndrome(core))?;
        Some(PiggybackAck { piggyback, cookie })
    }

    /// A request has carried the ACK.
    pub(crate) fn ack_piggybacked(&mut self, core: &mut QpCore) {
        self.note_advertised(core);
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

    /// The syndrome of an ACK: the number of posted receive WQEs.
    fn syndrome(&self, core: &QpCore) -> Syndrome {
        match counts_credits(core) {
            true => Syndrome::ack(wire::credit_code(core.rq.len())),
            false => Syndrome::ACK_UNLIMITED,
        }
    }

    /// An ACK with the number of posted receive WQEs is about to leave.
    fn note_advertised(&mut self, core: &QpCore) {
        if counts_credits(core) {
            self.advertised_empty = core.rq.is_empty();
        }
    }
}

/// Whether ACKs tell how many receive WQEs are posted.
fn counts_credits(core: &QpCore) -> bool {
    !core.shared_recv && core.tuning.advertise_credits
}

fn next_msn(msn: u32) -> u32 {
    (msn + 1) & 0xff_ffff
}

/// Middle packets are full, last ones not empty, none longer than the path MTU (9.7.4.1.6).
fn check_packet_length(core: &QpCore, packet: &Packet<'_>) -> Result<(), RcRefusal> {
    let (len, mtu) = (packet.payload().len(), core.mtu() as usize);
    let fits = match packet.info().position {
        Position::First | Position::Middle => len == mtu,
        Position::Last => (1..=mtu).contains(&len),
        Position::Only => len <= core.longest_single_packet(),
    };
    if fits { Ok(()) } else { Err(RcRefusal::Invalid("a packet whose length does not fit its place in the message")) }
}

fn with_notice(completion: Completion, packet: &Packet<'_>, core: &QpCore) -> Completion {
    Completion {
        imm: packet.imm(),
        invalidated: packet.ieth(),
        solicited: packet.bth().solicited,
        src_qpn: core.attr.dest_qpn,
        ..completion
    }
}
