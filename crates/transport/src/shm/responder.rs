//! The responder: takes the peer's requests in order, each through the steps that a packet takes on the wire
//! (`rc::responder`), without PSNs and packet lengths.

mod answers;
mod extension;
mod refusals;
mod requests;

use wire::{NakCode, RKey};

use super::frame::{FrameFlags, FrameHead, FrameKind, WRITE_PREFIX_BYTES};
use super::path::{ReceivedBody, SendBody, ShmError, ShmPath};
use super::remote_op::{REMOTE_OP_BYTES, RemoteOp};
use super::requester::path;
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

/// After this many requests an ACK leaves even if more are at hand.
const ACK_INTERVAL: u32 = 64;

const MISALIGNED: &str = "an address that is not a multiple of 8";

/// The message that is arriving.
#[derive(Debug, Default)]
enum ShmInbound {
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

impl ShmInbound {
    #[inline]
    fn is_between_messages(&self) -> bool {
        matches!(self, ShmInbound::None)
    }

    fn into_wr(self) -> Option<RecvWr> {
        match self {
            ShmInbound::Send { wr, .. } => Some(wr),
            ShmInbound::None | ShmInbound::Write { .. } | ShmInbound::Dropped => None,
        }
    }
}

/// The rest of an answer to a READ.
#[derive(Debug)]
struct ReadInProgress {
    rkey: RKey,
    addr: u64,
    left_bytes: u32,
}

/// The reason for which a request is not executed.
enum ShmRefusal {
    Invalid(&'static str),
    Access(MemoryError),
    NotReady,
    Local(MemoryError),
    TooLong,
    CallPanicked,
    SendCopies,
}

#[derive(Debug, Default)]
pub(crate) struct ShmResponder {
    /// The number of the next request: those before it were executed.
    expected: u32,
    /// The `expected` of the last ACK.
    acked: u32,
    inbound: ShmInbound,
    /// A receive WQE of a message that was given up: the next message uses it.
    spare: Option<RecvWr>,
    /// The peer was asked to begin again at `expected`: earlier frames are dropped.
    rewinding: bool,
    reading: Option<ReadInProgress>,
    /// A NAK, or the result of a remote operation, with its body.
    answer: Option<(FrameHead, [u8; 8])>,
    /// The reply to a request of Longarm's own.
    reply: Option<(FrameHead, Vec<u8>)>,
    failure: Option<QpFailure>,
}

impl ShmResponder {
    /// INIT to RTR: requests are numbered from the starting PSN on, so that what was meant for an
    /// earlier connection is not taken for one of this.
    pub(crate) fn start(&mut self, core: &QpCore) {
        let first = core.attr.rq_psn.get();
        *self = ShmResponder { expected: first, acked: first, ..ShmResponder::default() };
    }

    #[inline]
    pub(crate) fn expected(&self) -> u32 {
        self.expected
    }

    /// A frame that carries the ACK has left.
    #[inline]
    pub(crate) fn note_acked(&mut self) {
        self.acked = self.expected;
    }

    #[inline]
    pub(crate) fn ack_due(&self) -> bool {
        self.acked != self.expected
    }

    /// A frame of a request was lost.
    pub(crate) fn lose(&mut self, head: &FrameHead) {
        if head.request == self.expected {
            self.rewinding = true;
            self.keep_recv();
        }
    }

    /// Whether a NAK waits to leave.
    pub(crate) fn has_answer(&self) -> bool {
        self.answer.is_some() || self.reply.is_some()
    }

    /// Whether something has to leave that must not wait.
    pub(crate) fn has_urgent(&self) -> bool {
        self.has_answer() || self.reading.is_some() || self.expected.wrapping_sub(self.acked) >= ACK_INTERVAL
    }

    #[inline]
    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        self.failure.take()
    }

    /// Gives back the receive WQE of a message that will not be finished.
    pub(crate) fn flush(&mut self, core: &QpCore, host: &mut impl Host) {
        self.reading = None;
        self.keep_recv();
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
        if (head.request != self.expected || !in_order || self.reading.is_some()) && !self.restarts_message(core, head)
        {
            core.counters.out_of_sequence_requests += 1;
            // It follows a request that was refused for the moment. Or it belongs to another connection, and then
            // the peer has to learn that this one is gone.
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
    fn restarts_message(&mut self, core: &mut QpCore, head: &FrameHead) -> bool {
        let begins = core.qp_type == QpType::Uc && head.flags.contains(FrameFlags::FIRST) && !self.rewinding;
        if begins {
            core.counters.messages_dropped +=
                u64::from(!matches!(self.inbound, ShmInbound::None | ShmInbound::Dropped));
            self.keep_recv();
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
    ) -> Result<(), ShmRefusal> {
        if u64::from(head.len_bytes) > MAX_MESSAGE_BYTES {
            return Err(ShmRefusal::Invalid("a message of more than 2^31 bytes"));
        }
        let begins = self.inbound.is_between_messages();
        match (head.kind, &self.inbound) {
            (_, ShmInbound::Dropped) => {
                self.drop_rest(head);
                Ok(())
            }
            (FrameKind::Send, ShmInbound::Send { .. }) => self.execute_send(core, head, body, host),
            (FrameKind::Write, ShmInbound::Write { .. }) => self.execute_write(core, head, body, host),
            (FrameKind::Send, _) if begins => self.execute_send(core, head, body, host),
            (FrameKind::Write, _) if begins => self.execute_write(core, head, body, host),
            (FrameKind::Notice, _) if begins => self.execute_notice(core, head, host),
            (FrameKind::Read | FrameKind::RemoteOp | FrameKind::ObjectRead | FrameKind::Call, _)
                if core.qp_type == QpType::Uc =>
            {
                Err(ShmRefusal::Invalid("a request that UC does not have"))
            }
            (FrameKind::Read, _) if begins => self.execute_read(core, head, body, host),
            (FrameKind::RemoteOp, _) if begins => self.execute_remote_op(core, head, body, host),
            (FrameKind::Call, _) if begins => self.execute_call(core, head, body, host),
            (FrameKind::ObjectRead, _) if begins => self.execute_object_read(core, head, body, host),
            _ => Err(ShmRefusal::Invalid("frames out of order")),
        }
    }
}

/// The head of a frame to the peer, which tells the kind alone.
fn head_to_peer(core: &QpCore, kind: FrameKind) -> FrameHead {
    FrameHead::new(kind, core.qpn, core.attr.dest_qpn)
}
