//! One-sided operations that are executed while they are posted, and never enter the queue.
//!
//! This is the usual case: the queue is empty, no ACK is awaited, and the peer's memory is mapped. After an error the
//! request enters the queue, fails there and gets its status. A captured connection always uses the queue, which
//! reports each request to the capture.

use super::path::ShmPath;
use super::remote_op::RemoteOp;
use super::requester::path;
use crate::completion::Completion;
use crate::host::{CqSide, Host};
use crate::memory::{Memory, MemoryError};
use crate::qp_core::QpCore;
use crate::wr::{Payload, SendFlags, SendOp, SendWr};

/// The outcome of an attempt to execute a request at once.
pub(super) enum InlineOutcome {
    /// It must go through the queue.
    NotExecuted,
    /// It is executed, and has its completion.
    Done,
    /// It is executed, and its result has no place in our memory.
    ResultRefused(MemoryError),
}

/// Executes a checked request in the peer's memory, if it can be reached.
#[inline]
pub(super) fn execute<H: Host>(core: &mut QpCore, wr: &SendWr, host: &mut H) -> InlineOutcome {
    let Ok(to_peer) = path(host) else { return InlineOutcome::NotExecuted };
    if to_peer.is_recorded() {
        return InlineOutcome::NotExecuted;
    }
    let mut len_bytes = wr.payload.len_bytes() as u32;
    let done = match (&wr.op, &wr.payload) {
        (SendOp::Write(remote), payload) => to_peer.write(host.memory(), core.pd, payload, *remote).is_ok(),
        (SendOp::Read(remote), Payload::Sgl(sgl)) => {
            to_peer.read(host.memory(), core.pd, sgl, len_bytes, *remote).is_ok()
        }
        (SendOp::ObjectRead(remote, lock_mask), Payload::Sgl(sgl)) => {
            match to_peer.read_object(host.memory(), core.pd, sgl, len_bytes, *remote, *lock_mask) {
                Err(_) => false,
                Ok(result_bytes) => {
                    len_bytes = result_bytes;
                    true
                }
            }
        }
        (SendOp::Atomic(remote, op), Payload::Sgl(sgl)) => {
            match to_peer.remote_op(host.memory(), &RemoteOp::Atomic(remote.addr, *op), remote.rkey) {
                Err(_) => false,
                Ok(before) => match host.memory().scatter(core.pd, sgl, 0, &before.to_ne_bytes()) {
                    Ok(()) => true,
                    Err(refused) => return InlineOutcome::ResultRefused(refused),
                },
            }
        }
        _ => false,
    };
    if !done {
        return InlineOutcome::NotExecuted;
    }
    note_done(core, wr, len_bytes, host);
    InlineOutcome::Done
}

#[inline]
fn note_done(core: &mut QpCore, wr: &SendWr, len_bytes: u32, host: &mut impl Host) {
    core.counters.tx_packets += 1;
    if matches!(wr.op, SendOp::Write(_)) {
        core.counters.tx_bytes += u64::from(len_bytes);
    }
    if core.signal_all || wr.flags.contains(SendFlags::SIGNALED) {
        let completion = Completion::success(wr.wr_id, core.qpn, wr.op.completion_op(), len_bytes);
        host.complete(CqSide::Send, completion);
    }
}
