//! Receives: posting them, and comparing what arrived with what was sent.

use transport::{Completion, CompletionOp, QpType, RecvWr, Status};
use wire::{Grh, Qpn};

use crate::area::{Area, Slots, cut};
use crate::check::recvs::PostedRecv;
use crate::check::{Outcome, ensure};
use crate::end::GRH_BYTES;
use crate::message::{SentMessage, packet_number, sgl};
use crate::node::{Cause, Noted};
use crate::scenario::Ending;
use crate::world::World;

const RULE: &str = "every message received is the one that was sent";

impl World {
    /// Receive work requests that fit the queue now.
    pub(super) fn room_for_receives(&self, e: usize) -> usize {
        let end = &self.ends[e];
        if end.qp.qp_type() == QpType::XrcSend {
            return 0;
        }
        match (&self.nodes[end.spec.node].srq, end.spec.shared_recv) {
            (Some(srq), true) => (srq.queue.capacity() as usize).saturating_sub(srq.ledger.outstanding().len()),
            _ => (end.spec.caps.max_recv_wr as usize).saturating_sub(end.recvs.outstanding().len()),
        }
    }

    pub(super) fn post_receive(&mut self, e: usize) -> Outcome {
        let shared = self.ends[e].spec.shared_recv;
        let mut rng = self.ends[e].app.rng.clone();
        let most = self.ends[e].spec.caps.max_recv_sge;
        let (slots, area, ledger) = self.receive_side(e);
        let slot = slots.take().expect("as many as the queue holds");
        let most = if shared { most.min(1) } else { most };
        let pieces = cut(&mut rng, slots.at(slot).range(), most);
        let wr = RecvWr { wr_id: ledger.next(), sgl: sgl(&pieces, area) };
        ledger.post(PostedRecv { slot, pieces });
        self.ends[e].app.rng = rng;
        let taken = match (&mut self.nodes[self.ends[e].spec.node].srq, shared) {
            (Some(srq), true) => srq.queue.post(wr),
            _ => self.with_qp(e, None, |qp, _, host| qp.post_recv(wr, host)),
        };
        ensure!("a queue with room takes a work request", taken.is_ok(), "a receive: {taken:?}");
        Ok(())
    }

    /// Slots, memory and account of an end's receives, shared or not.
    fn receive_side(&mut self, e: usize) -> (&mut Slots, &mut Area, &mut crate::check::recvs::RecvLedger) {
        let end = &mut self.ends[e];
        match (&mut self.nodes[end.spec.node].srq, end.spec.shared_recv) {
            (Some(srq), true) => (&mut srq.slots, &mut srq.area, &mut srq.ledger),
            _ => (&mut end.recv_slots, &mut end.landing, &mut end.recvs),
        }
    }

    /// A completion of the receive queue.
    pub(super) fn finish_receive(&mut self, e: usize, noted: &Noted) -> Outcome {
        let completion = &noted.completion;
        let posted = if self.ends[e].spec.shared_recv {
            let mut taken = core::mem::take(&mut self.ends[e].mailbox.taken);
            let posted = self.receive_side(e).2.complete_taken(completion, &mut taken);
            self.ends[e].mailbox.taken = taken;
            posted?
        } else {
            self.receive_side(e).2.complete_oldest(completion)?
        };
        if completion.status == Status::Success {
            let (sender, index) = self.find_message(e, noted.cause)?;
            let message = self.ends[sender].log[index].clone();
            self.compare(e, sender, &message, completion, &posted).map_err(|v| v.at(format!("message {index}")))?;
        } else {
            self.receive_failed(e, completion, &posted)?;
        }
        self.receive_side(e).0.give_back(posted.slot);
        Ok(())
    }

    /// The message that a completion tells of. It must be one that was meant for us, and on a connection the
    /// next one.
    fn find_message(&mut self, e: usize, cause: Option<Cause>) -> Outcome<(usize, usize)> {
        ensure!(RULE, cause.is_some(), "a receive succeeded, but no packet brought it");
        let Some(Cause { src_qpn, psn }) = cause else { unreachable!("checked") };
        let sender = self.end_of(src_qpn);
        ensure!(RULE, sender.is_some(), "the sender {src_qpn} does not exist");
        let sender = sender.unwrap_or_default();
        let packet = packet_number(psn, self.ends[sender].spec.first_psn);
        let index = match self.service() {
            QpType::Rc => self.next_message(e, sender)?,
            _ => self.message_ended_by(e, sender, packet)?,
        };
        self.ends[e].heard = index + 1;
        self.ends[e].received += 1;
        Ok((sender, index))
    }

    /// Reliable: the next message, and only when all its packets are there. The last of them to come may be any.
    fn next_message(&self, e: usize, sender: usize) -> Outcome<usize> {
        let heard = self.ends[e].heard;
        let message = self.ends[sender].log.get(heard);
        ensure!(RULE, message.is_some(), "end {sender} has sent no message {heard}");
        let last = message.map_or(0, |message| message.first_packet + message.packets - 1);
        let complete = self.ends[e].observer.has_taken(last);
        ensure!(RULE, complete, "message {heard} of end {sender} is told, but not all packets up to {last} are there");
        Ok(heard)
    }

    /// Unreliable: the message whose last packet this is.
    fn message_ended_by(&self, e: usize, sender: usize, packet: u64) -> Outcome<usize> {
        let log = &self.ends[sender].log;
        let index = log.partition_point(|message| message.first_packet + message.packets <= packet);
        let message = log.get(index).filter(|message| message.holds(packet));
        ensure!(RULE, message.is_some(), "packet {packet} of end {sender} belongs to no message that is for us");
        let Some(message) = message else { unreachable!("checked") };
        let last = message.first_packet + message.packets - 1;
        ensure!(RULE, packet == last, "message {index} ended with packet {packet}, not {last}");
        let heard = self.ends[e].heard;
        let in_order = match self.service() {
            QpType::Ud => self.meant_for(message.only, e),
            _ => index >= heard && (index == heard || !self.is_calm()),
        };
        ensure!(RULE, in_order, "message {index} of end {sender}, but {heard} is the next one");
        Ok(index)
    }

    fn end_of(&self, qpn: Qpn) -> Option<usize> {
        self.ends.iter().position(|end| end.qp.qpn() == qpn)
    }

    fn compare(
        &mut self,
        e: usize,
        sender: usize,
        message: &SentMessage,
        completion: &Completion,
        posted: &PostedRecv,
    ) -> Outcome {
        let is_ud = self.service() == QpType::Ud;
        let header = if is_ud { GRH_BYTES } else { 0 };
        let op = if message.is_write { CompletionOp::RecvWriteImm } else { CompletionOp::Recv };
        let len = message.content.len();
        let told = (completion.op, completion.byte_len as usize, completion.imm, completion.invalidated);
        let sent = (op, len + header, message.imm, message.invalidates);
        ensure!(RULE, told == sent, "told {told:?}, sent {sent:?}");
        ensure!(RULE, completion.solicited == message.solicited, "solicited: {completion:?}");
        ensure!(RULE, completion.grh == is_ud, "GRH: {completion:?}");
        ensure!(RULE, !is_ud || completion.src_qpn == self.ends[sender].qp.qpn(), "source: {completion:?}");
        if message.is_write {
            self.ends[sender].writes.arrived(message.number);
        }
        if is_ud {
            self.accept_header(e, sender, message, posted)?;
        }
        let bytes = if message.is_write { Vec::new() } else { message.content.bytes(&self.ends[sender].source) };
        self.compare_landed(e, posted, header, &bytes)
    }

    /// The 40 bytes before a datagram name sender and receiver.
    fn accept_header(&mut self, e: usize, sender: usize, message: &SentMessage, posted: &PostedRecv) -> Outcome {
        let destination = match message.only {
            Some(_) => self.nodes[self.ends[e].spec.node].gid,
            None => self.group(),
        };
        let source = self.nodes[self.ends[sender].spec.node].gid;
        let (_, area, _) = self.receive_side(e);
        let bytes = area.actual_pieces(&posted.pieces);
        let grh = bytes.first_chunk().and_then(Grh::decode);
        let right = grh.is_some_and(|grh| (grh.source, grh.destination) == (source, destination));
        ensure!(RULE, right, "the header names {grh:?}, not {source} to {destination}");
        area.expect_pieces(&posted.pieces, &bytes[..GRH_BYTES]);
        Ok(())
    }

    /// The message lies in its pieces, and nothing else of the slot or around it has changed.
    fn compare_landed(&mut self, e: usize, posted: &PostedRecv, header: usize, bytes: &[u8]) -> Outcome {
        let is_uc = self.service() == QpType::Uc;
        let (slots, area, _) = self.receive_side(e);
        let guarded = slots.guarded(posted.slot);
        if is_uc {
            // A message of which a part was lost may have used the slot before.
            let actual = area.actual_pieces(&posted.pieces);
            ensure!(RULE, actual[..bytes.len()] == *bytes, "other bytes than were sent");
            area.expect_pieces(&posted.pieces, &actual);
        } else {
            let mut expected = area.model_pieces(&posted.pieces);
            expected[header..header + bytes.len()].copy_from_slice(bytes);
            area.expect_pieces(&posted.pieces, &expected);
        }
        area.check(guarded)
    }

    /// A receive that failed holds at most a part of the message that was arriving.
    fn receive_failed(&mut self, e: usize, completion: &Completion, posted: &PostedRecv) -> Outcome {
        let peer = self.ends[e].spec.peer;
        let ending = peer.map(|peer| self.ends[peer].spec.ending);
        let known = match completion.status {
            Status::WorkRequestFlushed => true,
            Status::LocalLength => ending == Some(Ending::TooLong),
            _ => false,
        };
        ensure!("a request fails for its own fault only", known, "a receive: {completion:?}");
        ensure!("a request fails for its own fault only", !self.ends[e].is_alive(), "but lives: {completion:?}");
        let coming = match (self.service(), peer) {
            (QpType::Rc, Some(peer)) => {
                let message = self.ends[peer].log.get(self.ends[e].heard).filter(|message| !message.is_write);
                message.map(|message| message.content.bytes(&self.ends[peer].source))
            }
            _ => None,
        };
        let is_uc = self.service() == QpType::Uc;
        let (slots, area, _) = self.receive_side(e);
        let (actual, before) = (area.actual_pieces(&posted.pieces), area.model_pieces(&posted.pieces));
        let coming = coming.unwrap_or_default();
        let foreign = |i: &usize| actual[*i] != before[*i] && coming.get(*i) != Some(&actual[*i]);
        let odd = (0..actual.len()).find(foreign).filter(|_| !is_uc);
        ensure!(RULE, odd.is_none(), "a receive that failed holds something else at {odd:?}");
        area.expect_pieces(&posted.pieces, &actual);
        area.check(slots.guarded(posted.slot))
    }
}
