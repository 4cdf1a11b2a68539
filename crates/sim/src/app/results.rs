//! Send completions: what the application does with them, and what READs and atomics brought.

use transport::{CompletionOp, CqSide, QpType, Status};

use crate::area::AreaPiece;
use crate::check::sends::{Effect, Fate, Original, Posted, Read};
use crate::check::{Outcome, ensure};
use crate::end::WindowPhase;
use crate::node::{Noted, SHARED_WORDS};
use crate::world::World;

const READ_RULE: &str = "a READ brings what was there";
const ATOMIC_RULE: &str = "atomics happen exactly once";

impl World {
    /// Takes everything out of both completion queues.
    pub(crate) fn take_completions(&mut self, e: usize) -> Outcome {
        while let Some(noted) = self.ends[e].mailbox.completions.pop_front() {
            let completion = noted.completion;
            let (side, status) = (noted.side as u64, completion.status as u64);
            self.note(&[8, e as u64, side, completion.wr_id, status, u64::from(completion.byte_len)], || {
                format!(
                    "q{e} {:?} completion {}: {:?} {:?}",
                    noted.side, completion.wr_id, completion.op, completion.status
                )
            });
            match completion.status {
                Status::Success => self.saw(name(completion.op)),
                status => self.saw(format!("{status:?}")),
            }
            let right = completion.qpn == self.ends[e].qp.qpn();
            ensure!("completions name their queue pair", right, "{completion:?}");
            match noted.side {
                CqSide::Send => self.finish_sends(e, &noted)?,
                CqSide::Recv => self.finish_receive(e, &noted)?,
            }
        }
        Ok(())
    }

    fn finish_sends(&mut self, e: usize, noted: &Noted) -> Outcome {
        let now = self.now();
        let retired = self.ends[e].sends.complete(&noted.completion, now)?;
        for (posted, fate) in retired {
            let number = posted.number;
            self.release_windows(e, &posted, fate);
            let outcome = match fate {
                Fate::Done => self.succeeded(e, posted),
                Fate::Failed(_) => self.failed(e, posted),
            };
            outcome.map_err(|violation| violation.at(format!("work request {number}")))?;
        }
        Ok(())
    }

    /// The peer's windows that it used or ended.
    fn release_windows(&mut self, e: usize, posted: &Posted, fate: Fate) {
        let Some(peer) = self.ends[e].spec.peer else { return };
        let windows = &mut self.ends[peer].windows;
        if let Some(window) = posted.through {
            windows[window].uses -= 1;
        }
        if let (Some(window), Fate::Done) = (posted.invalidates, fate) {
            windows[window].phase = WindowPhase::Idle;
        }
    }

    fn succeeded(&mut self, e: usize, posted: Posted) -> Outcome {
        if let (QpType::Rc, Some(peer)) = (self.service(), self.ends[e].spec.peer) {
            let mut remote = core::mem::take(&mut self.ends[e].remote);
            remote.confirm(posted.number, &mut self.ends[peer].exposed);
            self.ends[e].remote = remote;
        }
        match posted.effect {
            Effect::Plain | Effect::Refused(_) => Ok(()),
            Effect::Read(read) => self.read_done(e, &read),
            Effect::Atomic { slot, piece, original } => self.atomic_done(e, posted.number, slot, piece, original),
            Effect::Window { window, live } => {
                self.ends[e].windows[window].phase = if live { WindowPhase::Live } else { WindowPhase::Idle };
                Ok(())
            }
        }
    }

    fn read_done(&mut self, e: usize, read: &Read) -> Outcome {
        let end = &mut self.ends[e];
        let actual = end.landing.actual_pieces(&read.pieces);
        let odd = (0..actual.len()).find(|i| actual[*i] != read.expected[*i] && !read.explains(*i, actual[*i]));
        ensure!(READ_RULE, odd.is_none(), "byte {odd:?} of {} is neither old nor new", actual.len());
        end.landing.expect_pieces(&read.pieces, &actual);
        end.landing.check(end.result_slots.guarded(read.slot))?;
        end.result_slots.give_back(read.slot);
        Ok(())
    }

    fn atomic_done(&mut self, e: usize, number: u64, slot: usize, piece: AreaPiece, original: Original) -> Outcome {
        let bytes = self.ends[e].landing.actual(piece.range());
        let value = u64::from_ne_bytes(*bytes.first_chunk().expect("eight bytes"));
        match original {
            Original::Exactly(wanted) => {
                ensure!(ATOMIC_RULE, value == wanted, "it found {value:#x}, not {wanted:#x}");
            }
            Original::SharedAdd { word } => {
                if let Some((counters, _)) = self.shared(e) {
                    counters[word].done((e, number), value)?;
                }
            }
            Original::SharedSwap { word } => {
                self.ends[e].app.seen[SHARED_WORDS + word] = value;
                if let Some((_, chains)) = self.shared(e) {
                    chains[word].done((e, number), value)?;
                }
            }
        }
        let end = &mut self.ends[e];
        end.landing.expect(piece.offset, &bytes);
        end.landing.check(end.result_slots.guarded(slot))?;
        end.result_slots.give_back(slot);
        Ok(())
    }

    /// A READ that failed may have brought a part, an atomic that failed nothing.
    fn failed(&mut self, e: usize, posted: Posted) -> Outcome {
        let end = &mut self.ends[e];
        if let Effect::Read(read) = &posted.effect {
            let (actual, before) = (end.landing.actual_pieces(&read.pieces), end.landing.model_pieces(&read.pieces));
            let odd = (0..actual.len()).find(|i| actual[*i] != before[*i] && !read.explains(*i, actual[*i]));
            ensure!(READ_RULE, odd.is_none(), "a READ that failed brought something else at {odd:?}");
            end.landing.expect_pieces(&read.pieces, &actual);
        }
        match posted.effect {
            Effect::Read(Read { slot, .. }) | Effect::Atomic { slot, .. } => {
                end.landing.check(end.result_slots.guarded(slot))
            }
            _ => Ok(()),
        }
    }
}

fn name(op: CompletionOp) -> &'static str {
    match op {
        CompletionOp::Send => "Send",
        CompletionOp::Write => "Write",
        CompletionOp::Read => "Read",
        CompletionOp::ObjectRead => "ObjectRead",
        CompletionOp::Call => "Call",
        CompletionOp::CompareSwap => "CompareSwap",
        CompletionOp::FetchAdd => "FetchAdd",
        CompletionOp::BindMw => "BindMw",
        CompletionOp::LocalInvalidate => "LocalInvalidate",
        CompletionOp::Flush => "Flush",
        CompletionOp::AtomicWrite => "AtomicWrite",
        CompletionOp::Recv => "Recv",
        CompletionOp::RecvWriteImm => "RecvWriteImm",
    }
}

impl Read {
    /// A change posted after this READ may show in it, unless a fence stands between.
    pub(crate) fn may_see(&mut self, written: AreaPiece, bytes: &[u8]) {
        let (ours, theirs) = (self.from.range(), written.range());
        let (start, end) = (ours.start.max(theirs.start), ours.end.min(theirs.end));
        if !self.fenced && start < end {
            let bytes = bytes[start - theirs.start..end - theirs.start].to_vec();
            self.later.push((start - ours.start, bytes));
        }
    }

    /// Whether byte number `i` may have this value.
    fn explains(&self, i: usize, value: u8) -> bool {
        let later =
            |(offset, bytes): &(usize, Vec<u8>)| i.checked_sub(*offset).and_then(|i| bytes.get(i)) == Some(&value);
        self.expected[i] == value || self.later.iter().any(later)
    }
}
