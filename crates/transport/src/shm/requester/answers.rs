//! The peer's answers: ACKs, NAKs, data.

use super::*;

impl ShmRequester {
    /// The peer has executed every request before `upto`.
    pub(crate) fn acknowledge(&mut self, core: &mut QpCore, upto: u32, host: &mut impl Host) -> Result<(), DropReason> {
        let count = upto.wrapping_sub(self.una) as usize;
        if count == 0 || is_before(upto, self.una) {
            return Ok(());
        }
        let answered = if self.pending == PendingAnswer::Nothing { self.issued } else { 0 };
        if count > answered {
            return Err(DropReason::GhostResponse);
        }
        for _ in 0..count {
            core.complete_head(host);
        }
        self.una = upto;
        self.issued -= count;
        self.begun = self.begun.saturating_sub(count);
        self.wait.progress();
        Ok(())
    }

    /// A NAK of whatever kind for one of our requests; those before it are acknowledged.
    pub(crate) fn handle_nak(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let index = head.request.wrapping_sub(self.una) as usize;
        let is_uc = core.qp_type == QpType::Uc;
        let is_known = match head.kind {
            // A request that was sent again meanwhile is answered again. This tells nothing of those before it.
            FrameKind::NotReady => is_uc || head.code == 0 || head.code == self.attempt,
            FrameKind::RnrNak | FrameKind::Nak => !is_uc,
            _ => true,
        };
        if index >= self.issued + usize::from(self.sent_bytes > 0) || !is_known {
            return Err(DropReason::GhostResponse);
        }
        if head.kind == FrameKind::NotReady && !is_uc {
            self.not_ready(core, host);
            return Ok(());
        }
        self.acknowledge(core, head.request, host)?;
        match head.kind {
            FrameKind::NotReady => self.lose(core, host),
            FrameKind::SendCopies => {
                self.copies = COPIES;
                self.rewind();
            }
            FrameKind::RnrNak => self.receiver_not_ready(core, head.code, host),
            _ => {
                core.counters.rx_error_naks += 1;
                self.rewind();
                self.failure = Some(QpFailure::SendQueue(Reason::PeerRefused(nak_code(head.code))));
            }
        }
        Ok(())
    }

    /// UC: the oldest message that was begun is lost.
    pub(super) fn lose(&mut self, core: &mut QpCore, host: &mut impl Host) {
        core.counters.messages_dropped += 1;
        match self.issued {
            0 => self.sent_bytes = 0,
            _ => self.issued -= 1,
        }
        self.una = self.una.wrapping_add(1);
        self.complete(core, host);
    }

    /// UC: all messages that were begun are lost.
    pub(super) fn lose_begun(&mut self, core: &mut QpCore, host: &mut impl Host) {
        while self.issued > 0 || self.sent_bytes > 0 {
            self.lose(core, host);
        }
    }

    pub(super) fn receiver_not_ready(&mut self, core: &mut QpCore, code: u16, host: &impl Host) {
        core.counters.rx_rnr_naks += 1;
        self.rewind();
        let limit = core.attr.rnr_retry;
        let retries = self.wait.for_receiver(now(host), wire::rnr_timer((code & 0x1f) as u8));
        if limit != RNR_RETRY_FOREVER && retries > limit {
            self.failure = Some(QpFailure::SendQueue(Reason::ReceiverNotReady { retries: limit }));
        }
    }

    /// A part of the answer to a READ.
    pub(crate) fn handle_data<H: Host>(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), DropReason> {
        let (PendingAnswer::Data { received }, true) = (self.pending, head.request == self.una) else {
            return Err(DropReason::GhostResponse);
        };
        let wqe = core.sq.head().ok_or(DropReason::GhostResponse)?;
        let Payload::Sgl(sgl) = &wqe.payload else { return Err(DropReason::BadResponse) };
        let len = body.len_bytes(0);
        let ends = head.flags.contains(FrameFlags::LAST);
        let fits = len <= wqe.len_bytes - received && ends == (received + len == wqe.len_bytes);
        if !fits {
            self.rewind();
            self.failure = Some(QpFailure::SendQueue(Reason::BadResponse));
            return Err(DropReason::BadResponse);
        }
        if let Err(error) = body.scatter(host.memory(), 0, core.pd, sgl, u64::from(received)) {
            self.rewind();
            self.failure = Some(QpFailure::SendQueue(local_reason(error)));
            return Ok(());
        }
        self.pending = PendingAnswer::Data { received: received + len };
        if ends {
            self.answered(core, host);
        }
        Ok(())
    }

    /// Takes the result of a remote operation.
    pub(crate) fn handle_result<H: Host>(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), DropReason> {
        if self.pending != PendingAnswer::Result || head.request != self.una {
            return Err(DropReason::GhostResponse);
        }
        let mut before = [0; 8];
        body.front(&mut before);
        self.pending = PendingAnswer::Nothing;
        self.issued = 0;
        match self.complete_with(core, u64::from_le_bytes(before), host) {
            Ok(()) => self.una = self.una.wrapping_add(1),
            Err(error) => self.failure = Some(QpFailure::SendQueue(local_reason(error))),
        }
        Ok(())
    }

    /// Completes the head, whose answer is complete.
    pub(super) fn answered(&mut self, core: &mut QpCore, host: &mut impl Host) {
        self.pending = PendingAnswer::Nothing;
        self.issued = 0;
        self.una = self.una.wrapping_add(1);
        self.complete(core, host);
    }
}

/// Whether a number lies before another; they wrap.
#[inline]
pub(super) fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

pub(super) fn local_reason(error: ShmError) -> Reason {
    match error {
        ShmError::Local(error) => Reason::LocalMemory(error),
        _ => Reason::BadResponse,
    }
}
