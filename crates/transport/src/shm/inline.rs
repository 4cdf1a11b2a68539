//! One-sided operations that are executed while they are posted, and never enter the queue.
//!
//! This is the usual case: the queue is empty, no ACK is awaited, and the peer's memory is mapped. After an error the
//! request enters the queue, fails there and gets its status. A captured connection always uses the queue, which
//! reports each request to the capture.

use super::path::ShmPath;
use super::remote_op::RemoteOp;
use super::requester::{ShmRequester, path};
use crate::attr::QpState;
use crate::completion::Completion;
use crate::host::{CqSide, Host};
use crate::memory::Memory;
use crate::qp_core::QpCore;
use crate::reason::Reason;
use crate::wr::{Payload, SendFlags, SendOp, SendWr};

impl ShmRequester {
    /// Executes a checked request, if that is possible at once. True if it needs no place in the queue.
    #[inline]
    pub(crate) fn execute_inline<H: Host>(&mut self, core: &mut QpCore, wr: &SendWr, host: &mut H) -> bool {
        if !core.sq.is_empty() || core.state() != QpState::Rts || !self.is_idle() {
            return false;
        }
        let Ok(to_peer) = path(host) else { return false };
        if to_peer.is_recorded() {
            return false;
        }
        let done = match (&wr.op, &wr.payload) {
            (SendOp::Write(remote), payload) => to_peer.write(host.memory(), core.pd, payload, *remote).is_ok(),
            (SendOp::Read(remote), Payload::Sgl(sgl)) => {
                to_peer.read(host.memory(), core.pd, sgl, wr.payload.len_bytes() as u32, *remote).is_ok()
            }
            (SendOp::Atomic(remote, op), Payload::Sgl(sgl)) => {
                match to_peer.remote_op(host.memory(), &RemoteOp::Atomic(remote.addr, *op), remote.rkey) {
                    Err(_) => false,
                    Ok(before) => match host.memory().scatter(core.pd, sgl, 0, &before.to_ne_bytes()) {
                        Ok(()) => true,
                        Err(refused) => {
                            // It was executed, and must not be executed again.
                            core.sq.push(wr.clone(), 1);
                            self.block(Reason::LocalMemory(refused));
                            return true;
                        }
                    },
                }
            }
            _ => false,
        };
        if done {
            self.wait.progress();
            note_done(core, wr, host);
        }
        done
    }
}

#[inline]
fn note_done(core: &mut QpCore, wr: &SendWr, host: &mut impl Host) {
    let len_bytes = wr.payload.len_bytes() as u32;
    core.counters.tx_packets += 1;
    if matches!(wr.op, SendOp::Write(_)) {
        core.counters.tx_bytes += u64::from(len_bytes);
    }
    if core.signal_all || wr.flags.contains(SendFlags::SIGNALED) {
        let completion = Completion::success(wr.wr_id, core.qpn, wr.op.completion_op(), len_bytes);
        host.complete(CqSide::Send, completion);
    }
}
