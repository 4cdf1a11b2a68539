//! WRITEs, and the checks of their range.

use wire::{Packet, RKey, Reth};

use super::{RcInbound, RcResponder};
use crate::completion::{Completion, CompletionOp};
use crate::host::Host;
use crate::limits::MAX_MESSAGE_BYTES;
use crate::memory::{Access, Memory, MemoryError};
use crate::qp_core::QpCore;
use crate::rc::refusal::RcRefusal;
use crate::rc::request_target::{check_packet_length, with_notice};
use crate::wr::RecvWr;

impl RcResponder {
    pub(super) fn execute_write(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), RcRefusal> {
        let (rkey, addr, left_bytes, total_bytes) = match (&self.inbound, packet.reth()) {
            (RcInbound::Write { rkey, addr, left_bytes, total_bytes }, _) => (*rkey, *addr, *left_bytes, *total_bytes),
            (_, Some(reth)) => match self.begin_write(core, &reth, host) {
                Err(refusal @ RcRefusal::Access(_)) if packet.imm().is_some() => {
                    self.take_recv_to_fail(core, host);
                    return Err(refusal);
                }
                begun => begun?,
            },
            _ => return Err(RcRefusal::Invalid("a WRITE without an address")),
        };
        check_packet_length(core, packet)?;
        let data = packet.payload();
        let ends = packet.info().ends_message();
        if data.len() as u64 > u64::from(left_bytes) || ends != (data.len() as u64 == u64::from(left_bytes)) {
            return Err(RcRefusal::Invalid("a WRITE whose packets do not add up to its length"));
        }
        let notice = match packet.imm() {
            Some(_) => Some(self.target.take_recv(core, host)?),
            None => None,
        };
        if !data.is_empty()
            && let Err(refused) = host.memory().remote_write(self.target.accessor(core), rkey, addr, data)
        {
            if let Some(wr) = notice {
                self.fail_with_message(wr);
            }
            return Err(RcRefusal::Access(refused));
        }
        self.inbound = match ends {
            true => RcInbound::None,
            false => RcInbound::Write {
                rkey,
                addr: addr.wrapping_add(data.len() as u64),
                left_bytes: left_bytes - data.len() as u32,
                total_bytes,
            },
        };
        if let Some(wr) = notice {
            let completion = Completion::success(wr.wr_id, core.qpn, CompletionOp::RecvWriteImm, total_bytes);
            self.target.complete(core, with_notice(completion, packet, core), host);
        }
        Ok(())
    }

    /// The peer may not write, and its WRITE is one packet with immediate data: a posted receive WQE completes with
    /// a local access error. (Whether a longer WRITE will use one is not known yet.)
    fn take_recv_to_fail(&mut self, core: &mut QpCore, host: &mut impl Host) {
        if let Ok(wr) = self.target.take_recv(core, host) {
            self.fail_with_message(wr);
        }
    }

    /// The receive WQE will complete with the reason, as that of a SEND.
    fn fail_with_message(&mut self, wr: RecvWr) {
        self.inbound = RcInbound::Send { wr, received: 0, capacity: 0 };
    }

    /// Checks the whole range of a WRITE at its first packet.
    fn begin_write(&self, core: &QpCore, reth: &Reth, host: &impl Host) -> Result<(RKey, u64, u32, u32), RcRefusal> {
        self.check_range(core, reth, Access::REMOTE_WRITE, host)?;
        Ok((reth.rkey, reth.addr, reth.len_bytes, reth.len_bytes))
    }

    pub(super) fn check_read(&self, core: &QpCore, reth: &Reth, host: &impl Host) -> Result<(), RcRefusal> {
        self.check_range(core, reth, Access::REMOTE_READ, host)
    }

    /// Checks right, length and, if there is any, the whole range of a WRITE or READ.
    fn check_range(&self, core: &QpCore, reth: &Reth, access: Access, host: &impl Host) -> Result<(), RcRefusal> {
        check_allowed(core, access)?;
        check_message_length(reth.len_bytes)?;
        if reth.len_bytes == 0 {
            return Ok(());
        }
        let len_bytes = u64::from(reth.len_bytes);
        let checked = host.memory().check_remote(self.target.accessor(core), reth.rkey, reth.addr, len_bytes, access);
        checked.map_err(RcRefusal::Access)
    }
}

pub(super) fn check_allowed(core: &QpCore, access: Access) -> Result<(), RcRefusal> {
    if core.attr.access.contains(access) { Ok(()) } else { Err(RcRefusal::Access(MemoryError::NoPermission)) }
}

fn check_message_length(len_bytes: u32) -> Result<(), RcRefusal> {
    if u64::from(len_bytes) <= MAX_MESSAGE_BYTES {
        Ok(())
    } else {
        Err(RcRefusal::Invalid("a message of more than 2^31 bytes"))
    }
}
