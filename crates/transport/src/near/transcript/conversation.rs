//! The requests in one direction of a connection, and their answers.

use wire::{Aeth, AtomicAckEth, Bth, Extensions, Opcode, PKey, Psn, Qpn, RKey, Syndrome};

use super::message::{Message, Series};
use super::numbers::{Answer, Numbers, Open};
use super::single::{Single, reth};
use super::{Bytes, Deed, Ends, Outcome};
use crate::memory::MemoryError;
use crate::near::errand::{ERRAND_BYTES, Errand};
use crate::near::frame::{Flags, Head, Kind};
use crate::near::requester::{nak_code, remote_refusal};
use crate::qp::MAX_MESSAGE_BYTES;
use crate::wr::{RemoteAddr, SendOp};

/// The bits that make an opcode of RC one of UC.
const UC_OPCODE_BITS: u8 = Opcode::UC_SEND_FIRST.0;
const NOT_HERE: &str = "the peer's processor has written the bytes of this WRITE: they were not seen here";
/// What a [`Deed`] without a frame of its own is called; no request of a frame has it at the same time.
const NO_NUMBER: u32 = 0;

/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Request,
    Answer,
}

pub(super) type Out<'a> = dyn FnMut(Way, &[u8], Option<&'static str>) + 'a;
type Read<'a> = dyn FnMut(u32, &mut [u8]) -> bool + 'a;

#[derive(Debug)]
pub(super) struct Conversation {
    sheet: Sheet,
    mtu: u32,
    numbers: Numbers,
    /// The SEND or WRITE that is on its way.
    message: Option<Message>,
    /// The response that is.
    response: Option<Message>,
    /// Nobody answered the last request, which was shown.
    hangs: bool,
}

/// What packets are written on.
#[derive(Debug)]
struct Sheet {
    is_reliable: bool,
    requester: Qpn,
    responder: Qpn,
    pkey: PKey,
    packet: Vec<u8>,
}

impl Conversation {
    pub(super) fn new(ends: &Ends, requester: Qpn, responder: Qpn, first_psn: Psn) -> Conversation {
        let Ends { is_reliable, pkey, path_mtu, .. } = *ends;
        Conversation {
            sheet: Sheet { is_reliable, requester, responder, pkey, packet: Vec::new() },
            mtu: path_mtu.bytes(),
            numbers: Numbers::new(first_psn),
            message: None,
            response: None,
            hangs: false,
        }
    }

    /// Every request before `upto` was carried out.
    pub(super) fn acknowledge(&mut self, upto: u32, out: &mut Out<'_>) {
        if let Some(psn) = self.numbers.acknowledge(upto) {
            self.respond(psn, Syndrome::ACK_UNLIMITED, out);
        }
    }

    /// A frame with a request, or a part of one.
    pub(super) fn request(&mut self, head: &Head, front: &[u8], bytes: Bytes<'_>, out: &mut Out<'_>) {
        self.hangs = false;
        match head.kind {
            Kind::Send | Kind::Write => self.part(head, front, bytes, out),
            Kind::Notice => self.notice(head, out),
            Kind::Read if self.sheet.is_reliable => {
                let from = RemoteAddr { addr: word(front), rkey: RKey(head.value) };
                self.begin_single(head.request, &Single::read(from, head.len_bytes), out);
            }
            Kind::Errand if self.sheet.is_reliable => {
                let errand = front.first_chunk::<ERRAND_BYTES>().and_then(Errand::decode);
                let Some(errand) = errand else { return };
                self.begin_single(head.request, &Single::errand(&errand, RKey(head.value)), out);
            }
            // What was refused was not seen here; only that it was.
            Kind::Refused => {
                let error = MemoryError::from_number(head.code);
                self.respond(self.numbers.next_psn(), Syndrome::nak(remote_refusal(error)), out);
            }
            _ => {}
        }
    }

    /// A frame with an answer, or a part of one.
    pub(super) fn answer(&mut self, head: &Head, front: &[u8], bytes: Bytes<'_>, out: &mut Out<'_>) {
        if !self.sheet.is_reliable {
            return;
        }
        let open = self.numbers.find(head.request);
        let psn = open.map_or(self.numbers.next_psn(), |open| open.first_psn);
        match head.kind {
            Kind::RnrNak => self.respond(psn, Syndrome::rnr(head.code as u8), out),
            Kind::Nak => self.respond(psn, Syndrome::nak(nak_code(head.code)), out),
            Kind::Unlent => self.numbers.will_repeat(),
            Kind::Data => {
                if let Some(open) = open {
                    self.data(&open, bytes, out);
                }
            }
            Kind::Result => {
                if let Some(open) = open {
                    self.numbers.acknowledge(head.request.wrapping_add(1));
                    self.result(&open, word(front), out);
                }
            }
            _ => {}
        }
    }

    /// A request that was carried out, or refused, without a frame.
    pub(super) fn deed(&mut self, deed: &Deed<'_>, outcome: Outcome, read: &mut Read<'_>, out: &mut Out<'_>) {
        if outcome == Outcome::NoAnswer && self.hangs {
            return;
        }
        let Some(open) = self.show_deed(deed, outcome, read, out) else { return };
        self.hangs = outcome == Outcome::NoAnswer && self.sheet.is_reliable;
        match outcome {
            Outcome::Done | Outcome::Value(_) => {
                self.numbers.count();
                self.answer_deed(&open, outcome, read, out);
            }
            Outcome::Refused(error) => self.respond(open.first_psn, Syndrome::nak(remote_refusal(error)), out),
            Outcome::Told(_) | Outcome::NoAnswer => {}
        }
    }

    /// The request of a deed. Its PSNs are taken if it has come to anything.
    fn show_deed(&mut self, deed: &Deed<'_>, outcome: Outcome, read: &mut Read<'_>, out: &mut Out<'_>) -> Option<Open> {
        let (SendOp::Write(to) | SendOp::WriteImm(to, _)) = *deed.op else {
            let single = single_of(deed, read).filter(|_| self.sheet.is_reliable)?;
            let open = self.open(outcome, packets_of(&single, self.mtu), single.answer);
            self.sheet.single(&single, open.first_psn, out);
            return Some(open);
        };
        let len_bytes = deed.len_bytes;
        let open = self.open(outcome, Message::packets_of(len_bytes, self.mtu), Answer::Acknowledge);
        let mut message = Message {
            reth: reth(to, len_bytes),
            imm: if let SendOp::WriteImm(_, imm) = *deed.op { Some(imm) } else { None },
            solicited: deed.solicited && matches!(deed.op, SendOp::WriteImm(..)),
            ..Message::new(Series::Write, open.number, open.first_psn, self.mtu, len_bytes)
        };
        self.sheet.feed(&mut message, Bytes { len_bytes, read }, Way::Request, out);
        Some(open)
    }

    /// The PSNs of a request; UC has no numbers to find it by again.
    fn open(&mut self, outcome: Outcome, packets: u32, answer: Answer) -> Open {
        if let (Outcome::Told(number), true) = (outcome, self.sheet.is_reliable) {
            return self.numbers.begin(number, packets, answer);
        }
        // What nobody answers comes again with the same PSNs.
        let keeps = outcome == Outcome::NoAnswer && self.sheet.is_reliable;
        let first_psn = if keeps { self.numbers.next_psn() } else { self.numbers.take(packets) };
        Open { number: NO_NUMBER, first_psn, packets, answer, whole: false, shown: false }
    }

    fn answer_deed(&mut self, open: &Open, outcome: Outcome, read: &mut Read<'_>, out: &mut Out<'_>) {
        match open.answer {
            Answer::Acknowledge => {
                self.respond(open.first_psn.add(open.packets - 1), Syndrome::ACK_UNLIMITED, out);
            }
            Answer::Data(len_bytes) => {
                let mut response = self.response_to(open, len_bytes);
                self.sheet.feed(&mut response, Bytes { len_bytes, read }, Way::Answer, out);
            }
            Answer::Value | Answer::Empty => {
                let before = if let Outcome::Value(before) = outcome { before } else { 0 };
                self.result(open, before, out);
            }
        }
    }

    /// A part of a SEND or WRITE.
    fn part(&mut self, head: &Head, front: &[u8], bytes: Bytes<'_>, out: &mut Out<'_>) {
        if u64::from(head.len_bytes) > MAX_MESSAGE_BYTES {
            return;
        }
        if head.flags.contains(Flags::FIRST) {
            let packets = Message::packets_of(head.len_bytes, self.mtu);
            let open = self.open(Outcome::Told(head.request), packets, Answer::Acknowledge);
            self.message = Some(message_of(head, front, &open, &self.sheet, self.mtu));
        }
        let is_same = |message: &Message| !self.sheet.is_reliable || message.number == head.request;
        let Some(mut message) = self.message.take().filter(is_same) else { return };
        let had = self.sheet.feed(&mut message, bytes, Way::Request, out);
        if message.is_whole() {
            self.numbers.note_whole(message.number);
        } else if had {
            self.message = Some(message);
        }
    }

    /// The peer has carried out a WRITE with immediate data.
    fn notice(&mut self, head: &Head, out: &mut Out<'_>) {
        let open = self.open(Outcome::Told(head.request), 1, Answer::Acknowledge);
        let mut message = Message {
            reth: reth(RemoteAddr { addr: 0, rkey: RKey(0) }, head.len_bytes),
            ..message_of(&Head { len_bytes: 0, ..*head }, &[], &open, &self.sheet, self.mtu)
        };
        let comment = (head.len_bytes > 0).then_some(NOT_HERE);
        let nothing = Bytes { len_bytes: 0, read: &mut |_, _| true };
        self.sheet.feed(&mut message, nothing, Way::Request, &mut |way, packet, _| out(way, packet, comment));
    }

    fn begin_single(&mut self, number: u32, single: &Single, out: &mut Out<'_>) {
        let open = self.numbers.begin(number, packets_of(single, self.mtu), single.answer);
        self.sheet.single(single, open.first_psn, out);
    }

    /// A part of the response to a READ.
    fn data(&mut self, open: &Open, bytes: Bytes<'_>, out: &mut Out<'_>) {
        let Answer::Data(len_bytes) = open.answer else { return };
        let known = self.response.take().filter(|response| response.number == open.number);
        let mut response = known.unwrap_or_else(|| {
            let msn = self.numbers.msn().wrapping_add(1);
            Message { msn, ..self.response_to(open, len_bytes) }
        });
        let had = self.sheet.feed(&mut response, bytes, Way::Answer, out);
        if response.is_whole() {
            self.numbers.acknowledge(open.number.wrapping_add(1));
        } else if had {
            self.response = Some(response);
        }
    }

    fn response_to(&self, open: &Open, len_bytes: u32) -> Message {
        let message = Message::new(Series::Response, open.number, open.first_psn, self.mtu, len_bytes);
        Message { msn: self.numbers.msn(), ..message }
    }

    /// The answer to an atomic and the like.
    fn result(&mut self, open: &Open, before: u64, out: &mut Out<'_>) {
        let (opcode, atomic_ack) = match open.answer {
            Answer::Value => (Opcode::RC_ATOMIC_ACKNOWLEDGE, Some(AtomicAckEth { original: before })),
            _ => (Opcode::RC_READ_RESPONSE_ONLY, None),
        };
        let aeth = Some(Aeth { syndrome: Syndrome::ACK_UNLIMITED, msn: self.numbers.msn() });
        let extensions = Extensions { aeth, atomic_ack, ..Extensions::default() };
        let bth = Bth { opcode, psn: open.first_psn, ..Bth::default() };
        self.sheet.write(bth, &extensions, &[], Way::Answer, out);
    }

    /// An acknowledge or NAK; UC has none.
    fn respond(&mut self, psn: Psn, syndrome: Syndrome, out: &mut Out<'_>) {
        if self.sheet.is_reliable {
            let aeth = Some(Aeth { syndrome, msn: self.numbers.msn() });
            let bth = Bth { opcode: Opcode::RC_ACKNOWLEDGE, psn, ..Bth::default() };
            self.sheet.write(bth, &Extensions { aeth, ..Extensions::default() }, &[], Way::Answer, out);
        }
    }
}

impl Sheet {
    fn feed(&mut self, message: &mut Message, bytes: Bytes<'_>, way: Way, out: &mut Out<'_>) -> bool {
        message.feed(bytes, &mut |bth, extensions, payload| {
            let bth = Bth { ack_req: bth.ack_req && self.is_reliable, ..bth };
            self.write(bth, extensions, payload, way, out);
        })
    }

    fn single(&mut self, single: &Single, psn: Psn, out: &mut Out<'_>) {
        let payload = single.payload.as_ref().map_or(&[][..], |value| value);
        let bth = Bth { opcode: single.opcode, psn, ack_req: true, ..Bth::default() };
        self.write(bth, &single.extensions, payload, Way::Request, out);
    }

    fn write(&mut self, bth: Bth, extensions: &Extensions, payload: &[u8], way: Way, out: &mut Out<'_>) {
        let bth = Bth {
            opcode: Opcode(bth.opcode.0 | if self.is_reliable { 0 } else { UC_OPCODE_BITS }),
            pkey: self.pkey,
            dest_qpn: if way == Way::Request { self.responder } else { self.requester },
            ..bth
        };
        self.packet.clear();
        extensions.encode_packet(&bth, payload, &mut self.packet);
        out(way, &self.packet, None);
    }
}

/// The message that a frame begins. What no packet can say is left out.
fn message_of(head: &Head, front: &[u8], open: &Open, sheet: &Sheet, mtu: u32) -> Message {
    let (series, to) = match head.kind {
        Kind::Write => {
            let key = front.get(8..12).unwrap_or_default();
            (Series::Write, RemoteAddr { addr: word(front), rkey: RKey(word(key) as u32) })
        }
        Kind::Notice => (Series::Write, RemoteAddr { addr: 0, rkey: RKey(0) }),
        _ => (Series::Send, RemoteAddr { addr: 0, rkey: RKey(0) }),
    };
    let value = |flag| head.flags.contains(flag).then_some(head.value);
    let imm = value(Flags::IMM);
    let may_invalidate = series == Series::Send && imm.is_none() && sheet.is_reliable;
    Message {
        reth: reth(to, head.len_bytes),
        imm,
        invalidate: value(Flags::INVALIDATE).filter(|_| may_invalidate),
        solicited: head.flags.contains(Flags::SOLICITED) && (series == Series::Send || imm.is_some()),
        hidden: open.shown,
        ..Message::new(series, head.request, open.first_psn, mtu, head.len_bytes)
    }
}

/// The request packet of a deed that has but one.
fn single_of(deed: &Deed<'_>, read: &mut Read<'_>) -> Option<Single> {
    if let SendOp::Read(from) = *deed.op {
        return Some(Single::read(from, deed.len_bytes));
    }
    let mut value = [0; 8];
    if matches!(deed.op, SendOp::AtomicWrite(_)) && !read(0, &mut value) {
        return None;
    }
    Errand::of(deed.op, value).map(|(errand, rkey)| Single::errand(&errand, rkey))
}

/// PSNs that a request takes: a READ, those of its response.
fn packets_of(single: &Single, mtu: u32) -> u32 {
    if let Answer::Data(len_bytes) = single.answer { Message::packets_of(len_bytes, mtu) } else { 1 }
}

/// Little-endian bytes as a number; zeros where there are none.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (place, byte) in word.iter_mut().zip(bytes) {
        *place = *byte;
    }
    u64::from_le_bytes(word)
}
