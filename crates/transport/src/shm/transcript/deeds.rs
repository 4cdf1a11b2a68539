//! Requests that were carried out, or refused, without a frame.

use wire::Syndrome;

use super::conversation::{Conversation, packets_of};
use super::message::{Message, Series};
use super::numbers::{Answer, Open};
use super::sheet::{Out, Way};
use super::single::{Single, reth};
use super::{Bytes, Deed, Outcome};
use crate::shm::errand::Errand;
use crate::shm::requester::remote_refusal;
use crate::wr::SendOp;

type Read<'a> = dyn FnMut(u32, &mut [u8]) -> bool + 'a;

impl Conversation {
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
