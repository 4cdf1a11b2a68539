//! Requests of Longarm's own that a reply answers (docs/extensions.md).

use super::record::record_is_on;
use super::*;

/// Bytes in the body of a frame that asks for an object: its address and the mask of its lock.
const OBJECT_BODY_BYTES: usize = 16;

impl ShmRequester {
    /// Reads an object at one moment, or asks the peer for it. A capture shows what frames show.
    pub(super) fn object_read(
        &mut self,
        core: &mut QpCore,
        ack: u32,
        (remote, lock_mask): (RemoteAddr, u64),
        host: &mut impl Host,
    ) -> Result<(), ShmError> {
        let wqe = self.cursor.current(&core.sq);
        let Payload::Sgl(sgl) = &wqe.payload else { return Err(ShmError::Local(MemoryError::NoPermission)) };
        let read = match record_is_on(host) {
            true => Err(ShmError::NeedsFrame),
            false => path(host)?.read_object(host.memory(), core.pd, sgl, wqe.len_bytes, remote, lock_mask),
        };
        match read {
            Ok(len_bytes) => {
                self.complete_reply(core, len_bytes, host);
                Ok(())
            }
            Err(ShmError::NeedsFrame) => {
                let mut body = [0; OBJECT_BODY_BYTES];
                body[..8].copy_from_slice(&remote.addr.to_le_bytes());
                body[8..].copy_from_slice(&lock_mask.to_le_bytes());
                let mut head = self.cursor.head(core, FrameKind::ObjectRead, ack);
                (head.len_bytes, head.value) = (wqe.len_bytes, remote.rkey.0);
                head.flags = FrameFlags::FIRST | FrameFlags::LAST;
                path(host)?.send(host.memory(), &head, &body, SendBody::Bytes(&[]))?;
                self.cursor.pending = PendingAnswer::Reply;
                self.mark_issued();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Asks the peer's device to carry out a call.
    pub(super) fn call(
        &mut self,
        core: &mut QpCore,
        ack: u32,
        remote: RemoteAddr,
        host: &mut impl Host,
    ) -> Result<(), ShmError> {
        let wqe = self.cursor.current(&core.sq);
        let Payload::Call(call) = &wqe.payload else { return Err(ShmError::Local(MemoryError::NoPermission)) };
        let mut head = self.cursor.head(core, FrameKind::Call, ack);
        (head.len_bytes, head.value) = (wqe.len_bytes, remote.rkey.0);
        head.flags = FrameFlags::FIRST | FrameFlags::LAST;
        let request = SendBody::Bytes(&call.request);
        path(host)?.send(host.memory(), &head, &remote.addr.to_le_bytes(), request)?;
        self.cursor.pending = PendingAnswer::Reply;
        self.mark_issued();
        Ok(())
    }

    /// Takes the reply, which is one frame.
    pub(crate) fn handle_reply<H: Host>(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), DropReason> {
        if self.cursor.pending != PendingAnswer::Reply || !self.cursor.is_oldest(head.request) {
            return Err(DropReason::GhostResponse);
        }
        let wqe = core.sq.head().ok_or(DropReason::GhostResponse)?;
        let Some(sgl) = wqe.payload.result() else { return Err(DropReason::BadResponse) };
        let len_bytes = body.len_bytes(0);
        let outcome = match len_bytes <= wqe.len_bytes && head.flags.contains(FrameFlags::LAST) {
            true if len_bytes == 0 => Ok(()),
            true => body.scatter(host.memory(), 0, core.pd, sgl, 0),
            false => Err(ShmError::NotReady),
        };
        self.cursor.end_wait();
        match outcome {
            Ok(()) => {
                self.cursor.end_request();
                self.complete_reply(core, len_bytes, host);
            }
            Err(error) => {
                self.rewind();
                self.failure = Some(QpFailure::SendQueue(answers::local_reason(error)));
            }
        }
        Ok(())
    }

    /// Completes the head with the length of its reply.
    fn complete_reply(&mut self, core: &mut QpCore, len_bytes: u32, host: &mut impl Host) {
        if let Some(head) = core.sq.head_mut() {
            head.len_bytes = len_bytes;
        }
        self.complete(core, host);
    }
}
