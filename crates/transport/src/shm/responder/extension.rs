//! Requests of Longarm's own that a reply answers (docs/extensions.md).

use super::requests::{check_allowed, count};
use super::*;
use crate::limits::OBJECT_BYTES;

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

    fn reply(&mut self, core: &QpCore, head: &FrameHead, bytes: Vec<u8>) {
        let len_bytes = bytes.len() as u32;
        let reply = FrameHead { request: head.request, len_bytes, ..head_to_peer(core, FrameKind::Reply) };
        self.reply = Some((reply, bytes));
        self.expected = self.expected.wrapping_add(1);
    }
}
