//! One-sided requests that are done while they are posted, and never enter the queue.
//!
//! Nothing is before them, nothing is waited for, and the peer's memory is mapped: the usual case.
//! Whatever does not go well here is tried again from the queue, where it gets its error. And whatever somebody
//! records goes through the queue, where it is told of.

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
    /// Carries a checked request out, if it can be done at once. True if it is done with.
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
                            // It was done, and must not be done again.
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
