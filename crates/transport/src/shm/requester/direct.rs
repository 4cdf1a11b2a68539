//! One-sided operations that this processor executes in the peer's memory.

use super::frames::set_notice_fields;
use super::*;
use crate::shm::path::DirectOutcome;

impl ShmRequester {
    /// Executes the WRITE at the head of the queue.
    #[inline]
    pub(super) fn write(
        &mut self,
        core: &mut QpCore,
        remote: RemoteAddr,
        host: &mut impl Host,
    ) -> Result<(), ShmError> {
        self.write_direct(core, remote, host)?;
        self.record_head(core, DirectOutcome::Done, host);
        self.complete(core, host);
        Ok(())
    }

    #[inline]
    pub(super) fn write_direct<H: Host>(
        &mut self,
        core: &mut QpCore,
        remote: RemoteAddr,
        host: &H,
    ) -> Result<(), ShmError> {
        let wqe = self.current(&core.sq);
        if self.sent_bytes > 0 {
            return Err(ShmError::NeedsFrame);
        }
        path(host)?.write(host.memory(), core.pd, &wqe.payload, remote)?;
        core.counters.tx_packets += 1;
        core.counters.tx_bytes += u64::from(wqe.len_bytes);
        Ok(())
    }

    /// Executes a WRITE, and sends a notice that uses a receive WQE.
    pub(super) fn write_imm(
        &mut self,
        core: &mut QpCore,
        ack: u32,
        remote: RemoteAddr,
        host: &mut impl Host,
    ) -> Result<(), ShmError> {
        if !core.sq.head().is_some_and(|wqe| wqe.executed) {
            self.write_direct(core, remote, host)?;
            if let Some(wqe) = core.sq.get_mut(0) {
                wqe.executed = true;
            }
            self.begun = self.begun.max(1);
        }
        let wqe = self.current(&core.sq);
        let mut head = self.head(core, FrameKind::Notice, ack);
        head.len_bytes = wqe.len_bytes;
        set_notice_fields(&mut head, wqe);
        head.flags |= FrameFlags::FIRST | FrameFlags::LAST;
        path(host)?.send(host.memory(), &head, &[], SendBody::Bytes(&[]))?;
        self.record(core, wqe, DirectOutcome::NoticeSent(head.request), host);
        self.mark_issued();
        Ok(())
    }

    /// Executes a READ, or asks the peer for it.
    #[inline]
    pub(super) fn read(
        &mut self,
        core: &mut QpCore,
        ack: u32,
        remote: RemoteAddr,
        host: &mut impl Host,
    ) -> Result<(), ShmError> {
        let wqe = self.current(&core.sq);
        let Payload::Sgl(sgl) = &wqe.payload else { return Err(ShmError::Local(MemoryError::NoPermission)) };
        match path(host)?.read(host.memory(), core.pd, sgl, wqe.len_bytes, remote) {
            Ok(()) => {
                self.record(core, wqe, DirectOutcome::Done, host);
                self.complete(core, host);
                Ok(())
            }
            Err(ShmError::NeedsFrame) => self.ask_for_read(core, ack, remote, host),
            Err(error) => Err(error),
        }
    }

    /// Executes an atomic, ATOMIC WRITE or FLUSH, or asks the peer for it.
    #[inline]
    pub(super) fn remote_op(&mut self, core: &mut QpCore, ack: u32, host: &mut impl Host) -> Result<(), ShmError> {
        let wqe = self.current(&core.sq);
        let value = atomic_write_value(core.pd, wqe, host)?;
        let Some((remote_op, rkey)) = RemoteOp::of(&wqe.op, value) else { return Err(ShmError::NotReady) };
        match path(host)?.remote_op(host.memory(), &remote_op, rkey) {
            Ok(before) => {
                self.record(core, wqe, DirectOutcome::Value(before), host);
                self.complete_with(core, before, host)
            }
            Err(ShmError::NeedsFrame) => {
                let mut head = self.head(core, FrameKind::RemoteOp, ack);
                head.value = rkey.0;
                head.flags = FrameFlags::FIRST | FrameFlags::LAST;
                let bytes: [u8; REMOTE_OP_BYTES] = remote_op.encode();
                path(host)?.send(host.memory(), &head, &bytes, SendBody::Bytes(&[]))?;
                self.pending = PendingAnswer::Result;
                self.mark_issued();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Completes the head, with the result of an atomic.
    pub(super) fn complete_with(
        &mut self,
        core: &mut QpCore,
        before: u64,
        host: &mut impl Host,
    ) -> Result<(), ShmError> {
        let wqe = self.current(&core.sq);
        if let (SendOp::Atomic(..), Payload::Sgl(sgl)) = (&wqe.op, &wqe.payload) {
            host.memory().scatter(core.pd, sgl, 0, &before.to_ne_bytes()).map_err(ShmError::Local)?;
        }
        self.complete(core, host);
        Ok(())
    }
}

/// The eight bytes of an ATOMIC WRITE.
pub(super) fn atomic_write_value<H: Host>(pd: PdId, wqe: &SendWqe, host: &H) -> Result<[u8; 8], ShmError> {
    let mut value = [0; 8];
    if matches!(wqe.op, SendOp::AtomicWrite(_)) {
        match &wqe.payload {
            Payload::Inline(bytes) if bytes.len() == 8 => value.copy_from_slice(bytes),
            Payload::Sgl(sgl) => host.memory().gather(pd, sgl, 0, &mut value).map_err(ShmError::Local)?,
            Payload::Inline(_) => return Err(ShmError::Local(MemoryError::OutOfBounds)),
        }
    }
    Ok(value)
}
