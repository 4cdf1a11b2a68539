//! The requests in one direction of a connection, and their answers.

use wire::{Aeth, AtomicAckEth, Bth, Extensions, Opcode, Psn, Qpn, RKey, Syndrome};

use super::message::{Message, Series};
use super::numbers::{Answer, Numbers, Open};
use super::sheet::{Out, Sheet, Way};
use super::single::{Single, reth};
use super::{Bytes, Ends, Outcome};
use crate::memory::MemoryError;
use crate::qp::MAX_MESSAGE_BYTES;
use crate::shm::errand::{ERRAND_BYTES, Errand};
use crate::shm::frame::{Flags, Head, Kind};
use crate::shm::requester::{nak_code, remote_refusal};
use crate::wr::RemoteAddr;

const NOT_HERE: &str = "the peer's processor has written the bytes of this WRITE: they were not seen here";
/// What a [`Deed`](super::Deed) without a frame of its own is called; no request of a frame has it at the same time.
const NO_NUMBER: u32 = 0;

#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) sheet: Sheet,
    pub(super) mtu: u32,
    pub(super) numbers: Numbers,
    /// The SEND or WRITE that is on its way.
    message: Option<Message>,
    /// The response that is.
    response: Option<Message>,
    /// Nobody answered the last request, which was shown.
    pub(super) hangs: bool,
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

    /// The PSNs of a request; UC has no numbers to find it by again.
    pub(super) fn open(&mut self, outcome: Outcome, packets: u32, answer: Answer) -> Open {
        if let (Outcome::Told(number), true) = (outcome, self.sheet.is_reliable) {
            return self.numbers.begin(number, packets, answer);
        }
        // What nobody answers comes again with the same PSNs.
        let keeps = outcome == Outcome::NoAnswer && self.sheet.is_reliable;
        let first_psn = if keeps { self.numbers.next_psn() } else { self.numbers.take(packets) };
        Open { number: NO_NUMBER, first_psn, packets, answer, whole: false, shown: false }
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

    pub(super) fn response_to(&self, open: &Open, len_bytes: u32) -> Message {
        let message = Message::new(Series::Response, open.number, open.first_psn, self.mtu, len_bytes);
        Message { msn: self.numbers.msn(), ..message }
    }

    /// The answer to an atomic and the like.
    pub(super) fn result(&mut self, open: &Open, before: u64, out: &mut Out<'_>) {
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
    pub(super) fn respond(&mut self, psn: Psn, syndrome: Syndrome, out: &mut Out<'_>) {
        if self.sheet.is_reliable {
            let aeth = Some(Aeth { syndrome, msn: self.numbers.msn() });
            let bth = Bth { opcode: Opcode::RC_ACKNOWLEDGE, psn, ..Bth::default() };
            self.sheet.write(bth, &Extensions { aeth, ..Extensions::default() }, &[], Way::Answer, out);
        }
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

/// PSNs that a request takes: a READ, those of its response.
pub(super) fn packets_of(single: &Single, mtu: u32) -> u32 {
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
