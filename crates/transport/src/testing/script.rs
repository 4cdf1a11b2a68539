//! The words that scripts of two queue pairs are written in.

use super::{Buffer, send_wr};
use crate::completion::Status;
use crate::memory::AtomicOp;
use crate::wr::{Payload, SendOp, SendWr};

/// Bytes that differ at every position of a message.
pub(crate) fn pattern(len_bytes: usize, seed: usize) -> Vec<u8> {
    (0..len_bytes).map(|i| (i * 31 + i / 256 * 7 + seed) as u8).collect()
}

pub(crate) fn payload(buffer: &Buffer) -> Payload {
    Payload::Sgl(buffer.sgl())
}

pub(crate) fn fetch_add(wr_id: u64, result: &Buffer, at: &Buffer, add: u64) -> SendWr {
    send_wr(wr_id, SendOp::Atomic(at.remote(0), AtomicOp::FetchAdd { add }), payload(result))
}

pub(crate) fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[..8].try_into().unwrap())
}

/// Everything that went well, in this order.
pub(crate) fn successes(wr_ids: impl IntoIterator<Item = u64>) -> Vec<(u64, Status)> {
    wr_ids.into_iter().map(|id| (id, Status::Success)).collect()
}
