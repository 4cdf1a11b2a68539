//! Requests that were executed, or refused, without a frame.

use wire::Syndrome;

use super::packet_writer::{PacketRole, RoleSink};
use super::payload::PayloadSource;
use super::psn_tracker::{ExpectedResponse, OpenRequest};
use super::request_stream::{RequestStream, packets_of};
use super::segmenter::{MessageKind, Segmenter};
use super::single_request::{SingleRequest, reth};
use crate::shm::nak::remote_refusal;
use crate::shm::path::DirectOutcome;
use crate::shm::path::DirectRequest;
use crate::shm::remote_op::RemoteOp;
use crate::wr::SendOp;

type ReadPayload<'a> = dyn FnMut(u32, &mut [u8]) -> bool + 'a;

impl RequestStream {
    /// A request that was carried out, or refused, without a frame.
    pub(super) fn direct(
        &mut self,
        direct: &DirectRequest<'_>,
        outcome: DirectOutcome,
        read: &mut ReadPayload<'_>,
        out: &mut RoleSink<'_>,
    ) {
        if outcome == DirectOutcome::NoAnswer && self.hangs {
            return;
        }
        let Some(open) = self.show_deed(direct, outcome, read, out) else { return };
        self.hangs = outcome == DirectOutcome::NoAnswer && self.writer.is_reliable;
        match outcome {
            DirectOutcome::Done | DirectOutcome::Value(_) => {
                self.numbers.count();
                self.answer_deed(&open, outcome, read, out);
            }
            DirectOutcome::Refused(error) => self.respond(open.first_psn, Syndrome::nak(remote_refusal(error)), out),
            DirectOutcome::NoticeSent(_) | DirectOutcome::NoAnswer => {}
        }
    }

    /// The request of a direct. Its PSNs are taken if it has come to anything.
    fn show_deed(
        &mut self,
        direct: &DirectRequest<'_>,
        outcome: DirectOutcome,
        read: &mut ReadPayload<'_>,
        out: &mut RoleSink<'_>,
    ) -> Option<OpenRequest> {
        let (SendOp::Write(to) | SendOp::WriteImm(to, _)) = *direct.op else {
            let single = single_of(direct, read).filter(|_| self.writer.is_reliable)?;
            let open = self.open(outcome, packets_of(&single, self.mtu), single.answer);
            self.writer.single(&single, open.first_psn, out);
            return Some(open);
        };
        let len_bytes = direct.len_bytes;
        let open = self.open(outcome, Segmenter::packets_of(len_bytes, self.mtu), ExpectedResponse::Ack);
        let mut message = Segmenter {
            reth: reth(to, len_bytes),
            imm: if let SendOp::WriteImm(_, imm) = *direct.op { Some(imm) } else { None },
            solicited: direct.solicited && matches!(direct.op, SendOp::WriteImm(..)),
            ..Segmenter::new(MessageKind::Write, open.number, open.first_psn, self.mtu, len_bytes)
        };
        self.writer.feed(&mut message, PayloadSource { len_bytes, read }, PacketRole::Request, out);
        Some(open)
    }

    fn answer_deed(
        &mut self,
        open: &OpenRequest,
        outcome: DirectOutcome,
        read: &mut ReadPayload<'_>,
        out: &mut RoleSink<'_>,
    ) {
        match open.answer {
            ExpectedResponse::Ack => {
                self.respond(open.first_psn.add(open.packets - 1), Syndrome::ACK_UNLIMITED, out);
            }
            ExpectedResponse::Data(len_bytes) => {
                let mut response = self.response_to(open, len_bytes);
                self.writer.feed(&mut response, PayloadSource { len_bytes, read }, PacketRole::Response, out);
            }
            // It needs a frame while a capture is on.
            ExpectedResponse::Reply(_) => {}
            ExpectedResponse::Value | ExpectedResponse::Empty => {
                let before = if let DirectOutcome::Value(before) = outcome { before } else { 0 };
                self.result(open, before, out);
            }
        }
    }
}

/// The packet of a direct request that takes only one.
fn single_of(direct: &DirectRequest<'_>, read: &mut ReadPayload<'_>) -> Option<SingleRequest> {
    if let SendOp::Read(from) = *direct.op {
        return Some(SingleRequest::read(from, direct.len_bytes));
    }
    let mut value = [0; 8];
    if matches!(direct.op, SendOp::AtomicWrite(_)) && !read(0, &mut value) {
        return None;
    }
    RemoteOp::of(direct.op, value).map(|(remote_op, rkey)| SingleRequest::remote_op(&remote_op, rkey))
}
