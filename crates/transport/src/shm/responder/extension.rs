//! Requests of Longarm's own that a reply answers (docs/extensions.md).

use super::requests::{check_allowed, count};
use super::*;
use crate::call::{RemoteCallError, ReplyBytes};
use crate::limits::{OBJECT_BYTES, REPLY_BYTES};
use crate::shm::frame::CALL_PREFIX_BYTES;

impl ShmResponder {
    /// A READ of an object that the peer cannot reach: the body is the address and the mask.
    pub(super) fn execute_object_read<H: Host>(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), ShmRefusal> {
        check_allowed(core, Access::REMOTE_READ)?;
        if !OBJECT_BYTES.contains(&head.len_bytes) {
            return Err(ShmRefusal::Invalid("a READ of an object that is too short or too long"));
        }
        let mut front = [0; 16];
        body.front(&mut front);
        let [addr, lock_mask] = [0, 8].map(|at| u64::from_le_bytes(front[at..at + 8].try_into().unwrap_or_default()));
        let mut bytes = vec![0; head.len_bytes as usize];
        let read = host.memory().remote_read_object(core.accessor(), RKey(head.value), addr, lock_mask, &mut bytes);
        match read {
            Ok(len) => bytes.truncate(len),
            Err(MemoryError::Misaligned) => return Err(ShmRefusal::Invalid(MISALIGNED)),
            Err(error) => return Err(ShmRefusal::Access(error)),
        }
        count(core, 0);
        self.reply(core, head, bytes);
        Ok(())
    }

    /// A call: the body is the address and the request.
    pub(super) fn execute_call<H: Host>(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), ShmRefusal> {
        check_allowed(core, Access::REMOTE_CALL)?;
        let request_bytes = body.len_bytes(CALL_PREFIX_BYTES);
        let is_too_long = request_bytes > core.mtu() || head.len_bytes > REPLY_BYTES;
        if is_too_long || head.flags.contains(FrameFlags::LENT) {
            return Err(ShmRefusal::Invalid("a call whose request or reply is too long, or is not there"));
        }
        let mut front = vec![0; CALL_PREFIX_BYTES + request_bytes as usize];
        body.front(&mut front);
        let (addr, request) = front.split_at(CALL_PREFIX_BYTES);
        let addr = u64::from_le_bytes(addr.try_into().unwrap_or_default());
        let mut reply = ReplyBytes::new(head.len_bytes);
        let called = host.memory().remote_call(core.accessor(), RKey(head.value), addr, request, &mut reply);
        called.map_err(|error| match error {
            RemoteCallError::Refused(error) => ShmRefusal::Access(error),
            RemoteCallError::Panicked => ShmRefusal::CallPanicked,
        })?;
        count(core, request_bytes);
        self.reply(core, head, reply.into_bytes());
        Ok(())
    }

    fn reply(&mut self, core: &QpCore, head: &FrameHead, bytes: Vec<u8>) {
        let len_bytes = bytes.len() as u32;
        let reply = FrameHead { request: head.request, len_bytes, ..head_to_peer(core, FrameKind::Reply) };
        self.reply = Some((reply, bytes));
        self.expected = self.expected.wrapping_add(1);
    }
}
