//! The responder: takes the peer's requests in order, each through the steps that a packet takes
//! on the wire (`rc::responder`), but that PSNs and packet lengths are no matter here.

mod answers;
mod refusals;
mod requests;

use wire::{NakCode, RKey};

use super::frame::{FrameFlags, FrameHead, FrameKind, WRITE_PREFIX_BYTES};
use super::path::{ReceivedBody, SendBody, ShmError, ShmPath};
use super::remote_op::{REMOTE_OP_BYTES, RemoteOp};
use super::requester::{Requester, path};
use crate::attr::QpType;
use crate::completion::{Completion, CompletionOp, Status};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::{CqSide, Host, QpEvent};
use crate::limits::MAX_MESSAGE_BYTES;
use crate::memory::{Access, Accessor, Memory, MemoryError};
use crate::qp_core::QpCore;
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
    /// A NAK, or the result of an remote_op, with its body.
    answer: Option<(FrameHead, [u8; 8])>,
    failure: Option<QpFailure>,
}

impl Responder {
    /// INIT to RTR: requests are numbered from the starting PSN on, so that what was meant for an
    /// earlier connection is not taken for one of this.
    pub(crate) fn start(&mut self, core: &QpCore) {
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
    pub(crate) fn lose(&mut self, head: &FrameHead) {
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
    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        self.failure.take()
    }

    /// Gives back the receive WQE of a message that will not be finished.
    pub(crate) fn flush(&mut self, core: &QpCore, host: &mut impl Host) {
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
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), DropReason> {
        let first = head.flags.contains(FrameFlags::FIRST);
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
    fn begins_anew(&mut self, core: &mut QpCore, head: &FrameHead) -> bool {
        let begins = core.qp_type == QpType::Uc && head.flags.contains(FrameFlags::FIRST) && !self.rewinding;
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
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
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
            (FrameKind::Send, Inbound::Send { .. }) => self.take_send(core, head, body, host),
            (FrameKind::Write, Inbound::Write { .. }) => self.take_write(core, head, body, host),
            (FrameKind::Send, _) if begins => self.take_send(core, head, body, host),
            (FrameKind::Write, _) if begins => self.take_write(core, head, body, host),
            (FrameKind::Notice, _) if begins => self.take_notice(core, head, host),
            (FrameKind::Read | FrameKind::RemoteOp, _) if core.qp_type == QpType::Uc => {
                Err(Refusal::Invalid("a request that UC does not have"))
            }
            (FrameKind::Read, _) if begins => self.take_read(core, head, body, host),
            (FrameKind::RemoteOp, _) if begins => self.take_remote_op(core, head, body, host),
            _ => Err(Refusal::Invalid("frames out of order")),
        }
    }
}
