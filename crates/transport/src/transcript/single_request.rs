//! Requests of one packet: READ, atomics, ATOMIC WRITE, FLUSH.

use wire::{AtomicEth, Extensions, Feth, FlushLevel, FlushPlacement, ObjectEth, Opcode, RKey, Reth};

use super::psn_tracker::ExpectedResponse;
use crate::memory::{Access, AtomicOp};
use crate::shm::remote_op::RemoteOp;
use crate::wr::RemoteAddr;

/// One request packet, but for its numbers.
#[derive(Debug)]
pub(super) struct SingleRequest {
    pub(super) opcode: Opcode,
    pub(super) extensions: Extensions,
    /// The eight bytes of an ATOMIC WRITE.
    pub(super) payload: Option<[u8; 8]>,
    pub(super) answer: ExpectedResponse,
}

impl SingleRequest {
    pub(super) fn read(from: RemoteAddr, len_bytes: u32) -> SingleRequest {
        let extensions = Extensions { reth: Some(reth(from, len_bytes)), ..Extensions::default() };
        SingleRequest {
            opcode: Opcode::RC_READ_REQUEST,
            extensions,
            payload: None,
            answer: ExpectedResponse::Data(len_bytes),
        }
    }

    /// A READ of an object at one moment.
    pub(super) fn object(from: RemoteAddr, len_bytes: u32, lock_mask: u64) -> SingleRequest {
        let (reth, object) = (Some(reth(from, len_bytes)), Some(ObjectEth { lock_mask }));
        SingleRequest {
            opcode: Opcode::OBJECT_READ,
            extensions: Extensions { reth, object, ..Extensions::default() },
            payload: None,
            answer: ExpectedResponse::Reply(len_bytes),
        }
    }

    pub(super) fn remote_op(remote_op: &RemoteOp, rkey: RKey) -> SingleRequest {
        match *remote_op {
            RemoteOp::Atomic(addr, op) => atomic(RemoteAddr { addr, rkey }, op),
            RemoteOp::Write(addr, value) => {
                let extensions = Extensions { reth: Some(reth(RemoteAddr { addr, rkey }, 8)), ..Extensions::default() };
                SingleRequest {
                    opcode: Opcode::RC_ATOMIC_WRITE,
                    extensions,
                    payload: Some(value),
                    answer: ExpectedResponse::Empty,
                }
            }
            RemoteOp::Flush { range, access } => flush(range, access, rkey),
        }
    }
}

fn atomic(at: RemoteAddr, op: AtomicOp) -> SingleRequest {
    let (opcode, swap_or_add, compare) = match op {
        AtomicOp::CompareSwap { compare, swap } => (Opcode::RC_COMPARE_SWAP, swap, compare),
        AtomicOp::FetchAdd { add } => (Opcode::RC_FETCH_ADD, add, 0),
    };
    let atomic_eth = AtomicEth { addr: at.addr, rkey: at.rkey, swap_or_add, compare };
    let extensions = Extensions { atomic_eth: Some(atomic_eth), ..Extensions::default() };
    SingleRequest { opcode, extensions, payload: None, answer: ExpectedResponse::Value }
}

fn flush(range: Option<(u64, u64)>, access: Access, rkey: RKey) -> SingleRequest {
    let mut placement = FlushPlacement::empty();
    placement.set(FlushPlacement::GLOBAL, access.contains(Access::FLUSH_GLOBAL));
    placement.set(FlushPlacement::PERSISTENT, access.contains(Access::FLUSH_PERSISTENT));
    let level = if range.is_some() { FlushLevel::RANGE } else { FlushLevel::MR };
    let (addr, len_bytes) = range.unwrap_or_default();
    let extensions = Extensions {
        feth: Some(Feth { placement, level }),
        reth: Some(reth(RemoteAddr { addr, rkey }, len_bytes as u32)),
        ..Extensions::default()
    };
    SingleRequest { opcode: Opcode::RC_FLUSH, extensions, payload: None, answer: ExpectedResponse::Empty }
}

pub(super) fn reth(at: RemoteAddr, len_bytes: u32) -> Reth {
    Reth { addr: at.addr, rkey: at.rkey, len_bytes }
}
