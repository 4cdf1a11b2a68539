//! Duplicate requests.

use wire::{Operation, Packet, Psn};

use super::RcResponder;
use super::reads_atomics::response_packets;
use crate::drop::DropReason;
use crate::host::Host;
use crate::qp_core::QpCore;
use crate::rc::response::Response;

impl RcResponder {
    /// Answers again what was answered before (9.7.5.1.4); nothing is executed twice.
    pub(super) fn handle_duplicate(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        core.counters.duplicate_requests += 1;
        match packet.info().operation {
            Operation::ReadRequest => self.repeat_read(core, packet, host),
            Operation::CompareSwap | Operation::FetchAdd => self.repeat_atomic(packet.psn()),
            Operation::ObjectRead | Operation::Call => self.repeat_reply(core, packet.psn()),
            Operation::AtomicWrite | Operation::Flush => self.repeat_empty(core, packet.psn()),
            _ if self.reorder.is_some() && !self.receiver_not_ready => {
                self.push_sack(core);
                Ok(())
            }
            _ => {
                self.responses.acknowledge(self.expected.sub(1), self.msn);
                Ok(())
            }
        }
    }

    fn repeat_read(&mut self, core: &mut QpCore, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), DropReason> {
        let reth = packet.reth().ok_or(DropReason::StaleDuplicate)?;
        if core.is_xrc() && self.target.check_xrc_srq(packet, host).is_err() {
            return Err(DropReason::StaleDuplicate);
        }
        let psn = packet.psn();
        let packets = response_packets(core, reth.len_bytes);
        let executed = i64::from(self.expected.distance(psn)) >= i64::from(packets);
        if !executed || self.repeats_too_many(core) || self.check_read(core, &reth, host).is_err() {
            return Err(DropReason::StaleDuplicate);
        }
        let end = psn.add(packets);
        self.responses.repeat_data(Response::Read(self.read_job(psn, end, &reth)), end);
        Ok(())
    }

    fn repeat_atomic(&mut self, psn: Psn) -> Result<(), DropReason> {
        let kept = self.atomics.iter().find(|(kept, _)| *kept == psn);
        let (psn, original) = *kept.ok_or(DropReason::StaleDuplicate)?;
        let response = Response::Atomic { psn, msn: self.msn, original, repeated: true };
        self.responses.repeat_data(response, psn.next());
        Ok(())
    }

    /// It was executed; the response says no more than that.
    fn repeat_empty(&mut self, core: &QpCore, psn: Psn) -> Result<(), DropReason> {
        if self.repeats_too_many(core) {
            return Err(DropReason::StaleDuplicate);
        }
        self.responses.repeat_data(self.empty_response(psn), psn.next());
        Ok(())
    }

    pub(super) fn repeats_too_many(&self, core: &QpCore) -> bool {
        self.responses.repeats() > usize::from(core.attr.max_dest_rd_atomic)
    }
}
