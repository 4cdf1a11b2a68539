//! The state that all queue pairs share: identity, attributes, queues, counters.

use std::hash::{DefaultHasher, Hash, Hasher};

use wire::{Cookie, Opcode, Qpn};

use crate::attr::{QpAttr, QpCaps, QpInit, QpState, QpType, Tuning};
use crate::completion::{Completion, CompletionOp, Status};
use crate::counters::QpCounters;
use crate::host::{CqSide, Host, QpEvent};
use crate::memory::{Accessor, PdId};
use crate::network::{RecvMeta, Transmit};
use crate::queue::recv::RecvQueue;
use crate::queue::send::SendQueue;
use crate::reason::Reason;
use crate::wr::{AddressVector, RecvWr, SendFlags};

/// The service bits of an XRC opcode; the others are those of RC (Annex A14).
const XRC_OPCODE_BITS: u8 = Opcode::XRC_SEND_FIRST.0;

#[derive(Debug)]
pub(crate) struct QpCore {
    pub(crate) qpn: Qpn,
    pub(crate) qp_type: QpType,
    pub(crate) pd: PdId,
    pub(crate) caps: QpCaps,
    pub(crate) signal_all: bool,
    pub(crate) shared_recv: bool,
    /// The protection domain of receive buffers: the queue pair's, or that of its shared queue.
    pub(crate) recv_pd: PdId,
    /// The high bits of XRC's opcodes; zero for RC and UC, whose codes are tabled.
    opcode_bits: u8,
    pub(crate) tuning: Tuning,
    secret: u64,
    cookies_drawn: u64,
    pub(crate) attr: QpAttr,
    /// UDP source port of packets to the connected peer.
    pub(crate) source_port: u16,
    pub(crate) sq: SendQueue,
    pub(crate) rq: RecvQueue,
    pub(crate) counters: QpCounters,
    pub(crate) failure: Option<Reason>,
    /// The event that tells the passive side about the first message was given.
    pub(crate) established: bool,
}

impl QpCore {
    pub(crate) fn new(init: &QpInit) -> QpCore {
        QpCore {
            qpn: init.qpn,
            qp_type: init.qp_type,
            pd: init.pd,
            caps: init.caps,
            signal_all: init.signal_all,
            shared_recv: match init.qp_type {
                QpType::XrcSend => false,
                QpType::XrcRecv => true,
                _ => init.shared_recv.is_some(),
            },
            recv_pd: init.shared_recv.unwrap_or(init.pd),
            opcode_bits: if init.qp_type.is_xrc() { XRC_OPCODE_BITS } else { 0 },
            tuning: init.tuning,
            secret: init.secret,
            cookies_drawn: 0,
            attr: QpAttr::default(),
            source_port: 0,
            sq: SendQueue::default(),
            rq: RecvQueue::new(init.caps.max_recv_wr, init.caps.max_recv_sge),
            counters: QpCounters::default(),
            failure: None,
            established: false,
        }
    }

    /// To state Reset: drops everything posted, and every attribute.
    pub(crate) fn reset(&mut self) {
        self.attr = QpAttr::default();
        self.rq.clear();
        self.failure = None;
        self.established = false;
        self.sq.restart(wire::Psn::default());
    }

    pub(crate) fn state(&self) -> QpState {
        self.attr.state
    }

    /// Payload bytes of a full packet.
    pub(crate) fn mtu(&self) -> u32 {
        self.attr.packet_mtu().bytes()
    }

    /// The most payload of a message of one packet. A peer whose port carries more than ours may send as much as was
    /// agreed.
    pub(crate) fn longest_single_packet(&self) -> usize {
        self.attr.path_mtu.bytes() as usize
    }

    pub(crate) fn accessor(&self) -> Accessor {
        Accessor { pd: self.pd, qpn: self.qpn }
    }

    /// A packet of `len_bytes` to the connected peer.
    pub(crate) fn transmit(&self, len_bytes: usize) -> Transmit {
        Transmit { len_bytes, address: self.attr.address, source_port: self.source_port }
    }

    /// Whether the packet comes over the path of the connection (Annex A17.5.1).
    pub(crate) fn is_from_peer(&self, arrival: &RecvMeta) -> bool {
        let AddressVector { source, destination, .. } = self.attr.address;
        arrival.source == destination && arrival.destination == source
    }

    /// Whether this is one end of an extended reliable connection.
    #[inline]
    pub(crate) fn is_xrc(&self) -> bool {
        self.opcode_bits != 0
    }

    /// The basic transport header of a packet to the connected peer. For XRC, `opcode` is the
    /// one that RC would use.
    pub(crate) fn bth(&self, opcode: Opcode) -> wire::Bth {
        wire::Bth {
            opcode: Opcode(opcode.0 | self.opcode_bits),
            solicited: false,
            migrated: false,
            pad: 0,
            version: 0,
            pkey: self.attr.pkey,
            fecn: false,
            becn: false,
            dest_qpn: self.attr.dest_qpn,
            ack_req: false,
            mark: wire::Mark::NONE,
            psn: wire::Psn::default(),
        }
    }

    /// A new cookie for the peer, if selective retransmission is enabled. It cannot be derived from earlier cookies,
    /// which earlier peers know.
    pub(crate) fn draw_cookie(&mut self) -> Option<Cookie> {
        let mut hasher = DefaultHasher::new();
        (self.secret, self.cookies_drawn).hash(&mut hasher);
        self.cookies_drawn += 1;
        self.tuning.selective.then_some(Cookie(hasher.finish() as u32))
    }

    /// The next receive WQE, own or shared.
    pub(crate) fn take_recv(&mut self, host: &mut impl Host) -> Option<RecvWr> {
        if host.inject_receiver_not_ready() {
            return None;
        }
        if self.shared_recv { host.take_shared_recv() } else { self.rq.take().map(|(wr, _)| wr) }
    }

    /// Completes the oldest send WQE with success. Unsignaled ones leave no completion.
    pub(crate) fn complete_head(&mut self, host: &mut impl Host) {
        let Some(wqe) = self.sq.head() else { return };
        let signaled = (self.signal_all || wqe.flags.contains(SendFlags::SIGNALED)) && !wqe.is_inquiry;
        let completion = Completion::success(wqe.wr_id, self.qpn, wqe.op.completion_op(), wqe.len_bytes);
        self.sq.drop_head();
        if signaled {
            host.complete(CqSide::Send, completion);
        }
    }

    /// Completes the oldest send WQE as failed; always reported.
    pub(crate) fn fail_head(&mut self, reason: Reason, host: &mut impl Host) {
        // An inquiry has no completion: the request fails for which it was made.
        let wqe = self.sq.pop().and_then(|wqe| if wqe.is_inquiry { self.sq.pop() } else { Some(wqe) });
        let Some(wqe) = wqe else { return };
        let mut completion = Completion::failure(wqe.wr_id, self.qpn, wqe.op.completion_op(), reason.status());
        completion.vendor_err = reason.code();
        host.complete(CqSide::Send, completion);
    }

    /// The completion of a failed receive WQE.
    pub(crate) fn failed_recv(&self, wr_id: u64, status: Status, reason: Reason) -> Completion {
        let mut completion = Completion::failure(wr_id, self.qpn, CompletionOp::Recv, status);
        completion.vendor_err = reason.code();
        completion
    }

    /// A failed receive WQE.
    pub(crate) fn fail_recv(&mut self, wr_id: u64, status: Status, reason: Reason, host: &mut impl Host) {
        host.complete(CqSide::Recv, self.failed_recv(wr_id, status, reason));
    }

    /// Flushes the send queue (IB specification 10.3.1, error state).
    pub(crate) fn flush_send(&mut self, host: &mut impl Host) {
        while let Some(wqe) = self.sq.pop() {
            if wqe.is_inquiry {
                continue;
            }
            let c = Completion::failure(wqe.wr_id, self.qpn, wqe.op.completion_op(), Status::WorkRequestFlushed);
            host.complete(CqSide::Send, c);
        }
    }

    /// Flushes the receive queue. A shared one keeps its WQEs; the owner of this
    /// queue pair learns that it will take no more (10.3.1, last WQE reached).
    pub(crate) fn flush_recv(&mut self, host: &mut impl Host) {
        if self.shared_recv {
            host.event(QpEvent::LastWqeReached);
            return;
        }
        while let Some((wr, _)) = self.rq.take() {
            let c = Completion::failure(wr.wr_id, self.qpn, CompletionOp::Recv, Status::WorkRequestFlushed);
            host.complete(CqSide::Recv, c);
        }
    }

    /// Notes the first message in RTR.
    pub(crate) fn note_established(&mut self, host: &mut impl Host) {
        if !self.established && self.attr.state == QpState::Rtr {
            self.established = true;
            host.event(QpEvent::CommunicationEstablished);
        }
    }
}
