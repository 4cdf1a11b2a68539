//! The UC requester: cuts messages into packets. A WQE is done when its last packet has left.

use wire::{Bth, ImmDt, Opcode, Psn, Reth};

use crate::attr::QpState;
use crate::host::Host;
use crate::memory::Memory;
use crate::network::Transmit;
use crate::packet::PacketBuilder;
use crate::qp_core::QpCore;
use crate::queue::send::SendWqe;
use crate::reason::Reason;
use crate::state;
use crate::wr::{SendFlags, SendOp};

#[derive(Debug, Default)]
pub(crate) struct UcRequester {
    /// Packets of the oldest WQE that have left.
    sent_packets: u32,
}

/// One packet of a message.
#[derive(Clone, Copy, Debug)]
struct Segment {
    psn: Psn,
    offset: u64,
    len_bytes: usize,
    first: bool,
    last: bool,
}

impl UcRequester {
    /// Whether the oldest WQE has left in part.
    pub(crate) fn is_mid_message(&self) -> bool {
        self.sent_packets != 0
    }

    /// The PSN of the next packet.
    pub(crate) fn next_psn(&self, core: &QpCore) -> Psn {
        match core.sq.head() {
            Some(head) => head.first_psn.add(self.sent_packets),
            None => core.sq.end_psn(),
        }
    }

    /// RTS sends everything, SQD finishes the message that it has begun.
    pub(crate) fn wants_transmit(&self, core: &QpCore) -> bool {
        match core.state() {
            QpState::Rts => !core.sq.is_empty(),
            QpState::Sqd => self.is_mid_message(),
            _ => false,
        }
    }

    /// The next packet. An error is the end of the oldest WQE.
    pub(crate) fn poll_transmit(
        &mut self,
        core: &mut QpCore,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Result<Option<Transmit>, Reason> {
        while self.wants_transmit(core) {
            match core.sq.head() {
                Some(head) if head.op.is_local() => {
                    execute_local(core, head, host)?;
                    core.complete_head(host);
                }
                _ => return self.send_next(core, out, host),
            }
        }
        Ok(None)
    }

    fn send_next(
        &mut self,
        core: &mut QpCore,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Result<Option<Transmit>, Reason> {
        let Some(head) = core.sq.head() else { return Ok(None) };
        if let Some(reason) = state::unsupported(core, head) {
            return Err(reason);
        }
        let segment = self.segment(head, core.mtu());
        let built = build(core, head, &segment, out, host);
        self.sent_packets = if segment.last || built.is_err() { 0 } else { self.sent_packets + 1 };
        let len_bytes = built?;
        core.counters.tx_bytes += segment.len_bytes as u64;
        if segment.last {
            core.complete_head(host);
        }
        Ok(Some(core.transmit(len_bytes)))
    }

    fn segment(&self, wqe: &SendWqe, mtu: u32) -> Segment {
        let packet = self.sent_packets;
        debug_assert!(packet < wqe.packets, "a WQE completes with its last packet");
        let offset = u64::from(packet) * u64::from(mtu);
        Segment {
            psn: wqe.first_psn.add(packet),
            offset,
            len_bytes: (u64::from(wqe.len_bytes) - offset).min(mtu.into()) as usize,
            first: packet == 0,
            last: packet + 1 == wqe.packets,
        }
    }
}

fn build(
    core: &QpCore,
    wqe: &SendWqe,
    segment: &Segment,
    out: &mut [u8],
    host: &mut impl Host,
) -> Result<usize, Reason> {
    let solicited = segment.last && wqe.op.uses_recv() && wqe.flags.contains(SendFlags::SOLICITED);
    let bth = Bth { psn: segment.psn, solicited, ..core.bth(opcode(&wqe.op, segment)) };
    let mut builder = PacketBuilder::new(out, bth);
    push_headers(&mut builder, wqe, segment);
    builder
        .gather(host.memory(), core.pd, &wqe.payload, segment.offset, segment.len_bytes)
        .map_err(Reason::LocalMemory)?;
    Ok(builder.finish())
}

/// The address goes with the first packet, the immediate data with the last.
fn push_headers(builder: &mut PacketBuilder<'_>, wqe: &SendWqe, segment: &Segment) {
    if let (SendOp::Write(to) | SendOp::WriteImm(to, _), true) = (&wqe.op, segment.first) {
        builder.push(Reth { addr: to.addr, rkey: to.rkey, len_bytes: wqe.len_bytes }.encode());
    }
    if let (SendOp::SendImm(imm) | SendOp::WriteImm(_, imm), true) = (&wqe.op, segment.last) {
        builder.push(ImmDt(*imm).encode());
    }
}

fn opcode(op: &SendOp, segment: &Segment) -> Opcode {
    use Opcode as O;
    let [only, first, middle, last] = match op {
        SendOp::Send => [O::UC_SEND_ONLY, O::UC_SEND_FIRST, O::UC_SEND_MIDDLE, O::UC_SEND_LAST],
        SendOp::SendImm(_) => [O::UC_SEND_ONLY_IMM, O::UC_SEND_FIRST, O::UC_SEND_MIDDLE, O::UC_SEND_LAST_IMM],
        SendOp::Write(_) => [O::UC_WRITE_ONLY, O::UC_WRITE_FIRST, O::UC_WRITE_MIDDLE, O::UC_WRITE_LAST],
        SendOp::WriteImm(..) => [O::UC_WRITE_ONLY_IMM, O::UC_WRITE_FIRST, O::UC_WRITE_MIDDLE, O::UC_WRITE_LAST_IMM],
        _ => unreachable!("what UC cannot do is futile, and local operations have no packets"),
    };
    match (segment.first, segment.last) {
        (true, true) => only,
        (true, false) => first,
        (false, false) => middle,
        (false, true) => last,
    }
}

fn execute_local(core: &QpCore, wqe: &SendWqe, host: &mut impl Host) -> Result<(), Reason> {
    match &wqe.op {
        SendOp::Bind(bind) => host.memory().bind(core.accessor(), bind).map_err(Reason::BindRefused),
        SendOp::LocalInvalidate(rkey) => {
            host.memory().invalidate(core.accessor(), *rkey).map_err(Reason::InvalidateRefused)
        }
        _ => unreachable!("asked for local operations only"),
    }
}
