//! Requests that go to the peer as frames: SENDs, and operations that only the peer can execute.

use super::*;

impl ShmRequester {
    /// One more frame of a SEND.
    #[inline]
    pub(super) fn send(&mut self, core: &mut QpCore, ack: u32, host: &mut impl Host) -> Result<(), ShmError> {
        let wqe = self.current(&core.sq);
        let mut head = self.head(core, FrameKind::Send, ack);
        head.len_bytes = wqe.len_bytes;
        set_notice_fields(&mut head, wqe);
        if self.sent_bytes == 0 {
            head.flags |= FrameFlags::FIRST;
        }
        let taken = self.send_part(core, host, &head, &[], wqe)?;
        self.count_sent(core, taken);
        Ok(())
    }

    /// Sends as much of the rest of a message as a frame takes.
    #[inline]
    pub(super) fn send_part<H: Host>(
        &self,
        core: &QpCore,
        host: &H,
        head: &FrameHead,
        prefix: &[u8],
        wqe: &SendWqe,
    ) -> Result<u32, ShmError> {
        let offset = self.sent_bytes;
        let body = match &wqe.payload {
            Payload::Inline(bytes) => SendBody::Bytes(bytes.get(offset as usize..).unwrap_or_default()),
            Payload::Sgl(sgl) => SendBody::List {
                pd: core.pd,
                sgl,
                offset,
                left_bytes: wqe.len_bytes - offset,
                may_lend: self.copies == 0 && head.kind == FrameKind::Send,
            },
        };
        path(host)?.send(host.memory(), head, prefix, body)
    }

    /// Counts bytes of the WQE that have left.
    #[inline]
    pub(super) fn count_sent(&mut self, core: &mut QpCore, taken: u32) {
        core.counters.tx_packets += 1;
        core.counters.tx_bytes += u64::from(taken);
        self.sent_bytes += taken;
        self.sent_ack = true;
        self.begun = self.begun.max(self.issued + 1);
        if core.sq.get(self.issued).is_some_and(|wqe| self.sent_bytes >= wqe.len_bytes) {
            self.issued += 1;
            self.sent_bytes = 0;
            self.copies = self.copies.saturating_sub(1);
        }
    }

    /// The head of the queue has left in one frame.
    pub(super) fn mark_issued(&mut self) {
        self.issued = 1;
        self.begun = self.begun.max(1);
        self.sent_ack = true;
    }

    /// Sends a WRITE that the peer executes.
    pub(super) fn ask_for_write(&mut self, core: &mut QpCore, ack: u32, host: &mut impl Host) -> StepResult {
        match self.send_write_part(core, ack, host) {
            Ok(()) => StepResult::Done,
            Err(error) => self.handle_error(core, error, host),
        }
    }

    pub(super) fn send_write_part(
        &mut self,
        core: &mut QpCore,
        ack: u32,
        host: &mut impl Host,
    ) -> Result<(), ShmError> {
        let wqe = self.current(&core.sq);
        let (SendOp::Write(remote) | SendOp::WriteImm(remote, _)) = wqe.op else { return Err(ShmError::NotReady) };
        let mut head = self.head(core, FrameKind::Write, ack);
        head.len_bytes = wqe.len_bytes;
        let immediate = set_notice_fields(&mut head, wqe);
        // The prefix carries address and key, since `value` may be the immediate data.
        let mut prefix = [0; WRITE_PREFIX_BYTES];
        prefix[..8].copy_from_slice(&remote.addr.wrapping_add(u64::from(self.sent_bytes)).to_le_bytes());
        prefix[8..12].copy_from_slice(&remote.rkey.0.to_le_bytes());
        head.value = immediate.unwrap_or(0);
        if self.sent_bytes == 0 {
            head.flags |= FrameFlags::FIRST;
        }
        let taken = self.send_part(core, host, &head, &prefix, wqe)?;
        self.count_sent(core, taken);
        Ok(())
    }

    pub(super) fn ask_for_read(
        &mut self,
        core: &mut QpCore,
        ack: u32,
        remote: RemoteAddr,
        host: &impl Host,
    ) -> Result<(), ShmError> {
        let wqe = self.current(&core.sq);
        let mut head = self.head(core, FrameKind::Read, ack);
        head.len_bytes = wqe.len_bytes;
        head.value = remote.rkey.0;
        head.flags = FrameFlags::FIRST | FrameFlags::LAST;
        path(host)?.send(host.memory(), &head, &remote.addr.to_le_bytes(), SendBody::Bytes(&[]))?;
        self.pending = PendingAnswer::Data { received: 0 };
        self.mark_issued();
        Ok(())
    }
}

/// Sets the fields that the peer's completion shows; returns the immediate data.
#[inline]
pub(super) fn set_notice_fields(head: &mut FrameHead, wqe: &SendWqe) -> Option<u32> {
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
