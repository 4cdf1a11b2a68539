//! One step for each operation. This processor executes it in the peer's memory, or a frame carries it to the peer.

use super::record::{record, record_head};
use super::*;
use crate::shm::path::DirectOutcome;

/// The part of a message that has not left.
struct MessageRest<'a> {
    wqe: &'a SendWqe,
    /// Its place in the message, in bytes.
    offset: u32,
    /// Whether a frame may name the bytes instead of carrying them.
    may_lend: bool,
}

impl ShmRequester {
    /// One more frame of a SEND.
    #[inline]
    pub(super) fn send(&mut self, core: &mut QpCore, ack: u32, host: &mut impl Host) -> Result<(), ShmError> {
        let wqe = self.cursor.current(&core.sq);
        let mut head = self.cursor.head(core, FrameKind::Send, ack);
        head.len_bytes = wqe.len_bytes;
        set_notice_fields(&mut head, wqe);
        if self.cursor.sent_bytes() == 0 {
            head.flags |= FrameFlags::FIRST;
        }
        let rest = MessageRest { wqe, offset: self.cursor.sent_bytes(), may_lend: self.copies == 0 };
        let taken = send_rest(core, host, &head, &[], &rest)?;
        self.count_sent(core, taken);
        Ok(())
    }

    /// Sends a WRITE that the peer executes.
    pub(super) fn ask_for_write(&mut self, core: &mut QpCore, ack: u32, host: &mut impl Host) -> StepResult {
        match self.send_write_part(core, ack, host) {
            Ok(()) => StepResult::Done,
            Err(error) => self.handle_error(core, error, host),
        }
    }

    fn send_write_part(&mut self, core: &mut QpCore, ack: u32, host: &mut impl Host) -> Result<(), ShmError> {
        let wqe = self.cursor.current(&core.sq);
        let (SendOp::Write(remote) | SendOp::WriteImm(remote, _)) = wqe.op else { return Err(ShmError::NotReady) };
        let mut head = self.cursor.head(core, FrameKind::Write, ack);
        head.len_bytes = wqe.len_bytes;
        let immediate = set_notice_fields(&mut head, wqe);
        // The prefix carries address and key, since `value` may be the immediate data.
        let mut prefix = [0; WRITE_PREFIX_BYTES];
        prefix[..8].copy_from_slice(&remote.addr.wrapping_add(u64::from(self.cursor.sent_bytes())).to_le_bytes());
        prefix[8..12].copy_from_slice(&remote.rkey.0.to_le_bytes());
        head.value = immediate.unwrap_or(0);
        if self.cursor.sent_bytes() == 0 {
            head.flags |= FrameFlags::FIRST;
        }
        let rest = MessageRest { wqe, offset: self.cursor.sent_bytes(), may_lend: false };
        let taken = send_rest(core, host, &head, &prefix, &rest)?;
        self.count_sent(core, taken);
        Ok(())
    }

    fn ask_for_read(
        &mut self,
        core: &mut QpCore,
        ack: u32,
        remote: RemoteAddr,
        host: &impl Host,
    ) -> Result<(), ShmError> {
        let wqe = self.cursor.current(&core.sq);
        let mut head = self.cursor.head(core, FrameKind::Read, ack);
        head.len_bytes = wqe.len_bytes;
        head.value = remote.rkey.0;
        head.flags = FrameFlags::FIRST | FrameFlags::LAST;
        path(host)?.send(host.memory(), &head, &remote.addr.to_le_bytes(), SendBody::Bytes(&[]))?;
        self.cursor.pending = PendingAnswer::Data { received: 0 };
        self.mark_issued();
        Ok(())
    }

    /// Executes the WRITE at the head of the queue.
    #[inline]
    pub(super) fn write(
        &mut self,
        core: &mut QpCore,
        remote: RemoteAddr,
        host: &mut impl Host,
    ) -> Result<(), ShmError> {
        self.write_direct(core, remote, host)?;
        record_head(core, DirectOutcome::Done, host);
        self.complete(core, host);
        Ok(())
    }

    #[inline]
    fn write_direct<H: Host>(&mut self, core: &mut QpCore, remote: RemoteAddr, host: &H) -> Result<(), ShmError> {
        let wqe = self.cursor.current(&core.sq);
        if self.cursor.sent_bytes() > 0 {
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
            self.cursor.mark_begun();
        }
        let wqe = self.cursor.current(&core.sq);
        let mut head = self.cursor.head(core, FrameKind::Notice, ack);
        head.len_bytes = wqe.len_bytes;
        set_notice_fields(&mut head, wqe);
        head.flags |= FrameFlags::FIRST | FrameFlags::LAST;
        path(host)?.send(host.memory(), &head, &[], SendBody::Bytes(&[]))?;
        record(core, wqe, DirectOutcome::NoticeSent(head.request), host);
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
        let wqe = self.cursor.current(&core.sq);
        let Payload::Sgl(sgl) = &wqe.payload else { return Err(ShmError::Local(MemoryError::NoPermission)) };
        match path(host)?.read(host.memory(), core.pd, sgl, wqe.len_bytes, remote) {
            Ok(()) => {
                record(core, wqe, DirectOutcome::Done, host);
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
        let wqe = self.cursor.current(&core.sq);
        let value = atomic_write_value(core.pd, wqe, host)?;
        let Some((remote_op, rkey)) = RemoteOp::of(&wqe.op, value) else { return Err(ShmError::NotReady) };
        match path(host)?.remote_op(host.memory(), &remote_op, rkey) {
            Ok(before) => {
                record(core, wqe, DirectOutcome::Value(before), host);
                self.complete_with(core, before, host)
            }
            Err(ShmError::NeedsFrame) => {
                let mut head = self.cursor.head(core, FrameKind::RemoteOp, ack);
                head.value = rkey.0;
                head.flags = FrameFlags::FIRST | FrameFlags::LAST;
                let bytes: [u8; REMOTE_OP_BYTES] = remote_op.encode();
                path(host)?.send(host.memory(), &head, &bytes, SendBody::Bytes(&[]))?;
                self.cursor.pending = PendingAnswer::Result;
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
        let wqe = self.cursor.current(&core.sq);
        if let (SendOp::Atomic(..), Payload::Sgl(sgl)) = (&wqe.op, &wqe.payload) {
            host.memory().scatter(core.pd, sgl, 0, &before.to_ne_bytes()).map_err(ShmError::Local)?;
        }
        self.complete(core, host);
        Ok(())
    }

    /// Binds a window of ours or invalidates a key of ours.
    pub(super) fn local(&mut self, core: &mut QpCore, host: &mut impl Host) -> Result<(), ShmError> {
        let who = core.accessor();
        let wqe = self.cursor.current(&core.sq);
        let outcome = match &wqe.op {
            SendOp::Bind(bind) => host.memory().bind(who, bind).map_err(Reason::BindRefused),
            SendOp::LocalInvalidate(rkey) => host.memory().invalidate(who, *rkey).map_err(Reason::InvalidateRefused),
            _ => Ok(()),
        };
        match outcome {
            Ok(()) => core.complete_head(host),
            Err(reason) => self.blocked = Some(reason),
        }
        Ok(())
    }

    /// Counts bytes of the WQE that have left.
    #[inline]
    fn count_sent(&mut self, core: &mut QpCore, taken: u32) {
        core.counters.tx_packets += 1;
        core.counters.tx_bytes += u64::from(taken);
        self.sent_ack = true;
        if self.cursor.count_sent(&core.sq, taken) {
            self.copies = self.copies.saturating_sub(1);
        }
    }

    /// The head of the queue has left in one frame.
    pub(super) fn mark_issued(&mut self) {
        self.cursor.mark_issued();
        self.sent_ack = true;
    }
}

/// Sends as much of the rest of a message as a frame takes; returns the number of bytes.
#[inline]
fn send_rest<H: Host>(
    core: &QpCore,
    host: &H,
    head: &FrameHead,
    prefix: &[u8],
    rest: &MessageRest<'_>,
) -> Result<u32, ShmError> {
    let MessageRest { wqe, offset, may_lend } = *rest;
    let body = match &wqe.payload {
        Payload::Inline(bytes) => SendBody::Bytes(bytes.get(offset as usize..).unwrap_or_default()),
        Payload::Call(_) => return Err(ShmError::Local(MemoryError::NoPermission)),
        Payload::Sgl(sgl) => SendBody::List { pd: core.pd, sgl, offset, left_bytes: wqe.len_bytes - offset, may_lend },
    };
    path(host)?.send(host.memory(), head, prefix, body)
}

/// Sets the fields that the peer's completion shows; returns the immediate data.
#[inline]
fn set_notice_fields(head: &mut FrameHead, wqe: &SendWqe) -> Option<u32> {
    head.flags.set(FrameFlags::SOLICITED, wqe.flags.contains(SendFlags::SOLICITED));
    match wqe.op {
        SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => {
            head.flags |= FrameFlags::IMM;
            head.value = imm;
            Some(imm)
        }
        SendOp::SendInvalidate(rkey) => {
            head.flags |= FrameFlags::INVALIDATE;
            head.value = rkey.0;
            None
        }
        _ => None,
    }
}

/// The eight bytes of an ATOMIC WRITE.
fn atomic_write_value<H: Host>(pd: PdId, wqe: &SendWqe, host: &H) -> Result<[u8; 8], ShmError> {
    let mut value = [0; 8];
    if matches!(wqe.op, SendOp::AtomicWrite(_)) {
        match &wqe.payload {
            Payload::Inline(bytes) if bytes.len() == 8 => value.copy_from_slice(bytes),
            Payload::Sgl(sgl) => host.memory().gather(pd, sgl, 0, &mut value).map_err(ShmError::Local)?,
            Payload::Inline(_) | Payload::Call(_) => return Err(ShmError::Local(MemoryError::OutOfBounds)),
        }
    }
    Ok(value)
}
