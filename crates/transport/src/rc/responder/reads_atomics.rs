//! Requests that are answered by a response of their own: READ, atomics, ATOMIC WRITE, FLUSH.

use wire::{FlushLevel, FlushPlacement, Operation, Packet, Psn, Reth};

use super::write::check_allowed;
use super::{RcResponder, next_msn};
use crate::host::Host;
use crate::memory::{Access, AtomicOp, Memory, MemoryError};
use crate::qp_core::QpCore;
use crate::rc::refusal::RcRefusal;
use crate::rc::response::{ReadJob, Response};

/// Bytes that atomics work on.
const WORD_BYTES: u32 = 8;

impl RcResponder {
    pub(super) fn execute_read(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), RcRefusal> {
        let reth = packet.reth().ok_or(RcRefusal::Invalid("a READ without an address"))?;
        self.check_read(core, &reth, host)?;
        self.check_resources(core)?;
        let psn = self.expected;
        self.expected = psn.add(response_packets(core, reth.len_bytes));
        self.msn = next_msn(self.msn);
        self.responses.push_data(Response::Read(self.read_job(psn, self.expected, &reth)));
        Ok(())
    }

    pub(super) fn execute_atomic(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), RcRefusal> {
        let eth = packet.atomic_eth().ok_or(RcRefusal::Invalid("an atomic without an address"))?;
        check_allowed(core, Access::REMOTE_ATOMIC)?;
        self.check_resources(core)?;
        let op = match packet.info().operation {
            Operation::CompareSwap => AtomicOp::CompareSwap { compare: eth.compare, swap: eth.swap_or_add },
            _ => AtomicOp::FetchAdd { add: eth.swap_or_add },
        };
        let original =
            host.memory().remote_atomic(self.target.accessor(core), eth.rkey, eth.addr, op).map_err(|refused| {
                match refused {
                    MemoryError::Misaligned => {
                        RcRefusal::Invalid("an atomic at an address that is not a multiple of 8")
                    }
                    other => RcRefusal::Access(other),
                }
            })?;
        let psn = self.expected;
        self.expected = psn.next();
        self.msn = next_msn(self.msn);
        self.remember_atomic(core, psn, original);
        self.responses.push_data(Response::Atomic { psn, msn: self.msn, original, repeated: false });
        Ok(())
    }

    fn remember_atomic(&mut self, core: &QpCore, psn: Psn, original: u64) {
        if self.atomics.len() >= usize::from(core.attr.max_dest_rd_atomic.max(1)) {
            self.atomics.pop_front();
        }
        self.atomics.push_back((psn, original));
    }

    /// One store of eight bytes (Annex A19), with the rights of a WRITE.
    pub(super) fn execute_atomic_write(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), RcRefusal> {
        let reth = packet.reth().ok_or(RcRefusal::Invalid("an ATOMIC WRITE without an address"))?;
        check_allowed(core, Access::REMOTE_WRITE)?;
        self.check_resources(core)?;
        let value = <[u8; WORD_BYTES as usize]>::try_from(packet.payload());
        let (Ok(value), WORD_BYTES) = (value, reth.len_bytes) else {
            return Err(RcRefusal::Invalid("an ATOMIC WRITE of other than 8 bytes"));
        };
        let written = host.memory().remote_atomic_write(self.target.accessor(core), reth.rkey, reth.addr, value);
        written.map_err(|refused| match refused {
            MemoryError::Misaligned => RcRefusal::Invalid("an ATOMIC WRITE to an address that is not a multiple of 8"),
            other => RcRefusal::Access(other),
        })?;
        self.answer_without_data();
        Ok(())
    }

    /// All earlier requests have been executed already: FLUSH makes them visible.
    pub(super) fn execute_flush(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), RcRefusal> {
        let (Some(feth), Some(reth)) = (packet.feth(), packet.reth()) else {
            return Err(RcRefusal::Invalid("a FLUSH without its headers"));
        };
        let access = flush_rights(feth.placement)?;
        check_allowed(core, access)?;
        self.check_resources(core)?;
        let range = match feth.level {
            FlushLevel::RANGE => Some((reth.addr, u64::from(reth.len_bytes))),
            FlushLevel::MR => None,
            _ => return Err(RcRefusal::Invalid("a FLUSH of an unknown level")),
        };
        host.memory().remote_flush(self.target.accessor(core), reth.rkey, range, access).map_err(RcRefusal::Access)?;
        self.answer_without_data();
        Ok(())
    }

    /// A READ response of no bytes: done.
    fn answer_without_data(&mut self) {
        let psn = self.expected;
        self.expected = psn.next();
        self.msn = next_msn(self.msn);
        self.responses.push_data(self.empty_response(psn));
    }

    pub(super) fn empty_response(&self, psn: Psn) -> Response {
        Response::Read(self.read_job(psn, psn.next(), &Reth::default()))
    }

    /// READs and atomics beyond what was agreed are refused (9.7.4.1.3).
    pub(super) fn check_resources(&self, core: &QpCore) -> Result<(), RcRefusal> {
        if self.responses.outstanding() < usize::from(core.attr.max_dest_rd_atomic) {
            Ok(())
        } else {
            Err(RcRefusal::Invalid("more READs and atomics at once than max_dest_rd_atomic"))
        }
    }

    pub(super) fn read_job(&self, psn: Psn, end: Psn, reth: &Reth) -> ReadJob {
        ReadJob {
            psn,
            end,
            pd: self.target.pd,
            addr: reth.addr,
            rkey: reth.rkey,
            len_bytes: reth.len_bytes,
            msn: self.msn,
            fresh: true,
            repeated: false,
        }
    }
}

/// The rights that a FLUSH takes, one for each placement that it asks for.
fn flush_rights(placement: FlushPlacement) -> Result<Access, RcRefusal> {
    if placement.is_empty() || !FlushPlacement::all().contains(placement) {
        return Err(RcRefusal::Invalid("a FLUSH of an unknown placement"));
    }
    let mut access = Access::empty();
    access.set(Access::FLUSH_GLOBAL, placement.contains(FlushPlacement::GLOBAL));
    access.set(Access::FLUSH_PERSISTENT, placement.contains(FlushPlacement::PERSISTENT));
    Ok(access)
}

pub(super) fn response_packets(core: &QpCore, len_bytes: u32) -> u32 {
    len_bytes.div_ceil(core.mtu()).max(1)
}
