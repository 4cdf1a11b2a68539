//! What the responder has to say, in PSN order, and the packets that say it.
//!
//! READ responses are built packet by packet when they leave; memory is read then.
//! A plain acknowledge at the end of the queue is widened instead of followed by
//! another: that is how acknowledges are coalesced (9.7.5.1.2).

use std::collections::VecDeque;

use wire::{Aeth, AtomicAckEth, Bth, Cookie, Mark, NakCode, Opcode, Piggyback, Psn, RKey, Sack, Syndrome};

use crate::host::Host;
use crate::memory::{Accessor, Memory, MemoryError, PdId};
use crate::packet::PacketBuilder;
use crate::qp_core::QpCore;
use crate::rc::reorder::Reorder;

/// A READ request whose response is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadJob {
    /// PSN of the next response packet.
    pub(super) psn: Psn,
    /// The PSN after the last.
    pub(super) end: Psn,
    /// Whose key it is.
    pub(super) pd: PdId,
    pub(super) addr: u64,
    pub(super) rkey: RKey,
    /// Bytes yet to send.
    pub(super) len_bytes: u32,
    pub(super) msn: u32,
    /// No packet has left yet.
    pub(super) fresh: bool,
    /// It was answered in whole before: nobody may be waiting for it.
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
    /// Longarm's own: the packet with this PSN is missing; which after it are not, is filled in as it leaves.
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
            _ => None,
        }
    }

    /// Whether it carries data for any PSN from `start` to before `end`.
    fn overlaps(&self, start: Psn, end: Psn) -> bool {
        match self {
            Response::Atomic { psn, .. } => !psn.before(start) && psn.before(end),
            Response::Read(job) => start.before(job.end) && job.psn.before(end),
            _ => false,
        }
    }
}

/// What every response says beside its own.
#[derive(Debug)]
pub(super) struct ResponseContext<'a> {
    /// The syndrome of a positive acknowledge.
    pub(super) syndrome: Syndrome,
    /// What proves it.
    pub(super) mark: Mark,
    /// The peer may send us requests that bring acknowledges along.
    pub(super) piggyback: bool,
    /// The cookie, if acknowledges tell it.
    pub(super) untold_cookie: Option<Cookie>,
    /// The cookie.
    pub(super) own: Cookie,
    /// What came before its turn.
    pub(super) reorder: Option<&'a Reorder>,
    /// Whose turn it is.
    pub(super) expected: Psn,
}

impl ResponseContext<'_> {
    fn bth(&self, core: &QpCore, opcode: Opcode, psn: Psn) -> Bth {
        Bth { psn, mark: self.mark, ack_req: self.piggyback, ..core.bth(opcode) }
    }

    fn sack(&self, psn: Psn) -> Sack {
        self.reorder.map_or_else(Sack::default, |reorder| reorder.sack(psn, self.expected))
    }
}

/// An acknowledge that a request brings along, and what proves it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PiggybackAck {
    pub(super) piggyback: Piggyback,
    pub(super) cookie: Cookie,
}

/// The queue of responses.
#[derive(Debug, Default)]
pub(super) struct Responses {
    queue: VecDeque<Response>,
    /// How many of them carry data for the first time: READs and atomics.
    with_data: usize,
    /// How many carry data again.
    repeats: usize,
}

impl Responses {
    /// Something other than a lone plain acknowledge waits.
    pub(super) fn has_urgent(&self) -> bool {
        match self.queue.front() {
            None => false,
            Some(front) => self.queue.len() > 1 || !front.is_plain(),
        }
    }

    pub(super) fn has_any(&self) -> bool {
        !self.queue.is_empty()
    }

    /// What is due, if it is one plain acknowledge, in the form in which a request brings it along.
    pub(super) fn lone_ack(&self, syndrome: Syndrome) -> Option<Piggyback> {
        match self.queue.front() {
            Some(Response::Acknowledge { psn, msn }) if self.queue.len() == 1 => {
                Some(Piggyback { aeth: Aeth { syndrome, msn: *msn }, psn: *psn })
            }
            _ => None,
        }
    }

    /// It has left so.
    pub(super) fn drop_lone_ack(&mut self) {
        debug_assert!(self.queue.len() == 1 && self.ends_plain());
        self.pop_front();
    }

    /// Whether the next one carries the data of a READ.
    pub(super) fn sends_data(&self) -> bool {
        matches!(self.queue.front(), Some(Response::Read(_)))
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

    /// A NAK covers what a plain acknowledge before it would say.
    pub(super) fn refuse(&mut self, nak: Response) {
        self.pop_plain_tail();
        self.queue.push_back(nak);
    }

    /// Tells that the packet with `psn` is missing, and covers what an acknowledge before it would say.
    pub(super) fn push_sack(&mut self, psn: Psn, msn: u32) {
        self.pop_plain_tail();
        self.queue.push_back(Response::Missing { psn, msn });
    }

    /// Whether the last response is a plain acknowledge.
    pub(super) fn ends_plain(&self) -> bool {
        self.queue.back().is_some_and(Response::is_plain)
    }

    /// A later acknowledge, selective or not, says all that an earlier one does.
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

    /// Puts the response to a repeated READ or atomic at its place in PSN order,
    /// instead of one for the same PSNs that has not left yet: then it is still the first.
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

    fn recount(&mut self) {
        (self.with_data, self.repeats) = (0, 0);
        for repeated in self.queue.iter_mut().filter_map(Response::repeated) {
            self.repeats += usize::from(*repeated);
            self.with_data += usize::from(!*repeated);
        }
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
            Response::Missing { psn, msn } => missing(core, note, *psn, *msn, out).finish(),
            Response::Atomic { psn, msn, original, .. } => {
                let mut builder = short(core, note, Opcode::RC_ATOMIC_ACKNOWLEDGE, *psn, note.syndrome, *msn, out);
                builder.push(AtomicAckEth { original: *original }.encode());
                builder.finish()
            }
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
    }
}

/// An ACK or NAK; to a peer that has yet to be told the cookie, in the form that tells it.
fn acknowledge(
    core: &QpCore,
    note: &ResponseContext<'_>,
    psn: Psn,
    syndrome: Syndrome,
    msn: u32,
    out: &mut [u8],
) -> usize {
    let Some(cookie) = note.untold_cookie else {
        return short(core, note, Opcode::RC_ACKNOWLEDGE, psn, syndrome, msn, out).finish();
    };
    let mut builder = own(core, note, Opcode::ACKNOWLEDGE_COOKIE, psn, syndrome, msn, out);
    builder.push(cookie.encode());
    builder.finish()
}

/// A packet that begins with an AETH.
fn short<'a>(
    core: &QpCore,
    note: &ResponseContext<'_>,
    opcode: Opcode,
    psn: Psn,
    syndrome: Syndrome,
    msn: u32,
    out: &'a mut [u8],
) -> PacketBuilder<'a> {
    let mut builder = PacketBuilder::new(out, note.bth(core, opcode, psn));
    builder.push(Aeth { syndrome, msn }.encode());
    builder
}

/// The same of Longarm's own, whose opcode is the same for RC and XRC.
fn own<'a>(
    core: &QpCore,
    note: &ResponseContext<'_>,
    opcode: Opcode,
    psn: Psn,
    syndrome: Syndrome,
    msn: u32,
    out: &'a mut [u8],
) -> PacketBuilder<'a> {
    let mut builder = PacketBuilder::new(out, Bth { opcode, ..note.bth(core, opcode, psn) });
    builder.push(Aeth { syndrome, msn }.encode());
    builder
}

/// A selective acknowledge: in its first part a NAK for the missing packet.
fn missing<'a>(core: &QpCore, note: &ResponseContext<'_>, psn: Psn, msn: u32, out: &'a mut [u8]) -> PacketBuilder<'a> {
    let syndrome = Syndrome::nak(NakCode::PsnSequenceError);
    let mut builder = own(core, note, Opcode::SELECTIVE_ACKNOWLEDGE, psn, syndrome, msn, out);
    builder.push(note.sack(psn).encode());
    builder.push(note.own.encode());
    builder
}

/// The next packet of a READ response; moves the job on.
fn read_packet(
    core: &QpCore,
    job: &mut ReadJob,
    note: &ResponseContext<'_>,
    out: &mut [u8],
    host: &impl Host,
) -> Result<usize, MemoryError> {
    let last = job.psn.next() == job.end;
    let opcode = match (job.fresh, last) {
        (true, true) => Opcode::RC_READ_RESPONSE_ONLY,
        (true, false) => Opcode::RC_READ_RESPONSE_FIRST,
        (false, false) => Opcode::RC_READ_RESPONSE_MIDDLE,
        (false, true) => Opcode::RC_READ_RESPONSE_LAST,
    };
    let mut builder = PacketBuilder::new(out, note.bth(core, opcode, job.psn));
    if job.fresh || last {
        builder.push(Aeth { syndrome: note.syndrome, msn: job.msn }.encode());
    }
    let part = job.len_bytes.min(core.mtu());
    if part != 0 {
        host.memory().remote_read(
            Accessor { pd: job.pd, qpn: core.qpn },
            job.rkey,
            job.addr,
            builder.room(part as usize),
        )?;
    }
    *job = ReadJob {
        psn: job.psn.next(),
        addr: job.addr.wrapping_add(u64::from(part)),
        len_bytes: job.len_bytes - part,
        fresh: false,
        ..*job
    };
    Ok(builder.finish())
}
