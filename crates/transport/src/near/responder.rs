//! The responder: takes the peer's requests in order, each through the steps that a packet takes
//! on the wire (`rc::responder`), but that PSNs and packet lengths are no matter here.

use wire::{NakCode, RKey};

use super::errand::{ERRAND_BYTES, Errand};
use super::frame::{Flags, Head, Kind};
use super::path::{Arrived, Body, Path, Stop};
use super::requester::{Requester, WRITE_PREFIX_BYTES, path};
use crate::attr::QpType;
use crate::completion::{Completion, CompletionOp, Status};
use crate::core::Core;
use crate::drop::DropReason;
use crate::host::{CqSide, Host, QpEvent};
use crate::memory::{Access, Accessor, Memory, MemoryError};
use crate::qp::{Failure, MAX_MESSAGE_BYTES};
use crate::reason::Reason;
use crate::wr::{RecvWr, RemoteAddr};

/// Requests after which an acknowledge leaves even if more are at hand.
const ACK_INTERVAL: u32 = 64;

const MISALIGNED: &str = "an address that is no multiple of 8";

/// The message that is arriving.
#[derive(Debug, Default)]
enum Inbound {
    #[default]
    None,
    Send {
        wr: RecvWr,
        received: u32,
    },
    Write {
        written: u32,
    },
    /// The rest of a message that a UC queue pair cannot take.
    Dropped,
}

impl Inbound {
    #[inline]
    fn is_between_messages(&self) -> bool {
        matches!(self, Inbound::None)
    }

    fn into_wr(self) -> Option<RecvWr> {
        match self {
            Inbound::Send { wr, .. } => Some(wr),
            Inbound::None | Inbound::Write { .. } | Inbound::Dropped => None,
        }
    }
}

/// The rest of an answer to a READ.
#[derive(Debug)]
struct Reading {
    rkey: RKey,
    addr: u64,
    left_bytes: u32,
}

/// Why a request is not carried out.
enum Refusal {
    Invalid(&'static str),
    Access(MemoryError),
    NotReady,
    Local(MemoryError),
    TooLong,
    Unlent,
}

#[derive(Debug, Default)]
pub(crate) struct Responder {
    /// The number of the next request: those before it were carried out.
    expected: u32,
    /// What the peer was last told of that.
    told: u32,
    inbound: Inbound,
    /// A receive WQE that a message took that was given up: the next one's.
    spare: Option<RecvWr>,
    /// We asked the peer to begin again at `expected`: what comes before that is dropped.
    rewinding: bool,
    reading: Option<Reading>,
    /// A NAK, or the result of an errand, with its body.
    answer: Option<(Head, [u8; 8])>,
    failure: Option<Failure>,
}

impl Responder {
    /// INIT to RTR: requests are numbered from the starting PSN on, so that what was meant for an
    /// earlier connection is not taken for one of this.
    pub(crate) fn start(&mut self, core: &Core) {
        let first = core.attr.rq_psn.get();
        *self = Responder { expected: first, told: first, ..Responder::default() };
    }

    #[inline]
    pub(crate) fn done(&self) -> u32 {
        self.expected
    }

    /// A frame left that carries the acknowledge.
    #[inline]
    pub(crate) fn has_told(&mut self) {
        self.told = self.expected;
    }

    #[inline]
    pub(crate) fn ack_due(&self) -> bool {
        self.told != self.expected
    }

    /// A frame of a request was lost on the way.
    pub(crate) fn lose(&mut self, head: &Head) {
        if head.request == self.expected {
            self.rewinding = true;
            self.hold();
        }
    }

    /// Whether a NAK waits to leave.
    pub(crate) fn has_answer(&self) -> bool {
        self.answer.is_some()
    }

    /// Whether something has to leave that must not wait.
    pub(crate) fn has_urgent(&self) -> bool {
        self.answer.is_some() || self.reading.is_some() || self.expected.wrapping_sub(self.told) >= ACK_INTERVAL
    }

    #[inline]
    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Gives back the receive WQE of a message that will not be finished.
    pub(crate) fn flush(&mut self, core: &Core, host: &mut impl Host) {
        self.reading = None;
        self.hold();
        if let Some(wr) = self.spare.take() {
            let c = Completion::failure(wr.wr_id, core.qpn, CompletionOp::Recv, Status::WorkRequestFlushed);
            host.complete(CqSide::Recv, c);
        }
    }

    #[inline]
    pub(crate) fn handle_request<H: Host>(
        &mut self,
        core: &mut Core,
        head: &Head,
        body: &impl Arrived<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), DropReason> {
        let first = head.flags.contains(Flags::FIRST);
        let in_order = first == self.inbound.is_between_messages();
        if (head.request != self.expected || !in_order || self.reading.is_some()) && !self.begins_anew(core, head) {
            core.counters.out_of_sequence_requests += 1;
            // Behind a request that we refused for the moment; or of another connection, and
            // then the peer is to know that it is not here.
            return Err(if self.rewinding { DropReason::OutOfSequence } else { DropReason::QpState });
        }
        self.rewinding = false;
        core.note_established(host);
        match self.execute(core, head, body, host) {
            Ok(()) => Ok(()),
            Err(refusal) => self.refuse(core, head, refusal, host),
        }
    }

    /// UC: the first part of a message begins one in any case (9.8.2.2); what came before it is lost.
    #[cold]
    fn begins_anew(&mut self, core: &mut Core, head: &Head) -> bool {
        let begins = core.qp_type == QpType::Uc && head.flags.contains(Flags::FIRST) && !self.rewinding;
        if begins {
            core.counters.messages_dropped += u64::from(!matches!(self.inbound, Inbound::None | Inbound::Dropped));
            self.hold();
            self.expected = head.request;
        }
        begins
    }

    #[inline]
    fn execute<H: Host>(
        &mut self,
        core: &mut Core,
        head: &Head,
        body: &impl Arrived<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), Refusal> {
        if u64::from(head.len_bytes) > MAX_MESSAGE_BYTES {
            return Err(Refusal::Invalid("a message of more than 2^31 bytes"));
        }
        let begins = self.inbound.is_between_messages();
        match (head.kind, &self.inbound) {
            (_, Inbound::Dropped) => {
                self.drop_rest(head);
                Ok(())
            }
            (Kind::Send, Inbound::Send { .. }) => self.take_send(core, head, body, host),
            (Kind::Write, Inbound::Write { .. }) => self.take_write(core, head, body, host),
            (Kind::Send, _) if begins => self.take_send(core, head, body, host),
            (Kind::Write, _) if begins => self.take_write(core, head, body, host),
            (Kind::Notice, _) if begins => self.take_notice(core, head, host),
            (Kind::Read | Kind::Errand, _) if core.qp_type == QpType::Uc => {
                Err(Refusal::Invalid("a request that UC does not have"))
            }
            (Kind::Read, _) if begins => self.take_read(core, head, body, host),
            (Kind::Errand, _) if begins => self.take_errand(core, head, body, host),
            _ => Err(Refusal::Invalid("frames out of order")),
        }
    }

    #[inline]
    fn take_send<H: Host>(
        &mut self,
        core: &mut Core,
        head: &Head,
        body: &impl Arrived<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), Refusal> {
        if self.inbound.is_between_messages() {
            let wr = self.take_recv(core, host)?;
            let too_long = u64::from(head.len_bytes) > wr.capacity_bytes();
            self.inbound = Inbound::Send { wr, received: 0 };
            if too_long {
                return Err(Refusal::TooLong);
            }
        }
        let Inbound::Send { wr, received } = &mut self.inbound else { return Ok(()) };
        let len = body.len_bytes(0);
        check_part(*received, len, head)?;
        if len > 0 {
            let copied = body.scatter(host.memory(), 0, core.pd, &wr.sgl, u64::from(*received));
            copied
                .map_err(|stop| if let Stop::Local(error) = stop { Refusal::Local(error) } else { Refusal::Unlent })?;
        }
        *received += len;
        count(core, len);
        if head.flags.contains(Flags::LAST) { self.finish_send(core, head, host) } else { Ok(()) }
    }

    /// The receive WQE that a message given up has left, or the next one.
    #[inline]
    fn take_recv(&mut self, core: &mut Core, host: &mut impl Host) -> Result<RecvWr, Refusal> {
        match self.spare.take() {
            Some(wr) => Ok(wr),
            None => core.take_recv(host).ok_or(Refusal::NotReady),
        }
    }

    #[inline]
    fn finish_send(&mut self, core: &mut Core, head: &Head, host: &mut impl Host) -> Result<(), Refusal> {
        if head.flags.contains(Flags::INVALIDATE) {
            if core.qp_type == QpType::Uc {
                return Err(Refusal::Invalid("a request that UC does not have"));
            }
            host.memory().invalidate(core.accessor(), RKey(head.value)).map_err(Refusal::Access)?;
        }
        self.expected = self.expected.wrapping_add(1);
        if let Inbound::Send { wr, received } = core::mem::take(&mut self.inbound) {
            let completion = Completion::success(wr.wr_id, core.qpn, CompletionOp::Recv, received);
            host.complete(CqSide::Recv, with_notice(completion, head, core));
        }
        Ok(())
    }

    /// A part of a WRITE that the peer's processor cannot do.
    fn take_write<H: Host>(
        &mut self,
        core: &mut Core,
        head: &Head,
        body: &impl Arrived<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), Refusal> {
        check_allowed(core, Access::REMOTE_WRITE)?;
        let mut prefix = [0; WRITE_PREFIX_BYTES];
        body.front(&mut prefix);
        let (addr, rkey) = prefix.split_at(8);
        let to = RemoteAddr {
            addr: u64::from_le_bytes(addr.try_into().unwrap_or_default()),
            rkey: RKey(u32::from_le_bytes(rkey.try_into().unwrap_or_default())),
        };
        let written = if let Inbound::Write { written } = self.inbound { written } else { 0 };
        let len = body.len_bytes(WRITE_PREFIX_BYTES);
        check_part(written, len, head)?;
        let who = core.accessor();
        if written == 0 && head.len_bytes > 0 {
            let all = u64::from(head.len_bytes);
            let checked = host.memory().check_remote(who, to.rkey, to.addr, all, Access::REMOTE_WRITE);
            checked.map_err(Refusal::Access)?;
        }
        let last = head.flags.contains(Flags::LAST);
        let notice = match last && head.flags.contains(Flags::IMM) {
            true => Some(self.take_recv(core, host)?),
            false => None,
        };
        if len > 0
            && let Err(stop) = body.write(host.memory(), WRITE_PREFIX_BYTES, who, to)
        {
            self.spare = notice.or(self.spare.take());
            let Stop::Local(error) = stop else { return Err(Refusal::Invalid("a WRITE without its bytes")) };
            return Err(Refusal::Access(error));
        }
        count(core, len);
        self.inbound = if last { Inbound::None } else { Inbound::Write { written: written + len } };
        self.expected = self.expected.wrapping_add(u32::from(last));
        if let Some(wr) = notice {
            complete_notice(core, wr, head, host);
        }
        Ok(())
    }

    /// A WRITE that was done takes its receive WQE.
    fn take_notice(&mut self, core: &mut Core, head: &Head, host: &mut impl Host) -> Result<(), Refusal> {
        check_allowed(core, Access::REMOTE_WRITE)?;
        if !head.flags.contains(Flags::IMM) {
            return Err(Refusal::Invalid("a notice without immediate data"));
        }
        let wr = self.take_recv(core, host)?;
        self.expected = self.expected.wrapping_add(1);
        count(core, 0);
        complete_notice(core, wr, head, host);
        Ok(())
    }

    fn take_read<H: Host>(
        &mut self,
        core: &mut Core,
        head: &Head,
        body: &impl Arrived<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), Refusal> {
        check_allowed(core, Access::REMOTE_READ)?;
        let mut addr = [0; 8];
        body.front(&mut addr);
        let (addr, rkey) = (u64::from_le_bytes(addr), RKey(head.value));
        if head.len_bytes > 0 {
            let all = u64::from(head.len_bytes);
            let checked = host.memory().check_remote(core.accessor(), rkey, addr, all, Access::REMOTE_READ);
            checked.map_err(Refusal::Access)?;
        }
        count(core, 0);
        self.reading = Some(Reading { rkey, addr, left_bytes: head.len_bytes });
        Ok(())
    }

    fn take_errand<H: Host>(
        &mut self,
        core: &mut Core,
        head: &Head,
        body: &impl Arrived<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), Refusal> {
        let mut bytes = [0; ERRAND_BYTES];
        body.front(&mut bytes);
        let errand = Errand::decode(&bytes).ok_or(Refusal::Invalid("an errand that is none"))?;
        check_allowed(core, errand.access())?;
        let outcome = errand.carry_out(host.memory(), core.accessor(), RKey(head.value));
        let before = match outcome {
            Ok(before) => before,
            Err(MemoryError::Misaligned) => return Err(Refusal::Invalid(MISALIGNED)),
            Err(error) => return Err(Refusal::Access(error)),
        };
        count(core, 0);
        let answer = Head { request: head.request, ..Requester::plain_head(core, Kind::Result) };
        self.answer = Some((answer, before.to_le_bytes()));
        self.expected = self.expected.wrapping_add(1);
        Ok(())
    }

    fn drop_rest(&mut self, head: &Head) {
        if head.flags.contains(Flags::LAST) {
            self.inbound = Inbound::None;
            self.expected = self.expected.wrapping_add(1);
        }
    }

    /// Gives up the message that is arriving, but keeps its receive WQE for the next one.
    fn hold(&mut self) {
        if let Some(wr) = core::mem::take(&mut self.inbound).into_wr() {
            self.spare = Some(wr);
        }
    }

    /// Tells the peer why not, and what becomes of this queue pair.
    #[cold]
    fn refuse(
        &mut self,
        core: &mut Core,
        head: &Head,
        refusal: Refusal,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        if let Refusal::Unlent = refusal {
            return self.want_copies(core, head);
        }
        if core.qp_type == QpType::Uc {
            return self.refuse_unreliable(core, head, refusal, host);
        }
        let mut nak = Head { request: head.request, ..Requester::plain_head(core, Kind::Nak) };
        if let Refusal::NotReady = refusal {
            core.counters.tx_rnr_naks += 1;
            (nak.kind, nak.code) = (Kind::RnrNak, u16::from(core.attr.min_rnr_timer));
            self.rewinding = true;
            self.hold();
            self.answer = Some((nak, [0; 8]));
            return Err(DropReason::ReceiverNotReady);
        }
        core.counters.tx_error_naks += 1;
        let (code, reason, event) = match refusal {
            Refusal::Invalid(what) => {
                (NakCode::InvalidRequest, Reason::PeerBrokeProtocol(what), Some(QpEvent::RequestError))
            }
            Refusal::Access(e) => {
                (NakCode::RemoteAccessError, Reason::PeerAccessRefused(e), Some(QpEvent::AccessError))
            }
            Refusal::Local(e) => (NakCode::RemoteOperationalError, Reason::LocalMemory(e), None),
            _ => (NakCode::InvalidRequest, Reason::MessageTooLong, None),
        };
        self.fail_inbound(core, reason, host);
        nak.code = code as u16;
        self.answer = Some((nak, [0; 8]));
        self.failure = Some(Failure::QueuePair(reason, event));
        Err(DropReason::Refused)
    }

    /// The message is to begin again.
    fn want_copies(&mut self, core: &Core, head: &Head) -> Result<(), DropReason> {
        self.rewinding = true;
        self.hold();
        let nak = Head { request: head.request, ..Requester::plain_head(core, Kind::Unlent) };
        self.answer = Some((nak, [0; 8]));
        Err(DropReason::Refused)
    }

    /// UC: what cannot be taken is dropped in silence, but for a failure of our own memory.
    fn refuse_unreliable(
        &mut self,
        core: &mut Core,
        head: &Head,
        refusal: Refusal,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        core.counters.messages_dropped += 1;
        let dropped = match refusal {
            Refusal::Local(error) => {
                let reason = Reason::LocalMemory(error);
                self.fail_inbound(core, reason, host);
                self.failure = Some(Failure::QueuePair(reason, None));
                DropReason::LocalMemory
            }
            Refusal::NotReady => DropReason::NoRecvWqe,
            Refusal::TooLong => DropReason::UcTooLong,
            Refusal::Access(_) => DropReason::UcAccess,
            Refusal::Invalid(_) | Refusal::Unlent => DropReason::UcInvalid,
        };
        self.hold();
        self.inbound = Inbound::Dropped;
        self.drop_rest(head);
        Err(dropped)
    }

    /// The receive WQE of the refused message completes with the reason.
    fn fail_inbound(&mut self, core: &mut Core, reason: Reason, host: &mut impl Host) {
        if let Some(wr) = core::mem::take(&mut self.inbound).into_wr() {
            let status = match reason {
                Reason::LocalMemory(_) | Reason::MessageTooLong => reason.status(),
                Reason::PeerAccessRefused(_) => Status::LocalAccess,
                _ => Status::RemoteInvalidRequest,
            };
            core.fail_recv(wr.wr_id, status, reason, host);
        }
    }

    /// The peer's processor was refused by our memory: our queue pair fails as if we had refused.
    pub(crate) fn peer_was_refused(&mut self, core: &mut Core, head: &Head) -> Result<(), DropReason> {
        if core.qp_type == QpType::Uc {
            return Err(DropReason::UcInvalid);
        }
        core.counters.tx_error_naks += 1;
        let (reason, event) = match MemoryError::from_number(head.code) {
            MemoryError::Misaligned => (Reason::PeerBrokeProtocol(MISALIGNED), QpEvent::RequestError),
            error => (Reason::PeerAccessRefused(error), QpEvent::AccessError),
        };
        self.failure = Some(Failure::QueuePair(reason, Some(event)));
        Ok(())
    }

    /// Sends what must be said, an acknowledge included if `with_ack`. False: the lane is full.
    #[inline]
    pub(crate) fn answer(&mut self, core: &mut Core, with_ack: bool, host: &mut impl Host) -> bool {
        if self.answer.is_some() || self.reading.is_some() {
            return self.answer_now(core, host);
        }
        if !(with_ack && self.ack_due()) {
            return true;
        }
        let head = Head { ack: self.expected, ..Requester::plain_head(core, Kind::Ack) };
        if send(&head, &[], Body::Bytes(&[]), host) == Err(Stop::Full) {
            return false;
        }
        core.counters.tx_acks += 1;
        self.told = self.expected;
        true
    }

    fn answer_now(&mut self, core: &mut Core, host: &mut impl Host) -> bool {
        if let Some((head, bytes)) = &self.answer {
            // A NAK acknowledges what lies before the request that it is about.
            let head = Head { ack: self.expected, ..*head };
            if send(&head, bytes, Body::Bytes(&[]), host) == Err(Stop::Full) {
                return false;
            }
            self.answer = None;
            self.told = self.expected;
        }
        while let Some(reading) = &self.reading {
            let Reading { rkey, addr, left_bytes } = *reading;
            match self.send_data(core, rkey, addr, left_bytes, host) {
                Ok(taken) if taken >= left_bytes => self.finish_reading(),
                Ok(taken) => {
                    self.reading =
                        Some(Reading { rkey, addr: addr.wrapping_add(taken.into()), left_bytes: left_bytes - taken });
                }
                Err(Stop::Full) => return false,
                Err(Stop::Remote(error)) => return self.fail_reading(core, error, host),
                Err(_) => self.reading = None,
            }
        }
        true
    }

    fn send_data(
        &self,
        core: &Core,
        rkey: RKey,
        addr: u64,
        left_bytes: u32,
        host: &mut impl Host,
    ) -> Result<u32, Stop> {
        let head = Head { request: self.expected, ack: self.expected, ..Requester::plain_head(core, Kind::Data) };
        let who: Accessor = core.accessor();
        send(&head, &[], Body::Remote { who, rkey, addr, left_bytes }, host)
    }

    fn finish_reading(&mut self) {
        self.reading = None;
        self.expected = self.expected.wrapping_add(1);
        // The data says it.
        self.told = self.expected;
    }

    /// The memory was taken away while it was read.
    fn fail_reading(&mut self, core: &mut Core, error: MemoryError, host: &mut impl Host) -> bool {
        self.reading = None;
        let head = Head { request: self.expected, ..Requester::plain_head(core, Kind::Read) };
        let _ = self.refuse(core, &head, Refusal::Access(error), host);
        self.answer_now(core, host)
    }
}

fn send<H: Host>(head: &Head, prefix: &[u8], body: Body<'_>, host: &H) -> Result<u32, Stop> {
    path(host)?.send(host.memory(), head, prefix, body)
}

/// The parts of a message add up to its length, and the last one is the last.
fn check_part(before: u32, len: u32, head: &Head) -> Result<(), Refusal> {
    let fits = len <= head.len_bytes.saturating_sub(before)
        && head.flags.contains(Flags::LAST) == (before + len == head.len_bytes);
    if fits { Ok(()) } else { Err(Refusal::Invalid("a message whose parts do not add up to its length")) }
}

fn check_allowed(core: &Core, access: Access) -> Result<(), Refusal> {
    if core.attr.access.contains(access) { Ok(()) } else { Err(Refusal::Access(MemoryError::NoPermission)) }
}

#[inline]
fn count(core: &mut Core, len: u32) {
    core.counters.rx_packets += 1;
    core.counters.rx_bytes += u64::from(len);
}

fn complete_notice(core: &Core, wr: RecvWr, head: &Head, host: &mut impl Host) {
    let completion = Completion::success(wr.wr_id, core.qpn, CompletionOp::RecvWriteImm, head.len_bytes);
    host.complete(CqSide::Recv, with_notice(completion, head, core));
}

#[inline]
fn with_notice(completion: Completion, head: &Head, core: &Core) -> Completion {
    Completion {
        imm: head.flags.contains(Flags::IMM).then_some(head.value),
        invalidated: head.flags.contains(Flags::INVALIDATE).then_some(RKey(head.value)),
        solicited: head.flags.contains(Flags::SOLICITED),
        src_qpn: core.attr.dest_qpn,
        ..completion
    }
}
