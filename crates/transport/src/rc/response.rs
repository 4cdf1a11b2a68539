//! The queue of responses, in PSN order.
//!
//! READ responses are built packet by packet when they leave; memory is read then. A plain ACK at the end of the
//! queue is widened instead of followed by another: so ACKs are coalesced (9.7.5.1.2).

use std::collections::VecDeque;

use wire::{Aeth, Cookie, NakCode, Piggyback, Psn, RKey, Syndrome};

use crate::host::Host;
use crate::memory::{MemoryError, PdId};
use crate::qp_core::QpCore;
use crate::rc::response_packets::{ResponseContext, acknowledge, atomic, missing, read_packet, reply_packet};

/// A READ request whose response is being sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadJob {
    /// PSN of the next response packet.
    pub(super) psn: Psn,
    /// The PSN after the last.
    pub(super) end: Psn,
    /// The protection domain of the key.
    pub(super) pd: PdId,
    pub(super) addr: u64,
    pub(super) rkey: RKey,
    /// Bytes yet to send.
    pub(super) len_bytes: u32,
    pub(super) msn: u32,
    /// No packet has left yet.
    pub(super) fresh: bool,
    /// It was answered in whole before: the peer may have the answer.
    pub(super) repeated: bool,
}

/// A reply that is being sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyJob {
    /// PSN of its next packet.
    pub(super) psn: Psn,
    /// The PSN after the last.
    pub(super) end: Psn,
    /// PSN of its first packet: its bytes are kept under it.
    pub(super) start: Psn,
    pub(super) msn: u32,
    /// It left in whole before.
    pub(super) repeated: bool,
}

/// One response, or the part of it that is still due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Response {
    Acknowledge {
        psn: Psn,
        msn: u32,
    },
    Nak {
        psn: Psn,
        msn: u32,
        code: NakCode,
    },
    RnrNak {
        psn: Psn,
        msn: u32,
        timer: u8,
    },
    /// Longarm's selective ACK: the packet with this PSN is missing. The bitmap of those after it is filled in as it
    /// leaves.
    Missing {
        psn: Psn,
        msn: u32,
    },
    Atomic {
        psn: Psn,
        msn: u32,
        original: u64,
        repeated: bool,
    },
    Read(ReadJob),
    Reply(ReplyJob),
}

impl Response {
    fn psn(&self) -> Psn {
        match self {
            Response::Acknowledge { psn, .. }
            | Response::Nak { psn, .. }
            | Response::RnrNak { psn, .. }
            | Response::Missing { psn, .. }
            | Response::Atomic { psn, .. } => *psn,
            Response::Read(job) => job.psn,
            Response::Reply(job) => job.psn,
        }
    }

    fn is_plain(&self) -> bool {
        matches!(self, Response::Acknowledge { .. })
    }

    /// Whether it carries data, and if so whether it did before. `None`: no data.
    fn repeated(&mut self) -> Option<&mut bool> {
        match self {
            Response::Read(job) => Some(&mut job.repeated),
            Response::Atomic { repeated, .. } => Some(repeated),
            Response::Reply(job) => Some(&mut job.repeated),
            _ => None,
        }
    }

    /// Whether it carries data for any PSN from `start` to before `end`.
    fn overlaps(&self, start: Psn, end: Psn) -> bool {
        match self {
            Response::Atomic { psn, .. } => !psn.before(start) && psn.before(end),
            Response::Read(job) => start.before(job.end) && job.psn.before(end),
            Response::Reply(job) => start.before(job.end) && job.psn.before(end),
            _ => false,
        }
    }
}

/// An ACK for a request to carry, with the cookie that proves it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PiggybackAck {
    pub(super) piggyback: Piggyback,
    pub(super) cookie: Cookie,
}

/// The queue of responses.
#[derive(Debug, Default)]
pub(super) struct Responses {
    queue: VecDeque<Response>,
    /// The number of those that carry data for the first time: READs and atomics.
    with_data: usize,
    /// The number of those that carry data again.
    repeats: usize,
}

impl Responses {
    /// Something other than a lone plain ACK waits.
    pub(super) fn has_urgent(&self) -> bool {
        match self.queue.front() {
            None => false,
            Some(front) => self.queue.len() > 1 || !front.is_plain(),
        }
    }

    pub(super) fn has_any(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The lone plain ACK in the form in which a request carries it, if it is the only response.
    pub(super) fn lone_ack(&self, syndrome: Syndrome) -> Option<Piggyback> {
        match self.queue.front() {
            Some(Response::Acknowledge { psn, msn }) if self.queue.len() == 1 => {
                Some(Piggyback { aeth: Aeth { syndrome, msn: *msn }, psn: *psn })
            }
            _ => None,
        }
    }

    /// The lone ACK has left with a request.
    pub(super) fn drop_lone_ack(&mut self) {
        debug_assert!(self.queue.len() == 1 && self.ends_plain());
        self.pop_front();
    }

    /// Whether the next one carries the data of a READ.
    pub(super) fn sends_data(&self) -> bool {
        matches!(self.queue.front(), Some(Response::Read(_) | Response::Reply(_)))
    }

    /// READs and atomics whose response has never left in whole.
    pub(super) fn outstanding(&self) -> usize {
        self.with_data
    }

    /// READs and atomics that are answered again.
    pub(super) fn repeats(&self) -> usize {
        self.repeats
    }

    pub(super) fn clear(&mut self) {
        *self = Responses::default();
    }

    /// Acknowledges everything up to `psn`.
    pub(super) fn acknowledge(&mut self, psn: Psn, msn: u32) {
        self.pop_plain_tail();
        self.queue.push_back(Response::Acknowledge { psn, msn });
    }

    /// Queues a NAK. It replaces a plain ACK before it.
    pub(super) fn refuse(&mut self, nak: Response) {
        self.pop_plain_tail();
        self.queue.push_back(nak);
    }

    /// Queues a selective ACK: the packet with `psn` is missing. It replaces an ACK before it.
    pub(super) fn push_sack(&mut self, psn: Psn, msn: u32) {
        self.pop_plain_tail();
        self.queue.push_back(Response::Missing { psn, msn });
    }

    /// Whether the last response is a plain ACK.
    pub(super) fn ends_plain(&self) -> bool {
        self.queue.back().is_some_and(Response::is_plain)
    }

    /// A later ACK, selective or not, covers an earlier one.
    fn pop_plain_tail(&mut self) {
        let covered = |last: &Response| last.is_plain() || matches!(last, Response::Missing { .. });
        if self.queue.back().is_some_and(covered) {
            self.queue.pop_back();
        }
    }

    /// Appends the response to a new READ or atomic.
    pub(super) fn push_data(&mut self, response: Response) {
        self.with_data += 1;
        self.queue.push_back(response);
    }

    /// Inserts the response to a repeated READ or atomic in PSN order. It replaces one for the same PSNs that has
    /// not left yet, and then counts as the first.
    pub(super) fn repeat_data(&mut self, mut response: Response, end: Psn) {
        let start = response.psn();
        let mut first = false;
        self.queue.retain_mut(|waiting| {
            let replaced = waiting.overlaps(start, end);
            first |= replaced && waiting.repeated().is_some_and(|repeated| !*repeated);
            !replaced
        });
        if let Some(repeated) = response.repeated() {
            *repeated = !first;
        }
        let at = self.queue.iter().position(|waiting| !waiting.psn().before(start)).unwrap_or(self.queue.len());
        self.queue.insert(at, response);
        self.recount();
    }

    fn debug_check(&self) {
        debug_assert!(self.with_data + self.repeats <= self.queue.len(), "each counted response is queued");
    }

    fn recount(&mut self) {
        (self.with_data, self.repeats) = (0, 0);
        for repeated in self.queue.iter_mut().filter_map(Response::repeated) {
            self.repeats += usize::from(*repeated);
            self.with_data += usize::from(!*repeated);
        }
        self.debug_check();
    }

    /// Builds the next response packet. An error: the memory of a READ is no longer
    /// there, its response turns into a NAK. If it was answered before, it is let go: the peer
    /// may have its answer, and its owner was free to take the memory away then.
    pub(super) fn build(
        &mut self,
        core: &QpCore,
        note: &ResponseContext<'_>,
        out: &mut [u8],
        host: &impl Host,
    ) -> Option<Result<usize, (Psn, MemoryError)>> {
        let len_bytes = match self.queue.front_mut()? {
            Response::Acknowledge { psn, msn } => acknowledge(core, note, *psn, note.syndrome, *msn, out),
            Response::Nak { psn, msn, code } => acknowledge(core, note, *psn, Syndrome::nak(*code), *msn, out),
            Response::RnrNak { psn, msn, timer } => acknowledge(core, note, *psn, Syndrome::rnr(*timer), *msn, out),
            Response::Missing { psn, msn } => missing(core, note, *psn, *msn, out),
            Response::Atomic { psn, msn, original, .. } => atomic(core, note, *psn, *msn, *original, out),
            Response::Read(job) => match read_packet(core, job, note, out, host) {
                Err(_) if job.repeated => {
                    self.pop_front();
                    return self.build(core, note, out, host);
                }
                Err(refused) => {
                    let psn = job.psn;
                    self.clear();
                    return Some(Err((psn, refused)));
                }
                Ok(len_bytes) if job.psn != job.end => return Some(Ok(len_bytes)),
                Ok(len_bytes) => len_bytes,
            },
            Response::Reply(job) => match reply_packet(core, job, note, out) {
                // Newer replies have taken its place: the peer has had it.
                None => {
                    self.pop_front();
                    return self.build(core, note, out, host);
                }
                Some(len_bytes) if job.psn != job.end => return Some(Ok(len_bytes)),
                Some(len_bytes) => len_bytes,
            },
        };
        self.pop_front();
        Some(Ok(len_bytes))
    }

    fn pop_front(&mut self) {
        let mut front = self.queue.pop_front();
        match front.as_mut().and_then(Response::repeated) {
            Some(true) => self.repeats -= 1,
            Some(false) => self.with_data -= 1,
            None => {}
        }
        self.debug_check();
    }
}
