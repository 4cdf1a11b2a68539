//! One request packet from its WQE.

use wire::{AtomicEth, Bth, Feth, Ieth, ImmDt, Mark, ObjectEth, Opcode, Psn, Reth, XrcEth};

use crate::host::Host;
use crate::memory::{AtomicOp, MemoryError};
use crate::packet::PacketBuilder;
use crate::qp_core::QpCore;
use crate::queue::send::SendWqe;
use crate::rc::response::PiggybackAck;
use crate::wr::{Payload, RemoteAddr, SendFlags, SendOp};

/// The place of a packet in the send queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendCursor {
    /// Index of the WQE in the send queue.
    pub(super) wqe: usize,
    /// Number of the packet within it.
    pub(super) packet: u32,
}

/// One request packet: its place, its PSN, and the fields that do not come from its WQE.
pub(super) struct RequestPart {
    pub(super) cursor: SendCursor,
    /// PSNs that it takes.
    pub(super) step: u32,
    pub(super) psn: Psn,
    pub(super) ack_req: bool,
    /// The ACK that it carries.
    pub(super) piggyback_ack: Option<PiggybackAck>,
}

/// Writes the packet to `out` and returns its length. `mark` is the requester's mark of selective retransmission.
pub(super) fn build_request(
    core: &QpCore,
    mark: Mark,
    part: &RequestPart,
    out: &mut [u8],
    host: &impl Host,
) -> Result<usize, MemoryError> {
    let RequestPart { cursor, step, psn, ack_req, piggyback_ack } = *part;
    let wqe = core.sq.get(cursor.wqe).expect("the cursor points into the send queue");
    let first = wqe.as_single_writes || cursor.packet == 0;
    let last = wqe.as_single_writes || cursor.packet + step == wqe.packets;
    let opcode = opcode(&wqe.op, first, last);
    let with_ack = piggyback_ack.and_then(|piggyback_ack| Some((opcode.with_acknowledge()?, piggyback_ack)));
    let (opcode, piggyback_ack) = with_ack.map_or((opcode, None), |(both, piggyback_ack)| (both, Some(piggyback_ack)));
    let solicited = last && wqe.flags.contains(SendFlags::SOLICITED) && wqe.op.uses_recv();
    let bth = Bth { psn, ack_req, solicited, mark, ..core.bth(opcode) };
    let mut builder = PacketBuilder::new(out, bth);
    if core.is_xrc() {
        builder.push(XrcEth { srq: wqe.xrc_srq }.encode());
    }
    let offset = u64::from(cursor.packet) * u64::from(core.mtu());
    let rest = wqe.len_bytes - offset as u32;
    push_headers(&mut builder, wqe, offset, rest.min(step.saturating_mul(core.mtu())), first, last);
    if let Some(piggyback_ack) = piggyback_ack {
        builder.push(piggyback_ack.piggyback.encode());
        builder.push(piggyback_ack.cookie.encode());
    }
    if let Payload::Call(call) = &wqe.payload {
        builder.gather(host.memory(), core.pd, &wqe.payload, 0, call.request.len())?;
    }
    if !wqe.op.has_result() {
        builder.gather(host.memory(), core.pd, &wqe.payload, offset, rest.min(core.mtu()) as usize)?;
    }
    Ok(builder.finish())
}

/// Extension headers in wire order. `part_bytes` is what a READ request asks for, or a piece of a WRITE has.
fn push_headers(builder: &mut PacketBuilder<'_>, wqe: &SendWqe, offset: u64, part_bytes: u32, first: bool, last: bool) {
    match wqe.op {
        SendOp::Write(to) if wqe.as_single_writes => builder.push(reth(to, offset, part_bytes).encode()),
        SendOp::Write(to) | SendOp::WriteImm(to, _) if first => builder.push(reth(to, 0, wqe.len_bytes).encode()),
        SendOp::Read(from) => builder.push(reth(from, offset, part_bytes).encode()),
        SendOp::ObjectRead(from, lock_mask) => {
            builder.push(reth(from, 0, wqe.len_bytes).encode());
            builder.push(ObjectEth { lock_mask }.encode());
        }
        SendOp::Call(to) => builder.push(reth(to, 0, wqe.len_bytes).encode()),
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
pub(super) fn packet_number(wqe: &SendWqe, psn: Psn) -> u32 {
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
        SendOp::ObjectRead(..) => O::OBJECT_READ,
        SendOp::Call(_) => O::CALL,
        SendOp::Atomic(_, AtomicOp::CompareSwap { .. }) => O::RC_COMPARE_SWAP,
        SendOp::Atomic(_, AtomicOp::FetchAdd { .. }) => O::RC_FETCH_ADD,
        SendOp::AtomicWrite(_) => O::RC_ATOMIC_WRITE,
        SendOp::Flush { .. } => O::RC_FLUSH,
        SendOp::LocalInvalidate(_) | SendOp::Bind(_) => unreachable!("local operations have no packets"),
    }
}
