//! Requests of Longarm's own that a reply answers (docs/extensions.md).

use wire::{Operation, Packet, Psn, Reth};

use super::reads_atomics::response_packets;
use super::write::check_allowed;
use super::{RcResponder, next_msn};
use crate::call::{RemoteCallError, ReplyBytes};
use crate::drop::DropReason;
use crate::host::Host;
use crate::limits::{OBJECT_BYTES, REPLY_BYTES};
use crate::memory::{Access, Memory, MemoryError};
use crate::qp_core::QpCore;
use crate::rc::refusal::RcRefusal;
use crate::rc::replies::KeptReply;
use crate::rc::request_target::check_packet_length;
use crate::rc::response::{ReplyJob, Response};

impl RcResponder {
    /// Executes a request and queues its reply, which is kept: a duplicate gets the same.
    pub(super) fn execute_extension(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), RcRefusal> {
        if !core.tuning.extensions {
            return Err(RcRefusal::Invalid("a request of an extension that is switched off here"));
        }
        let reth = packet.reth().ok_or(RcRefusal::Invalid("an extension's request without an address"))?;
        let bytes = match packet.info().operation {
            Operation::ObjectRead => self.read_object(core, packet, &reth, host)?,
            Operation::Call => self.call(core, packet, &reth, host)?,
            _ => return Err(RcRefusal::Invalid("an extension that is not known here")),
        };
        let start = self.expected;
        self.expected = start.add(response_packets(core, reth.len_bytes));
        self.msn = next_msn(self.msn);
        let reply = KeptReply { start, bytes: bytes.into() };
        let end = start.add(reply.packets(core.mtu()));
        self.replies.keep(reply, core.attr.max_dest_rd_atomic.into());
        self.responses.push_data(Response::Reply(ReplyJob { psn: start, end, start, msn: self.msn, repeated: false }));
        Ok(())
    }

    /// The object, or only its first word if a writer has it.
    fn read_object(
        &self,
        core: &QpCore,
        packet: &Packet<'_>,
        reth: &Reth,
        host: &mut impl Host,
    ) -> Result<Vec<u8>, RcRefusal> {
        let object = packet.object().ok_or(RcRefusal::Invalid("a READ of an object without a mask"))?;
        check_allowed(core, Access::REMOTE_READ)?;
        self.check_resources(core)?;
        if !OBJECT_BYTES.contains(&reth.len_bytes) {
            return Err(RcRefusal::Invalid("a READ of an object that is too short or too long"));
        }
        let mut bytes = vec![0; reth.len_bytes as usize];
        let who = self.target.accessor(core);
        let read = host.memory().remote_read_object(who, reth.rkey, reth.addr, object.lock_mask, &mut bytes);
        let len = read.map_err(|refused| match refused {
            MemoryError::Misaligned => RcRefusal::Invalid("an object at an address that is not a multiple of 8"),
            other => RcRefusal::Access(other),
        })?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// The reply of the region's handler. The program takes no part.
    fn call(
        &self,
        core: &QpCore,
        packet: &Packet<'_>,
        reth: &Reth,
        host: &mut impl Host,
    ) -> Result<Vec<u8>, RcRefusal> {
        check_packet_length(core, packet)?;
        check_allowed(core, Access::REMOTE_CALL)?;
        self.check_resources(core)?;
        if reth.len_bytes > REPLY_BYTES {
            return Err(RcRefusal::Invalid("a call with room for a reply that is too long"));
        }
        let mut reply = ReplyBytes::new(reth.len_bytes);
        let who = self.target.accessor(core);
        host.memory().remote_call(who, reth.rkey, reth.addr, packet.payload(), &mut reply).map_err(
            |error| match error {
                RemoteCallError::Refused(error) => RcRefusal::Access(error),
                RemoteCallError::Panicked => RcRefusal::CallPanicked,
            },
        )?;
        Ok(reply.into_bytes())
    }

    /// Sends a kept reply again, from the packet on that the peer asks for.
    pub(super) fn repeat_reply(&mut self, core: &QpCore, psn: Psn) -> Result<(), DropReason> {
        let mtu = core.mtu();
        let kept = self.replies.with_packet(psn, mtu).filter(|_| !self.repeats_too_many(core));
        let kept = kept.ok_or(DropReason::StaleDuplicate)?;
        let (start, end) = (kept.start, kept.start.add(kept.packets(mtu)));
        let job = ReplyJob { psn, end, start, msn: self.msn, repeated: true };
        self.responses.repeat_data(Response::Reply(job), end);
        Ok(())
    }
}
