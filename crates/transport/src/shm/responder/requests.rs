//! The execution of each kind of request.

use super::*;

impl ShmResponder {
    #[inline]
    pub(super) fn execute_send<H: Host>(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), ShmRefusal> {
        if self.inbound.is_between_messages() {
            let wr = self.take_recv(core, host)?;
            let too_long = u64::from(head.len_bytes) > wr.capacity_bytes();
            self.inbound = ShmInbound::Send { wr, received: 0 };
            if too_long {
                return Err(ShmRefusal::TooLong);
            }
        }
        let ShmInbound::Send { wr, received } = &mut self.inbound else { return Ok(()) };
        let len = body.len_bytes(0);
        check_part(*received, len, head)?;
        if len > 0 {
            let copied = body.scatter(host.memory(), 0, core.recv_pd, &wr.sgl, u64::from(*received));
            copied.map_err(|error| {
                if let ShmError::Local(error) = error { ShmRefusal::Local(error) } else { ShmRefusal::SendCopies }
            })?;
        }
        *received += len;
        count(core, len);
        if head.flags.contains(FrameFlags::LAST) { self.finish_send(core, head, host) } else { Ok(()) }
    }

    /// The receive WQE that a message given up has left, or the next one.
    #[inline]
    pub(super) fn take_recv(&mut self, core: &mut QpCore, host: &mut impl Host) -> Result<RecvWr, ShmRefusal> {
        match self.spare.take() {
            Some(wr) => Ok(wr),
            None => core.take_recv(host).ok_or(ShmRefusal::NotReady),
        }
    }

    #[inline]
    pub(super) fn finish_send(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        host: &mut impl Host,
    ) -> Result<(), ShmRefusal> {
        if head.flags.contains(FrameFlags::INVALIDATE) {
            if core.qp_type == QpType::Uc {
                return Err(ShmRefusal::Invalid("a request that UC does not have"));
            }
            host.memory().remote_invalidate(core.accessor(), RKey(head.value)).map_err(ShmRefusal::Access)?;
        }
        self.expected = self.expected.wrapping_add(1);
        if let ShmInbound::Send { wr, received } = core::mem::take(&mut self.inbound) {
            let completion = Completion::success(wr.wr_id, core.qpn, CompletionOp::Recv, received);
            host.complete(CqSide::Recv, with_notice(completion, head, core));
        }
        Ok(())
    }

    /// A part of a WRITE that the peer could not execute directly.
    pub(super) fn execute_write<H: Host>(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), ShmRefusal> {
        check_allowed(core, Access::REMOTE_WRITE)?;
        let mut prefix = [0; WRITE_PREFIX_BYTES];
        body.front(&mut prefix);
        let (addr, rkey) = prefix.split_at(8);
        let to = RemoteAddr {
            addr: u64::from_le_bytes(addr.try_into().unwrap_or_default()),
            rkey: RKey(u32::from_le_bytes(rkey.try_into().unwrap_or_default())),
        };
        let written = if let ShmInbound::Write { written } = self.inbound { written } else { 0 };
        let len = body.len_bytes(WRITE_PREFIX_BYTES);
        check_part(written, len, head)?;
        let who = core.accessor();
        if written == 0 && head.len_bytes > 0 {
            let all = u64::from(head.len_bytes);
            let checked = host.memory().check_remote(who, to.rkey, to.addr, all, Access::REMOTE_WRITE);
            checked.map_err(ShmRefusal::Access)?;
        }
        let last = head.flags.contains(FrameFlags::LAST);
        let notice = match last && head.flags.contains(FrameFlags::IMM) {
            true => Some(self.take_recv(core, host)?),
            false => None,
        };
        if len > 0
            && let Err(error) = body.write(host.memory(), WRITE_PREFIX_BYTES, who, to)
        {
            if let Some(wr) = notice {
                // It completes with the reason, as that of a SEND; UC keeps it for the next message.
                self.inbound = ShmInbound::Send { wr, received: 0 };
            }
            let ShmError::Local(error) = error else { return Err(ShmRefusal::Invalid("a WRITE without its bytes")) };
            return Err(ShmRefusal::Access(error));
        }
        count(core, len);
        self.inbound = if last { ShmInbound::None } else { ShmInbound::Write { written: written + len } };
        self.expected = self.expected.wrapping_add(u32::from(last));
        if let Some(wr) = notice {
            complete_notice(core, wr, head, host);
        }
        Ok(())
    }

    /// A WRITE that the peer has executed uses a receive WQE.
    pub(super) fn execute_notice(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        host: &mut impl Host,
    ) -> Result<(), ShmRefusal> {
        check_allowed(core, Access::REMOTE_WRITE)?;
        if !head.flags.contains(FrameFlags::IMM) {
            return Err(ShmRefusal::Invalid("a notice without immediate data"));
        }
        let wr = self.take_recv(core, host)?;
        self.expected = self.expected.wrapping_add(1);
        count(core, 0);
        complete_notice(core, wr, head, host);
        Ok(())
    }

    pub(super) fn execute_read<H: Host>(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), ShmRefusal> {
        check_allowed(core, Access::REMOTE_READ)?;
        let mut addr = [0; 8];
        body.front(&mut addr);
        let (addr, rkey) = (u64::from_le_bytes(addr), RKey(head.value));
        if head.len_bytes > 0 {
            let all = u64::from(head.len_bytes);
            let checked = host.memory().check_remote(core.accessor(), rkey, addr, all, Access::REMOTE_READ);
            checked.map_err(ShmRefusal::Access)?;
        }
        count(core, 0);
        self.reading = Some(ReadInProgress { rkey, addr, left_bytes: head.len_bytes });
        Ok(())
    }

    pub(super) fn execute_remote_op<H: Host>(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), ShmRefusal> {
        let mut bytes = [0; REMOTE_OP_BYTES];
        body.front(&mut bytes);
        let remote_op = RemoteOp::decode(&bytes).ok_or(ShmRefusal::Invalid("an unknown remote operation"))?;
        check_allowed(core, remote_op.access())?;
        let outcome = remote_op.execute(host.memory(), core.accessor(), RKey(head.value));
        let before = match outcome {
            Ok(before) => before,
            Err(MemoryError::Misaligned) => return Err(ShmRefusal::Invalid(MISALIGNED)),
            Err(error) => return Err(ShmRefusal::Access(error)),
        };
        count(core, 0);
        let answer = FrameHead { request: head.request, ..head_to_peer(core, FrameKind::Result) };
        self.answer = Some((answer, before.to_le_bytes()));
        self.expected = self.expected.wrapping_add(1);
        Ok(())
    }
}

/// The parts of a message add up to its length, and the last one is the last.
pub(super) fn check_part(before: u32, len: u32, head: &FrameHead) -> Result<(), ShmRefusal> {
    let fits = len <= head.len_bytes.saturating_sub(before)
        && head.flags.contains(FrameFlags::LAST) == (before + len == head.len_bytes);
    if fits { Ok(()) } else { Err(ShmRefusal::Invalid("a message whose parts do not add up to its length")) }
}

pub(super) fn check_allowed(core: &QpCore, access: Access) -> Result<(), ShmRefusal> {
    if core.attr.access.contains(access) { Ok(()) } else { Err(ShmRefusal::Access(MemoryError::NoPermission)) }
}

#[inline]
pub(super) fn count(core: &mut QpCore, len: u32) {
    core.counters.rx_packets += 1;
    core.counters.rx_bytes += u64::from(len);
}

pub(super) fn complete_notice(core: &QpCore, wr: RecvWr, head: &FrameHead, host: &mut impl Host) {
    let completion = Completion::success(wr.wr_id, core.qpn, CompletionOp::RecvWriteImm, head.len_bytes);
    host.complete(CqSide::Recv, with_notice(completion, head, core));
}

#[inline]
pub(super) fn with_notice(completion: Completion, head: &FrameHead, core: &QpCore) -> Completion {
    Completion {
        imm: head.flags.contains(FrameFlags::IMM).then_some(head.value),
        invalidated: head.flags.contains(FrameFlags::INVALIDATE).then_some(RKey(head.value)),
        solicited: head.flags.contains(FrameFlags::SOLICITED),
        src_qpn: core.attr.dest_qpn,
        ..completion
    }
}
