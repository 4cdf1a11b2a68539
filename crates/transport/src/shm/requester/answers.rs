//! The peer's answers: ACKs, NAKs, data.

use super::*;

impl ShmRequester {
    /// The peer has executed every request before `upto`.
    pub(crate) fn acknowledge(&mut self, core: &mut QpCore, upto: u32, host: &mut impl Host) -> Result<(), DropReason> {
        let count = self.cursor.acknowledge(upto)?;
        for _ in 0..count {
            core.complete_head(host);
        }
        if count > 0 {
            self.wait.progress();
        }
        Ok(())
    }

    /// A NAK of any kind for one of our requests; those before it are acknowledged.
    pub(crate) fn handle_nak(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let is_uc = core.qp_type == QpType::Uc;
        let is_known = match head.kind {
            // A request that was sent again meanwhile is answered again. This tells nothing of those before it.
            FrameKind::NotReady => is_uc || head.code == 0 || self.cursor.is_attempt(head.code),
            FrameKind::RnrNak | FrameKind::Nak => !is_uc,
            _ => true,
        };
        if !self.cursor.has_sent_request(head.request) || !is_known {
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
    fn lose(&mut self, core: &mut QpCore, host: &mut impl Host) {
        core.counters.messages_dropped += 1;
        self.cursor.lose();
        self.complete(core, host);
    }

    /// UC: all messages that were begun are lost.
    pub(super) fn lose_begun(&mut self, core: &mut QpCore, host: &mut impl Host) {
        while self.cursor.has_sent() {
            self.lose(core, host);
        }
    }

    fn receiver_not_ready(&mut self, core: &mut QpCore, code: u16, host: &impl Host) {
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
        let (PendingAnswer::Data { received }, true) = (self.cursor.pending, self.cursor.is_oldest(head.request))
        else {
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
        self.cursor.pending = PendingAnswer::Data { received: received + len };
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
        if self.cursor.pending != PendingAnswer::Result || !self.cursor.is_oldest(head.request) {
            return Err(DropReason::GhostResponse);
        }
        let mut before = [0; 8];
        body.front(&mut before);
        self.cursor.end_wait();
        match self.complete_with(core, u64::from_le_bytes(before), host) {
            Ok(()) => self.cursor.end_request(),
            Err(error) => self.failure = Some(QpFailure::SendQueue(local_reason(error))),
        }
        Ok(())
    }

    /// Completes the head, whose answer is complete.
    fn answered(&mut self, core: &mut QpCore, host: &mut impl Host) {
        self.cursor.end_wait();
        self.cursor.end_request();
        self.complete(core, host);
    }
}

pub(super) fn local_reason(error: ShmError) -> Reason {
    match error {
        ShmError::Local(error) => Reason::LocalMemory(error),
        _ => Reason::BadResponse,
    }
}
