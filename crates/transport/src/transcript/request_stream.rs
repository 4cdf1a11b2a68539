//! The requests in one direction of a connection, and their answers.

use wire::{Aeth, AtomicAckEth, Bth, Extensions, Opcode, Psn, Qpn, RKey, ReplyEth, Syndrome};

use super::connection::CapturedConnection;
use super::packet_writer::{PacketRole, PacketWriter, RoleSink};
use super::payload::PayloadSource;
use super::psn_tracker::{ExpectedResponse, OpenRequest, PsnTracker};
use super::segmenter::{MessageKind, Segmenter};
use super::single_request::{SingleRequest, reth};
use crate::limits::{MAX_MESSAGE_BYTES, REPLY_BYTES};
use crate::memory::MemoryError;
use crate::shm::frame::{FrameFlags, FrameHead, FrameKind};
use crate::shm::nak::{nak_code, remote_refusal};
use crate::shm::path::DirectOutcome;
use crate::shm::remote_op::{REMOTE_OP_BYTES, RemoteOp};
use crate::wr::RemoteAddr;

const NOT_HERE: &str = "the peer's processor has written the bytes of this WRITE: they were not seen here";
/// The number of a [`DirectRequest`](crate::shm::path::DirectRequest) without a frame. No request of a frame has it
/// at the same time.
const NO_NUMBER: u32 = 0;

#[derive(Debug)]
pub(super) struct RequestStream {
    pub(super) writer: PacketWriter,
    pub(super) mtu: u32,
    pub(super) numbers: PsnTracker,
    /// The SEND or WRITE that is being sent.
    message: Option<Segmenter>,
    /// The response that is.
    response: Option<Segmenter>,
    /// The last request was written and not answered.
    pub(super) hangs: bool,
}

impl RequestStream {
    pub(super) fn new(ends: &CapturedConnection, requester: Qpn, responder: Qpn, first_psn: Psn) -> RequestStream {
        let CapturedConnection { is_reliable, pkey, path_mtu, .. } = *ends;
        RequestStream {
            writer: PacketWriter { is_reliable, requester, responder, pkey, packet: Vec::new() },
            mtu: path_mtu.bytes(),
            numbers: PsnTracker::new(first_psn),
            message: None,
            response: None,
            hangs: false,
        }
    }

    /// Every request before `upto` was carried out.
    pub(super) fn acknowledge(&mut self, upto: u32, out: &mut RoleSink<'_>) {
        if let Some(psn) = self.numbers.acknowledge(upto) {
            self.respond(psn, Syndrome::ACK_UNLIMITED, out);
        }
    }

    /// A frame with a request, or a part of one.
    pub(super) fn request(&mut self, head: &FrameHead, front: &[u8], bytes: PayloadSource<'_>, out: &mut RoleSink<'_>) {
        self.hangs = false;
        match head.kind {
            FrameKind::Send | FrameKind::Write => self.part(head, front, bytes, out),
            FrameKind::Notice => self.notice(head, out),
            FrameKind::Read if self.writer.is_reliable => {
                let from = RemoteAddr { addr: word(front), rkey: RKey(head.value) };
                self.begin_single(head.request, &SingleRequest::read(from, head.len_bytes), out);
            }
            FrameKind::RemoteOp if self.writer.is_reliable => {
                let remote_op = front.first_chunk::<REMOTE_OP_BYTES>().and_then(RemoteOp::decode);
                let Some(remote_op) = remote_op else { return };
                self.begin_single(head.request, &SingleRequest::remote_op(&remote_op, RKey(head.value)), out);
            }
            FrameKind::ObjectRead if self.writer.is_reliable => {
                let (from, mask) = front.split_at_checked(8).unwrap_or_default();
                let from = RemoteAddr { addr: word(from), rkey: RKey(head.value) };
                self.begin_single(head.request, &SingleRequest::object(from, head.len_bytes, word(mask)), out);
            }
            FrameKind::Call if self.writer.is_reliable => self.call(head, front, bytes, out),
            // The refused access itself was not seen here.
            FrameKind::Refused => {
                let error = MemoryError::from_number(head.code);
                self.respond(self.numbers.next_psn(), Syndrome::nak(remote_refusal(error)), out);
            }
            _ => {}
        }
    }

    /// A frame with an answer, or a part of one.
    pub(super) fn answer(&mut self, head: &FrameHead, front: &[u8], bytes: PayloadSource<'_>, out: &mut RoleSink<'_>) {
        if !self.writer.is_reliable {
            return;
        }
        let open = self.numbers.find(head.request);
        let psn = open.map_or(self.numbers.next_psn(), |open| open.first_psn);
        match head.kind {
            FrameKind::RnrNak => self.respond(psn, Syndrome::rnr(head.code as u8), out),
            FrameKind::Nak => self.respond(psn, Syndrome::nak(nak_code(head.code)), out),
            FrameKind::SendCopies => self.numbers.will_repeat(),
            FrameKind::Data => {
                if let Some(open) = open {
                    self.data(&open, bytes, out);
                }
            }
            FrameKind::Reply => {
                if let Some(open) = open {
                    self.numbers.acknowledge(head.request.wrapping_add(1));
                    self.reply(&open, bytes, out);
                }
            }
            FrameKind::Result => {
                if let Some(open) = open {
                    self.numbers.acknowledge(head.request.wrapping_add(1));
                    self.result(&open, word(front), out);
                }
            }
            _ => {}
        }
    }

    /// The PSNs of a request; UC has no numbers to find it by again.
    pub(super) fn open(&mut self, outcome: DirectOutcome, packets: u32, answer: ExpectedResponse) -> OpenRequest {
        if let (DirectOutcome::NoticeSent(number), true) = (outcome, self.writer.is_reliable) {
            return self.numbers.begin(number, packets, answer);
        }
        // An unanswered request is sent again with the same PSNs.
        let keeps = outcome == DirectOutcome::NoAnswer && self.writer.is_reliable;
        let first_psn = if keeps { self.numbers.next_psn() } else { self.numbers.take(packets) };
        OpenRequest { number: NO_NUMBER, first_psn, packets, answer, whole: false, shown: false }
    }

    /// A part of a SEND or WRITE.
    fn part(&mut self, head: &FrameHead, front: &[u8], bytes: PayloadSource<'_>, out: &mut RoleSink<'_>) {
        if u64::from(head.len_bytes) > MAX_MESSAGE_BYTES {
            return;
        }
        if head.flags.contains(FrameFlags::FIRST) {
            let packets = Segmenter::packets_of(head.len_bytes, self.mtu);
            let open = self.open(DirectOutcome::NoticeSent(head.request), packets, ExpectedResponse::Ack);
            self.message = Some(message_of(head, front, &open, &self.writer, self.mtu));
        }
        let is_same = |message: &Segmenter| !self.writer.is_reliable || message.number == head.request;
        let Some(mut message) = self.message.take().filter(is_same) else { return };
        let had = self.writer.feed(&mut message, bytes, PacketRole::Request, out);
        if message.is_whole() {
            self.numbers.note_whole(message.number);
        } else if had {
            self.message = Some(message);
        }
    }

    /// The peer has executed a WRITE with immediate data.
    fn notice(&mut self, head: &FrameHead, out: &mut RoleSink<'_>) {
        let open = self.open(DirectOutcome::NoticeSent(head.request), 1, ExpectedResponse::Ack);
        let mut message = Segmenter {
            reth: reth(RemoteAddr { addr: 0, rkey: RKey(0) }, head.len_bytes),
            ..message_of(&FrameHead { len_bytes: 0, ..*head }, &[], &open, &self.writer, self.mtu)
        };
        let comment = (head.len_bytes > 0).then_some(NOT_HERE);
        let nothing = PayloadSource { len_bytes: 0, read: &mut |_, _| true };
        self.writer.feed(&mut message, nothing, PacketRole::Request, &mut |role, packet, _| out(role, packet, comment));
    }

    fn begin_single(&mut self, number: u32, single: &SingleRequest, out: &mut RoleSink<'_>) {
        let open = self.numbers.begin(number, packets_of(single, self.mtu), single.answer);
        self.writer.single(single, open.first_psn, out);
    }

    /// A part of the response to a READ.
    fn data(&mut self, open: &OpenRequest, bytes: PayloadSource<'_>, out: &mut RoleSink<'_>) {
        let ExpectedResponse::Data(len_bytes) = open.answer else { return };
        let known = self.response.take().filter(|response| response.number == open.number);
        let mut response = known.unwrap_or_else(|| {
            let msn = self.numbers.msn().wrapping_add(1);
            Segmenter { msn, ..self.response_to(open, len_bytes) }
        });
        let had = self.writer.feed(&mut response, bytes, PacketRole::Response, out);
        if response.is_whole() {
            self.numbers.acknowledge(open.number.wrapping_add(1));
        } else if had {
            self.response = Some(response);
        }
    }

    /// A call, with its request.
    fn call(&mut self, head: &FrameHead, front: &[u8], bytes: PayloadSource<'_>, out: &mut RoleSink<'_>) {
        let at = RemoteAddr { addr: word(front.get(..8).unwrap_or_default()), rkey: RKey(head.value) };
        let mut request = vec![0; bytes.len_bytes.min(self.mtu) as usize];
        if !request.is_empty() && !(bytes.read)(0, &mut request) {
            return;
        }
        let packets = Segmenter::packets_of(head.len_bytes.min(REPLY_BYTES), self.mtu);
        let open = self.numbers.begin(head.request, packets, ExpectedResponse::Reply(head.len_bytes));
        let extensions = Extensions { reth: Some(reth(at, head.len_bytes)), ..Extensions::default() };
        let bth = Bth { opcode: Opcode::CALL, psn: open.first_psn, ack_req: true, ..Bth::default() };
        self.writer.write(bth, &extensions, &request, PacketRole::Request, out);
    }

    /// The reply to a request of Longarm's own.
    fn reply(&mut self, open: &OpenRequest, bytes: PayloadSource<'_>, out: &mut RoleSink<'_>) {
        let ExpectedResponse::Reply(room) = open.answer else { return };
        let len_bytes = bytes.len_bytes;
        if len_bytes > room {
            return;
        }
        let mut payload = vec![0; len_bytes.min(self.mtu) as usize];
        for packet in 0..Segmenter::packets_of(len_bytes, self.mtu) {
            let at = packet * self.mtu;
            payload.resize(self.mtu.min(len_bytes - at) as usize, 0);
            if !payload.is_empty() && !(bytes.read)(at, &mut payload) {
                return;
            }
            let aeth = Some(Aeth { syndrome: Syndrome::ACK_UNLIMITED, msn: self.numbers.msn() });
            let extensions = Extensions { aeth, reply: Some(ReplyEth { len_bytes }), ..Extensions::default() };
            let bth = Bth { opcode: Opcode::REPLY, psn: open.first_psn.add(packet), ..Bth::default() };
            self.writer.write(bth, &extensions, &payload, PacketRole::Response, out);
        }
    }

    pub(super) fn response_to(&self, open: &OpenRequest, len_bytes: u32) -> Segmenter {
        let message = Segmenter::new(MessageKind::Response, open.number, open.first_psn, self.mtu, len_bytes);
        Segmenter { msn: self.numbers.msn(), ..message }
    }

    /// The answer to an atomic and the like.
    pub(super) fn result(&mut self, open: &OpenRequest, before: u64, out: &mut RoleSink<'_>) {
        let (opcode, atomic_ack) = match open.answer {
            ExpectedResponse::Value => (Opcode::RC_ATOMIC_ACKNOWLEDGE, Some(AtomicAckEth { original: before })),
            _ => (Opcode::RC_READ_RESPONSE_ONLY, None),
        };
        let aeth = Some(Aeth { syndrome: Syndrome::ACK_UNLIMITED, msn: self.numbers.msn() });
        let extensions = Extensions { aeth, atomic_ack, ..Extensions::default() };
        let bth = Bth { opcode, psn: open.first_psn, ..Bth::default() };
        self.writer.write(bth, &extensions, &[], PacketRole::Response, out);
    }

    /// An ACK or NAK; UC has none.
    pub(super) fn respond(&mut self, psn: Psn, syndrome: Syndrome, out: &mut RoleSink<'_>) {
        if self.writer.is_reliable {
            let aeth = Some(Aeth { syndrome, msn: self.numbers.msn() });
            let bth = Bth { opcode: Opcode::RC_ACKNOWLEDGE, psn, ..Bth::default() };
            self.writer.write(bth, &Extensions { aeth, ..Extensions::default() }, &[], PacketRole::Response, out);
        }
    }
}

/// The message that a frame begins, without flags that no packet can carry.
fn message_of(head: &FrameHead, front: &[u8], open: &OpenRequest, writer: &PacketWriter, mtu: u32) -> Segmenter {
    let (kind, to) = match head.kind {
        FrameKind::Write => {
            let key = front.get(8..12).unwrap_or_default();
            (MessageKind::Write, RemoteAddr { addr: word(front), rkey: RKey(word(key) as u32) })
        }
        FrameKind::Notice => (MessageKind::Write, RemoteAddr { addr: 0, rkey: RKey(0) }),
        _ => (MessageKind::Send, RemoteAddr { addr: 0, rkey: RKey(0) }),
    };
    let value = |flag| head.flags.contains(flag).then_some(head.value);
    let imm = value(FrameFlags::IMM);
    let may_invalidate = kind == MessageKind::Send && imm.is_none() && writer.is_reliable;
    Segmenter {
        reth: reth(to, head.len_bytes),
        imm,
        invalidate: value(FrameFlags::INVALIDATE).filter(|_| may_invalidate),
        solicited: head.flags.contains(FrameFlags::SOLICITED) && (kind == MessageKind::Send || imm.is_some()),
        hidden: open.shown,
        ..Segmenter::new(kind, head.request, open.first_psn, mtu, head.len_bytes)
    }
}

/// PSNs that a request takes: a READ, those of its response.
pub(super) fn packets_of(single: &SingleRequest, mtu: u32) -> u32 {
    match single.answer {
        ExpectedResponse::Data(len_bytes) | ExpectedResponse::Reply(len_bytes) => Segmenter::packets_of(len_bytes, mtu),
        _ => 1,
    }
}

/// Little-endian bytes as a number; zeros where there are none.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (place, byte) in word.iter_mut().zip(bytes) {
        *place = *byte;
    }
    u64::from_le_bytes(word)
}
