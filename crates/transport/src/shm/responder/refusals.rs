//! Refused requests: the NAK to the peer, and the fate of the receive WQE.

use super::*;

impl ShmResponder {
    pub(super) fn drop_rest(&mut self, head: &FrameHead) {
        if head.flags.contains(FrameFlags::LAST) {
            self.inbound = ShmInbound::None;
            self.expected = self.expected.wrapping_add(1);
        }
    }

    /// Gives up the message that is arriving, but keeps its receive WQE for the next one.
    pub(super) fn keep_recv(&mut self) {
        if let Some(wr) = core::mem::take(&mut self.inbound).into_wr() {
            self.spare = Some(wr);
        }
    }

    /// Queues the NAK, and sets the failure of this queue pair.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        refusal: ShmRefusal,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        if let ShmRefusal::SendCopies = refusal {
            return self.request_copies(core, head);
        }
        if core.qp_type == QpType::Uc {
            return self.refuse_unreliable(core, head, refusal, host);
        }
        let mut nak = FrameHead { request: head.request, ..head_to_peer(core, FrameKind::Nak) };
        if let ShmRefusal::NotReady = refusal {
            core.counters.tx_rnr_naks += 1;
            (nak.kind, nak.code) = (FrameKind::RnrNak, u16::from(core.attr.min_rnr_timer));
            self.rewinding = true;
            self.keep_recv();
            self.answer = Some((nak, [0; 8]));
            return Err(DropReason::ReceiverNotReady);
        }
        core.counters.tx_error_naks += 1;
        let (code, reason, event) = match &refusal {
            ShmRefusal::Invalid(what) => {
                (NakCode::InvalidRequest, Reason::PeerBrokeProtocol(what), Some(QpEvent::RequestError))
            }
            ShmRefusal::Access(e) => {
                (NakCode::RemoteAccessError, Reason::PeerAccessRefused(*e), Some(QpEvent::AccessError))
            }
            ShmRefusal::CallPanicked => (NakCode::RemoteOperationalError, Reason::CallPanicked, None),
            ShmRefusal::Local(e) => (NakCode::RemoteOperationalError, Reason::LocalMemory(*e), None),
            _ => (NakCode::InvalidRequest, Reason::MessageTooLong, None),
        };
        if matches!((&refusal, head.kind), (ShmRefusal::Access(_), FrameKind::Write | FrameKind::Notice)) {
            self.take_recv_to_fail(core, head, host);
        }
        self.fail_inbound(core, reason, host);
        nak.code = code as u16;
        self.answer = Some((nak, [0; 8]));
        self.failure = Some(QpFailure::QueuePair(reason, event));
        Err(DropReason::Refused)
    }

    /// The message is to begin again.
    pub(super) fn request_copies(&mut self, core: &QpCore, head: &FrameHead) -> Result<(), DropReason> {
        self.rewinding = true;
        self.keep_recv();
        let nak = FrameHead { request: head.request, ..head_to_peer(core, FrameKind::SendCopies) };
        self.answer = Some((nak, [0; 8]));
        Err(DropReason::Refused)
    }

    /// UC: a refused message is dropped in silence, except after a failure of our own memory.
    pub(super) fn refuse_unreliable(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        refusal: ShmRefusal,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        core.counters.messages_dropped += 1;
        let dropped = match refusal {
            ShmRefusal::Local(error) => {
                let reason = Reason::LocalMemory(error);
                self.fail_inbound(core, reason, host);
                self.failure = Some(QpFailure::QueuePair(reason, None));
                DropReason::LocalMemory
            }
            ShmRefusal::NotReady => DropReason::NoRecvWqe,
            ShmRefusal::TooLong => DropReason::UcTooLong,
            ShmRefusal::Access(_) => DropReason::UcAccess,
            ShmRefusal::Invalid(_) | ShmRefusal::SendCopies | ShmRefusal::CallPanicked => DropReason::UcInvalid,
        };
        self.keep_recv();
        self.inbound = ShmInbound::Dropped;
        self.drop_rest(head);
        Err(dropped)
    }

    /// The peer may not write, and its WRITE has immediate data and would be one packet: a posted receive WQE
    /// completes with a local access error, as on the wire.
    pub(super) fn take_recv_to_fail(&mut self, core: &mut QpCore, head: &FrameHead, host: &mut impl Host) {
        let takes_one = head.flags.contains(FrameFlags::IMM) && head.len_bytes <= core.mtu();
        if takes_one
            && self.inbound.is_between_messages()
            && let Ok(wr) = self.take_recv(core, host)
        {
            self.inbound = ShmInbound::Send { wr, received: 0 };
        }
    }

    /// The receive WQE of the refused message completes with the reason.
    pub(super) fn fail_inbound(&mut self, core: &mut QpCore, reason: Reason, host: &mut impl Host) {
        if let Some(wr) = core::mem::take(&mut self.inbound).into_wr() {
            let status = match reason {
                Reason::LocalMemory(_) | Reason::MessageTooLong => reason.status(),
                Reason::PeerAccessRefused(_) => Status::LocalAccess,
                _ => Status::RemoteInvalidRequest,
            };
            core.fail_recv(wr.wr_id, status, reason, host);
        }
    }

    /// Our memory refused the peer's direct access: our queue pair fails as after a NAK of ours.
    pub(crate) fn handle_refused(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        if core.qp_type == QpType::Uc {
            return Err(DropReason::UcInvalid);
        }
        core.counters.tx_error_naks += 1;
        let (reason, event) = match MemoryError::from_number(head.code) {
            MemoryError::Misaligned => (Reason::PeerBrokeProtocol(MISALIGNED), QpEvent::RequestError),
            error => (Reason::PeerAccessRefused(error), QpEvent::AccessError),
        };
        self.take_recv_to_fail(core, head, host);
        self.fail_inbound(core, reason, host);
        self.failure = Some(QpFailure::QueuePair(reason, Some(event)));
        Ok(())
    }
}
