//! One request packet from its WQE.

use wire::{AtomicEth, Bth, Feth, Ieth, ImmDt, Opcode, Psn, Reth, XrcEth};

use crate::host::Host;
use crate::memory::{AtomicOp, MemoryError};
use crate::packet::Builder;
use crate::qp_core::QpCore;
use crate::queue::send::SendWqe;
use crate::rc::requester::{Cursor, Requester};
use crate::rc::response::Along;
use crate::wr::{RemoteAddr, SendFlags, SendOp};

/// Which packet, and what it says beside its WQE.
pub(in crate::rc) struct Part {
    pub(in crate::rc) cursor: Cursor,
    /// PSNs that it takes.
    pub(in crate::rc) step: u32,
    pub(in crate::rc) psn: Psn,
    pub(in crate::rc) ack_req: bool,
    /// The acknowledge that it brings along.
    pub(in crate::rc) along: Option<Along>,
}

impl Requester {
    pub(in crate::rc) fn build(
        &self,
        core: &QpCore,
        part: &Part,
        out: &mut [u8],
        host: &impl Host,
    ) -> Result<usize, MemoryError> {
        let Part { cursor, step, psn, ack_req, along } = *part;
        let Some(wqe) = core.sq.get(cursor.wqe) else { return Err(MemoryError::OutOfBounds) };
        let first = wqe.in_pieces || cursor.packet == 0;
        let last = wqe.in_pieces || cursor.packet + step == wqe.packets;
        let opcode = opcode(&wqe.op, first, last);
        let with_ack = along.and_then(|along| Some((opcode.with_acknowledge()?, along)));
        let (opcode, along) = with_ack.map_or((opcode, None), |(both, along)| (both, Some(along)));
        let solicited = last && wqe.flags.contains(SendFlags::SOLICITED) && wqe.op.uses_recv();
        let bth = Bth { psn, ack_req, solicited, mark: self.agreement.request_mark(), ..core.bth(opcode) };
        let mut builder = Builder::new(out, bth);
        if core.is_xrc() {
            builder.push(XrcEth { srq: wqe.xrc_srq }.encode());
        }
        let offset = u64::from(cursor.packet) * u64::from(core.mtu());
        let rest = wqe.len_bytes - offset as u32;
        push_headers(&mut builder, wqe, offset, rest.min(step.saturating_mul(core.mtu())), first, last);
        if let Some(along) = along {
            builder.push(along.piggyback.encode());
            builder.push(along.cookie.encode());
        }
        if !wqe.op.has_result() {
            builder.gather(host.memory(), core.pd, &wqe.payload, offset, rest.min(core.mtu()) as usize)?;
        }
        Ok(builder.finish())
    }
}

/// Extension headers in wire order. `part_bytes` is what a READ request asks for, or a piece of a WRITE has.
fn push_headers(builder: &mut Builder<'_>, wqe: &SendWqe, offset: u64, part_bytes: u32, first: bool, last: bool) {
    match wqe.op {
        SendOp::Write(to) if wqe.in_pieces => builder.push(reth(to, offset, part_bytes).encode()),
        SendOp::Write(to) | SendOp::WriteImm(to, _) if first => builder.push(reth(to, 0, wqe.len_bytes).encode()),
        SendOp::Read(from) => builder.push(reth(from, offset, part_bytes).encode()),
        SendOp::Atomic(at, op) => builder.push(atomic_eth(at, op).encode()),
        SendOp::AtomicWrite(to) => builder.push(reth(to, 0, wqe.len_bytes).encode()),
        SendOp::Flush { remote, len_bytes, placement, level } => {
            builder.push(Feth { placement, level }.encode());
            builder.push(reth(remote, 0, len_bytes).encode());
        }
        _ => {}
    }
    match wqe.op {
        SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) if last => builder.push(ImmDt(imm).encode()),
        SendOp::SendInvalidate(rkey) if last => builder.push(Ieth(rkey).encode()),
        _ => {}
    }
}

fn reth(at: RemoteAddr, offset: u64, len_bytes: u32) -> Reth {
    Reth { addr: at.addr.wrapping_add(offset), rkey: at.rkey, len_bytes }
}

fn atomic_eth(at: RemoteAddr, op: AtomicOp) -> AtomicEth {
    let (swap_or_add, compare) = match op {
        AtomicOp::CompareSwap { compare, swap } => (swap, compare),
        AtomicOp::FetchAdd { add } => (add, 0),
    };
    AtomicEth { addr: at.addr, rkey: at.rkey, swap_or_add, compare }
}

/// The number of the packet with `psn` within its WQE.
pub(in crate::rc) fn packet_number(wqe: &SendWqe, psn: Psn) -> u32 {
    psn.distance(wqe.first_psn).max(0) as u32
}

fn opcode(op: &SendOp, first: bool, last: bool) -> Opcode {
    let pick = |only, start, middle, end| match (first, last) {
        (true, true) => only,
        (true, false) => start,
        (false, false) => middle,
        (false, true) => end,
    };
    use Opcode as O;
    match op {
        SendOp::Send => pick(O::RC_SEND_ONLY, O::RC_SEND_FIRST, O::RC_SEND_MIDDLE, O::RC_SEND_LAST),
        SendOp::SendImm(_) => pick(O::RC_SEND_ONLY_IMM, O::RC_SEND_FIRST, O::RC_SEND_MIDDLE, O::RC_SEND_LAST_IMM),
        SendOp::SendInvalidate(_) => {
            pick(O::RC_SEND_ONLY_INVALIDATE, O::RC_SEND_FIRST, O::RC_SEND_MIDDLE, O::RC_SEND_LAST_INVALIDATE)
        }
        SendOp::Write(_) => pick(O::RC_WRITE_ONLY, O::RC_WRITE_FIRST, O::RC_WRITE_MIDDLE, O::RC_WRITE_LAST),
        SendOp::WriteImm(..) => pick(O::RC_WRITE_ONLY_IMM, O::RC_WRITE_FIRST, O::RC_WRITE_MIDDLE, O::RC_WRITE_LAST_IMM),
        SendOp::Read(_) => O::RC_READ_REQUEST,
        SendOp::Atomic(_, AtomicOp::CompareSwap { .. }) => O::RC_COMPARE_SWAP,
        SendOp::Atomic(_, AtomicOp::FetchAdd { .. }) => O::RC_FETCH_ADD,
        SendOp::AtomicWrite(_) => O::RC_ATOMIC_WRITE,
        SendOp::Flush { .. } => O::RC_FLUSH,
        SendOp::LocalInvalidate(_) | SendOp::Bind(_) => unreachable!("local operations have no packets"),
    }
}
