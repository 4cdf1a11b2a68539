//! The requests of applications on RC and UC queue pairs.

use faults::Rng;
use transport::{Access, AtomicOp, OBJECT_BYTES, Payload, QpType, RemoteAddr, SendOp};
use wire::{FlushLevel, FlushPlacement, RKey};

use super::draft::{AreaChange, Draft};
use crate::area::{Area, AreaPiece, cut};
use crate::check::sends::{Effect, Original, Read};
use crate::message::{Content, sgl};
use crate::node::SHARED_WORDS;
use crate::scenario::Kind;
use crate::world::World;

impl World {
    pub(super) fn draft_connected(&mut self, e: usize, rng: &mut Rng) -> Draft {
        if self.service() == QpType::Uc && rng.chance(self.ends[e].spec.rogue) {
            return self.draft_rogue(e, rng);
        }
        let kind = self.ends[e].spec.mix.draw(rng);
        self.draft_kind(e, rng, kind).unwrap_or_else(|| self.draft_send(e, rng, false))
    }

    /// `None`: not possible now.
    fn draft_kind(&mut self, e: usize, rng: &mut Rng, kind: Kind) -> Option<Draft> {
        match kind {
            Kind::Send => Some(self.draft_send(e, rng, false)),
            Kind::SendImm => Some(self.draft_send(e, rng, true)),
            Kind::SendInvalidate => self.draft_send_invalidate(e, rng),
            Kind::Write => self.draft_write(e, rng, false),
            Kind::WriteImm => self.draft_write(e, rng, true),
            Kind::Read => Some(self.draft_read(e, rng)),
            Kind::ObjectRead => self.draft_object_read(e, rng),
            Kind::PrivateAdd => self.draft_private_atomic(e, rng, false),
            Kind::PrivateSwap => self.draft_private_atomic(e, rng, true),
            Kind::SharedAdd => self.draft_shared_add(e, rng),
            Kind::SharedSwap => self.draft_shared_swap(e, rng),
            Kind::Ticket => self.draft_ticket(e),
            Kind::AtomicWrite => Some(self.draft_atomic_write(e, rng)),
            Kind::Flush => self.draft_flush(e, rng),
            Kind::OpenWindow => self.draft_open(e, rng),
            Kind::CloseWindow => self.draft_close(e, rng),
        }
    }

    fn peer(&self, e: usize) -> usize {
        self.ends[e].spec.peer.expect("connected ends have a peer")
    }

    pub(super) fn draft_send(&mut self, e: usize, rng: &mut Rng, with_imm: bool) -> Draft {
        let len = self.draw_len(e, rng, self.ends[e].spec.sizes.max_send_bytes);
        let content = self.content(e, rng, len);
        let op = if with_imm { SendOp::SendImm(rng.next_u64() as u32) } else { SendOp::Send };
        let payload = content.payload(&self.ends[e].source);
        Draft { message: Some(content), ..Draft::new(op, payload, len) }
    }

    fn draft_send_invalidate(&mut self, e: usize, rng: &mut Rng) -> Option<Draft> {
        let (window, rkey) = self.take_peers_window(e, rng)?;
        let send = self.draft_send(e, rng, false);
        // READs through it must be done before, or asking again for a lost response would fail.
        let fence = self.ends[e].sends.outstanding().iter().any(|posted| posted.through == Some(window));
        Some(Draft { op: SendOp::SendInvalidate(rkey), invalidates: Some(window), fence, ..send })
    }

    fn draft_write(&mut self, e: usize, rng: &mut Rng, with_imm: bool) -> Option<Draft> {
        let len = self.draw_len(e, rng, self.ends[e].spec.sizes.max_rdma_bytes);
        let (piece, to, through) = self.draw_target(e, rng, len, Access::REMOTE_WRITE)?;
        let content = self.content(e, rng, len);
        let bytes = content.bytes(&self.ends[e].source);
        let op = if with_imm { SendOp::WriteImm(to, rng.next_u64() as u32) } else { SendOp::Write(to) };
        let payload = content.payload(&self.ends[e].source);
        Some(Draft {
            change: AreaChange::Bytes { offset: piece.offset, bytes },
            message: with_imm.then_some(content),
            through,
            ..Draft::new(op, payload, len)
        })
    }

    fn draft_read(&mut self, e: usize, rng: &mut Rng) -> Draft {
        let len = self.draw_len(e, rng, self.ends[e].spec.sizes.max_rdma_bytes);
        let target = self.draw_target(e, rng, len, Access::REMOTE_READ);
        let (from, at, through) = target.expect("READs need no place of their own");
        let (slot, pieces) = self.take_result_slot(e, rng, len);
        let payload = Payload::Sgl(sgl(&pieces, &self.ends[e].landing));
        let expected = self.ends[e].remote.planned(from).to_vec();
        let read = Read { slot, pieces, from, expected, later: Vec::new(), fenced: false };
        Draft { effect: Effect::Read(read), through, ..Draft::new(SendOp::Read(at), payload, len) }
    }

    /// A READ at one moment, in its turn: it brings what was there before any later change. `None`: the peer does not
    /// know it, or might not.
    fn draft_object_read(&mut self, e: usize, rng: &mut Rng) -> Option<Draft> {
        let peer = self.peer(e);
        let tuned = |end: usize| self.ends[end].spec.tuning.selective;
        let known = self.ends[e].qp.peer_extends().unwrap_or(tuned(e) && tuned(peer));
        let area = ticket_offset(&self.ends[peer].exposed);
        let most = self.ends[e].spec.sizes.max_rdma_bytes.min(*OBJECT_BYTES.end());
        let least = *OBJECT_BYTES.start() as usize;
        if !known || (most as usize) < least || area < most as usize {
            return None;
        }
        let len = self.draw_len(e, rng, most).max(least);
        let offset = 8 * rng.below((area - len) as u64 / 8 + 1) as usize;
        let from = AreaPiece { offset, len };
        let (at, through) = self.name_target(e, rng, from, Access::REMOTE_READ);
        let (slot, pieces) = self.take_result_slot(e, rng, len);
        let payload = Payload::Sgl(sgl(&pieces, &self.ends[e].landing));
        let expected = self.ends[e].remote.planned(from).to_vec();
        let read = Read { slot, pieces, from, expected, later: Vec::new(), fenced: true };
        Some(Draft { effect: Effect::Read(read), through, ..Draft::new(SendOp::ObjectRead(at, 0), payload, len) })
    }

    /// A slot for a result, cut into pieces.
    pub(super) fn take_result_slot(&mut self, e: usize, rng: &mut Rng, len: usize) -> (usize, Vec<AreaPiece>) {
        let end = &mut self.ends[e];
        let slot = end.result_slots.take().expect("as many as the send queue holds");
        let offset = end.result_slots.at(slot).offset;
        (slot, cut(rng, offset..offset + len, end.spec.caps.max_send_sge))
    }

    /// An atomic on a word of its own: the result is known beforehand.
    fn draft_private_atomic(&mut self, e: usize, rng: &mut Rng, swap: bool) -> Option<Draft> {
        let peer = self.peer(e);
        let words = ticket_offset(&self.ends[peer].exposed) as u64 / 8;
        let among = if rng.chance(0.5) { 8 } else { words };
        let offset = 8 * rng.below(among) as usize;
        let piece = AreaPiece { offset, len: 8 };
        let (to, through) = self.name_target(e, rng, piece, Access::REMOTE_ATOMIC);
        let before = self.ends[e].remote.planned_word(offset);
        let (op, after) = if swap { swap_word(rng, before) } else { add_to_word(rng, before) };
        let mut draft = self.draft_atomic(e, rng, to, op, Original::Exactly(before));
        draft.through = through;
        draft.change = AreaChange::Bytes { offset, bytes: after.to_ne_bytes().to_vec() };
        Some(draft)
    }

    fn draft_atomic_write(&mut self, e: usize, rng: &mut Rng) -> Draft {
        let words = ticket_offset(&self.ends[self.peer(e)].exposed) as u64 / 8;
        let offset = 8 * rng.below(words) as usize;
        let (to, through) = self.name_target(e, rng, AreaPiece { offset, len: 8 }, Access::REMOTE_WRITE);
        let content = self.content(e, rng, 8);
        let bytes = content.bytes(&self.ends[e].source);
        let payload = content.payload(&self.ends[e].source);
        let change = AreaChange::Bytes { offset, bytes };
        Draft { change, through, ..Draft::new(SendOp::AtomicWrite(to), payload, 8) }
    }

    fn draft_flush(&mut self, e: usize, rng: &mut Rng) -> Option<Draft> {
        let len = self.draw_len(e, rng, self.ends[e].spec.sizes.max_rdma_bytes);
        let level = if rng.chance(0.5) { FlushLevel::RANGE } else { FlushLevel::MR };
        let (_, remote, through) = self.draw_target(e, rng, len, Access::FLUSH_GLOBAL)?;
        let op = SendOp::Flush { remote, len_bytes: len as u32, placement: FlushPlacement::GLOBAL, level };
        Some(Draft { through, ..Draft::new(op, Payload::empty(), 0) })
    }

    /// The next number into the last word of the peer's exposed area.
    fn draft_ticket(&mut self, e: usize) -> Option<Draft> {
        if self.ends[e].spec.caps.max_inline_bytes < 8 {
            return None;
        }
        let exposed = &self.ends[self.peer(e)].exposed;
        let offset = ticket_offset(exposed);
        let to = RemoteAddr { addr: exposed.addr(offset), rkey: exposed.keys().rkey };
        let app = &mut self.ends[e].app;
        app.ticket += 1;
        let content = Content::Inline(app.ticket.to_ne_bytes().to_vec());
        let bytes = content.bytes(&self.ends[e].source);
        let payload = content.payload(&self.ends[e].source);
        Some(Draft { change: AreaChange::Bytes { offset, bytes }, ..Draft::new(SendOp::Write(to), payload, 8) })
    }

    fn draft_shared_add(&mut self, e: usize, rng: &mut Rng) -> Option<Draft> {
        let word = rng.below(SHARED_WORDS as u64) as usize;
        let add = rng.range(1..=1 << 20);
        let to = self.shared_word(e, word);
        let number = self.ends[e].posted;
        self.shared(e)?.0[word].post((e, number), add);
        Some(self.draft_atomic(e, rng, to, AtomicOp::FetchAdd { add }, Original::SharedAdd { word }))
    }

    /// Compares with what it has seen last; perhaps others were quicker.
    fn draft_shared_swap(&mut self, e: usize, rng: &mut Rng) -> Option<Draft> {
        let word = rng.below(SHARED_WORDS as u64) as usize;
        let to = self.shared_word(e, SHARED_WORDS + word);
        let app = &mut self.ends[e].app;
        app.swaps += 1;
        let (compare, swap) = (app.seen[SHARED_WORDS + word], (e as u64 + 1) << 48 | app.swaps);
        let number = self.ends[e].posted;
        self.shared(e)?.1[word].post((e, number), compare, swap);
        let op = AtomicOp::CompareSwap { compare, swap };
        Some(self.draft_atomic(e, rng, to, op, Original::SharedSwap { word }))
    }

    fn shared_word(&self, e: usize, word: usize) -> RemoteAddr {
        let words = &self.nodes[self.ends[self.peer(e)].spec.node].commons.words;
        RemoteAddr { addr: words.addr(8 * word), rkey: words.keys().rkey }
    }

    fn draft_atomic(&mut self, e: usize, rng: &mut Rng, to: RemoteAddr, op: AtomicOp, original: Original) -> Draft {
        let (slot, _) = self.take_result_slot(e, rng, 8);
        let end = &self.ends[e];
        let piece = AreaPiece { offset: end.result_slots.at(slot).offset, len: 8 };
        let payload = Payload::Sgl(sgl(&[piece], &end.landing));
        let effect = Effect::Atomic { slot, piece, original };
        Draft { effect, ..Draft::new(SendOp::Atomic(to, op), payload, 8) }
    }

    /// A part of the peer's exposed area, and how to name it. `None`: there is no more room.
    fn draw_target(
        &mut self,
        e: usize,
        rng: &mut Rng,
        len: usize,
        access: Access,
    ) -> Option<(AreaPiece, RemoteAddr, Option<usize>)> {
        let area = ticket_offset(&self.ends[self.peer(e)].exposed);
        let offset = match self.service() {
            QpType::Uc => self.ends[e].writes.next(),
            // Half of them where there is a crowd.
            _ if rng.chance(0.5) => rng.below((area - len).min(4096) as u64 + 1) as usize,
            _ => rng.below((area - len) as u64 + 1) as usize,
        };
        let piece = AreaPiece { offset, len };
        if piece.range().end > area {
            return None;
        }
        let (to, through) = self.name_target(e, rng, piece, access);
        Some((piece, to, through))
    }

    /// Names a part of the peer's exposed area, by a window if one allows it.
    fn name_target(
        &mut self,
        e: usize,
        rng: &mut Rng,
        piece: AreaPiece,
        access: Access,
    ) -> (RemoteAddr, Option<usize>) {
        let peer = self.peer(e);
        if rng.chance(0.7)
            && let Some((window, to)) = self.through_window(peer, piece, access)
        {
            return (to, Some(window));
        }
        let exposed = &self.ends[peer].exposed;
        (RemoteAddr { addr: exposed.addr(piece.offset), rkey: exposed.keys().rkey }, None)
    }

    /// UC: a WRITE without a right. It is lost without a trace.
    fn draft_rogue(&mut self, e: usize, rng: &mut Rng) -> Draft {
        let len = self.draw_len(e, rng, self.ends[e].spec.sizes.max_rdma_bytes).max(1);
        let content = self.content(e, rng, len);
        let to = self.forbidden(e, rng, len);
        let op = if rng.chance(0.5) { SendOp::Write(to) } else { SendOp::WriteImm(to, 7) };
        Draft::new(op, content.payload(&self.ends[e].source), len)
    }

    fn forbidden(&self, e: usize, rng: &mut Rng, len: usize) -> RemoteAddr {
        let peer = &self.ends[self.peer(e)];
        let commons = &self.nodes[peer.spec.node].commons;
        let beyond = peer.exposed.len() - len.min(peer.exposed.len()) + 1;
        match rng.below(4) {
            0 => RemoteAddr { addr: peer.exposed.addr(0), rkey: RKey(rng.next_u64() as u32 | 1 << 31) },
            1 => RemoteAddr { addr: peer.exposed.addr(beyond), rkey: peer.exposed.keys().rkey },
            2 => RemoteAddr { addr: commons.read_only.addr(0), rkey: commons.read_only.keys().rkey },
            _ => RemoteAddr { addr: commons.foreign.addr(0), rkey: commons.foreign.keys().rkey },
        }
    }
}

/// The peer reads our tickets from the last word, which nothing else writes.
pub(crate) fn ticket_offset(exposed: &Area) -> usize {
    exposed.len() - 8
}

/// A swap that works in most cases, and the value after it.
fn swap_word(rng: &mut Rng, before: u64) -> (AtomicOp, u64) {
    let swap = rng.next_u64();
    match rng.chance(0.7) {
        true => (AtomicOp::CompareSwap { compare: before, swap }, swap),
        false => (AtomicOp::CompareSwap { compare: !before, swap }, before),
    }
}

fn add_to_word(rng: &mut Rng, before: u64) -> (AtomicOp, u64) {
    let add = rng.next_u64();
    (AtomicOp::FetchAdd { add }, before.wrapping_add(add))
}
