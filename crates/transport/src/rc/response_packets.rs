//! The packets that carry responses.

use wire::{Aeth, AtomicAckEth, Bth, Cookie, Mark, NakCode, Opcode, Psn, ReplyEth, Sack, Syndrome};

use crate::host::Host;
use crate::memory::{Accessor, Memory, MemoryError};
use crate::packet::PacketBuilder;
use crate::qp_core::QpCore;
use crate::rc::reorder::Reorder;
use crate::rc::replies::KeptReplies;
use crate::rc::response::{ReadJob, ReplyJob};

/// The fields that every response carries beside its own.
#[derive(Debug)]
pub(super) struct ResponseContext<'a> {
    /// The syndrome of a positive ACK.
    pub(super) syndrome: Syndrome,
    /// The mark that proves it.
    pub(super) mark: Mark,
    /// The peer may send requests that carry ACKs.
    pub(super) piggyback: bool,
    /// The peer may send requests of Longarm's own.
    pub(super) extends: bool,
    /// The cookie, if ACKs tell it.
    pub(super) untold_cookie: Option<Cookie>,
    /// The cookie.
    pub(super) own: Cookie,
    /// The packets that came ahead of sequence.
    pub(super) reorder: Option<&'a Reorder>,
    /// The next PSN in sequence.
    pub(super) expected: Psn,
    /// The bytes of replies.
    pub(super) replies: &'a KeptReplies,
}

impl ResponseContext<'_> {
    fn bth(&self, core: &QpCore, opcode: Opcode, psn: Psn) -> Bth {
        Bth { psn, mark: self.mark, ack_req: self.piggyback, solicited: self.extends, ..core.bth(opcode) }
    }

    fn sack(&self, psn: Psn) -> Sack {
        self.reorder.map_or_else(Sack::default, |reorder| reorder.sack(psn, self.expected))
    }
}

/// An ACK or NAK; to a peer that has yet to be told the cookie, in the form that tells it.
pub(super) fn acknowledge(
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

/// A selective ACK: its first part is a NAK for the missing packet.
pub(super) fn missing(core: &QpCore, note: &ResponseContext<'_>, psn: Psn, msn: u32, out: &mut [u8]) -> usize {
    let syndrome = Syndrome::nak(NakCode::PsnSequenceError);
    let mut builder = own(core, note, Opcode::SELECTIVE_ACKNOWLEDGE, psn, syndrome, msn, out);
    builder.push(note.sack(psn).encode());
    builder.push(note.own.encode());
    builder.finish()
}

/// The result of an atomic.
pub(super) fn atomic(
    core: &QpCore,
    note: &ResponseContext<'_>,
    psn: Psn,
    msn: u32,
    original: u64,
    out: &mut [u8],
) -> usize {
    let mut builder = short(core, note, Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, note.syndrome, msn, out);
    builder.push(AtomicAckEth { original }.encode());
    builder.finish()
}

/// The next packet of a READ response; moves the job on.
pub(super) fn read_packet(
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

/// The next packet of a reply; moves the job on. `None`: its bytes are no longer kept.
pub(super) fn reply_packet(
    core: &QpCore,
    job: &mut ReplyJob,
    note: &ResponseContext<'_>,
    out: &mut [u8],
) -> Option<usize> {
    let bytes = &note.replies.at(job.start)?.bytes;
    let offset = job.psn.distance(job.start).max(0) as usize * core.mtu() as usize;
    let rest = bytes.get(offset..)?;
    let part = &rest[..rest.len().min(core.mtu() as usize)];
    let mut builder = own(core, note, Opcode::REPLY, job.psn, note.syndrome, job.msn, out);
    builder.push(ReplyEth { len_bytes: bytes.len() as u32 }.encode());
    builder.room(part.len()).copy_from_slice(part);
    job.psn = job.psn.next();
    Some(builder.finish())
}
