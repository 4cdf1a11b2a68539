//! The requester: executes WQEs in order.
//!
//! SENDs go as frames and stay in the queue until they are acknowledged, and so do WRITEs with immediate of one packet: the
//! peer must have a receive WQE before they change anything. This processor executes other WRITEs, READs and atomics
//! directly, as soon as everything before them is acknowledged: a refused SEND must not be overtaken by a later WRITE. If
//! this process cannot reach the memory, a frame asks the peer to execute the operation.

mod answers;
mod cursor;
mod execute;
mod extension;
mod read_at_once;
mod record;

use super::frame::{FrameFlags, FrameHead, FrameKind, WRITE_PREFIX_BYTES};
use super::inline::{self, InlineOutcome};
use super::nak::{nak_code, remote_refusal};
use super::path::{ReceivedBody, SendBody, ShmError, ShmPath};
use super::remote_op::{REMOTE_OP_BYTES, RemoteOp};
use super::wait::ShmWait;
use super::write_at_once::WriteAtOnce;
use crate::attr::{QpState, QpType};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::Host;
use crate::memory::{Memory, MemoryError, PdId};
use crate::qp_core::QpCore;
use crate::queue::send::SendWqe;
use crate::reason::Reason;
use crate::state;
use crate::wr::{Payload, RemoteAddr, SendFlags, SendOp, SendWr};
use cursor::{PendingAnswer, ShmCursor};
use record::record_error;

/// The code for retries without a limit (IB specification 9.7.5.2.8).
const RNR_RETRY_FOREVER: u8 = 7;
/// After the peer could not reach lent memory, this many messages are copied into the lane before lending is tried
/// again.
const COPIES: u32 = 64;

/// The outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StepResult {
    /// Another may follow.
    Done,
    /// It must wait for something.
    Wait,
}

#[derive(Debug)]
pub(crate) struct ShmRequester {
    cursor: ShmCursor,
    /// Messages that are still to be copied instead of lent.
    copies: u32,
    /// A frame that carries the ACK has left.
    sent_ack: bool,
    pub(crate) wait: ShmWait,
    /// The reason for which the next WQE cannot be executed. It fails when those before it are done.
    blocked: Option<Reason>,
    /// A `Refused` frame that waits for room in the lane.
    pub(crate) refusal: Option<FrameHead>,
    failure: Option<QpFailure>,
}

impl Default for ShmRequester {
    fn default() -> ShmRequester {
        ShmRequester {
            cursor: ShmCursor::new(0),
            copies: 0,
            sent_ack: false,
            wait: ShmWait::default(),
            blocked: None,
            refusal: None,
            failure: None,
        }
    }
}

impl ShmRequester {
    /// RTR to RTS: requests are numbered from the starting PSN on.
    pub(crate) fn start(&mut self, core: &QpCore) {
        *self = ShmRequester { cursor: ShmCursor::new(core.attr.sq_psn.get()), ..ShmRequester::default() };
    }

    /// Nothing more is sent, but a waiting `Refused` frame.
    pub(crate) fn stop(&mut self) {
        *self = ShmRequester { refusal: self.refusal, failure: self.failure, ..ShmRequester::default() };
    }

    /// The send queue proceeds after an error (UC): no request is outstanding.
    pub(crate) fn restart(&mut self) {
        self.cursor.restart();
        self.blocked = None;
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.cursor.is_drained()
    }

    /// Whether a frame that carries the ACK has left since the last call.
    #[inline]
    pub(crate) fn take_sent_ack(&mut self) -> bool {
        core::mem::take(&mut self.sent_ack)
    }

    /// A failure, also the one of a blocked WQE when its turn has come.
    #[inline]
    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        if self.cursor.issued() == 0 && self.failure.is_none() && self.blocked.is_some() {
            self.failure = self.blocked.take().map(QpFailure::SendQueue);
        }
        self.failure.take()
    }

    /// Executes a checked request, if that is possible at once. True if it needs no place in the queue.
    #[inline]
    pub(crate) fn execute_inline(&mut self, core: &mut QpCore, wr: &SendWr, host: &mut impl Host) -> bool {
        if !self.is_idle(core) {
            return false;
        }
        match inline::execute(core, wr, host) {
            InlineOutcome::NotExecuted => false,
            InlineOutcome::Done => {
                self.wait.progress();
                true
            }
            InlineOutcome::ResultRefused(refused) => {
                // It was executed, and must not be executed again.
                core.sq.push(wr.clone(), 1);
                self.blocked = Some(Reason::LocalMemory(refused));
                true
            }
        }
    }

    /// Executes a WRITE of bytes that no key names, if that is possible at once.
    pub(crate) fn write_at_once(
        &mut self,
        core: &mut QpCore,
        bytes: &[u8],
        to: RemoteAddr,
        host: &mut impl Host,
    ) -> WriteAtOnce {
        if !self.is_idle(core) {
            return WriteAtOnce::Later;
        }
        let written = path(host).and_then(|path| match path.is_recorded() {
            true => Err(ShmError::NeedsFrame),
            false => path.write_bytes(bytes, to),
        });
        if written.is_err() {
            return WriteAtOnce::Refused;
        }
        core.counters.tx_packets += 1;
        core.counters.tx_bytes += bytes.len() as u64;
        self.wait.progress();
        WriteAtOnce::Done
    }

    /// Whether a request would be the first, and nothing keeps it from being executed.
    #[inline]
    fn is_idle(&self, core: &QpCore) -> bool {
        let is_free = !self.wait.is_on() && self.blocked.is_none() && self.failure.is_none();
        core.sq.is_empty() && core.state() == QpState::Rts && is_free
    }

    /// Whether the next WQE may begin.
    pub(crate) fn has_work(&self, core: &QpCore) -> bool {
        self.may_work(core) && core.sq.get(self.cursor.issued()).is_some_and(|wqe| self.may_begin(core, wqe))
    }

    /// Works on WQEs until the queue is empty or has to wait.
    #[inline]
    pub(crate) fn progress(&mut self, core: &mut QpCore, ack: u32, host: &mut impl Host) {
        self.cursor.debug_check(&core.sq);
        while self.may_work(core) && self.cursor.issued() < core.sq.len() {
            if self.step(core, ack, host) == StepResult::Wait {
                return;
            }
        }
    }

    /// Whether the queue pair may work at all.
    #[inline]
    fn may_work(&self, core: &QpCore) -> bool {
        let state_allows = match core.state() {
            QpState::Rts => true,
            QpState::Sqd => self.cursor.repeats(),
            _ => false,
        };
        state_allows && self.blocked.is_none() && self.failure.is_none() && !self.wait.is_on()
    }

    /// Whether a WQE need not wait for those before it.
    #[inline]
    fn may_begin(&self, core: &QpCore, wqe: &SendWqe) -> bool {
        self.cursor.issued() == 0
            || self.cursor.pending == PendingAnswer::Nothing
                && (wqe.op.is_send() || is_one_packet_with_imm(core, wqe))
                && !wqe.flags.contains(SendFlags::FENCE)
    }

    #[inline]
    fn step(&mut self, core: &mut QpCore, ack: u32, host: &mut impl Host) -> StepResult {
        let Some(wqe) = core.sq.get(self.cursor.issued()) else { return StepResult::Wait };
        if !self.may_begin(core, wqe) {
            return StepResult::Wait;
        }
        if core.qp_type == QpType::Uc
            && let Some(reason) = state::unsupported(core, wqe)
        {
            self.blocked = Some(reason);
            return StepResult::Wait;
        }
        let outcome = match wqe.op {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_) => self.send(core, ack, host),
            SendOp::Write(remote) => self.write(core, remote, host),
            SendOp::WriteImm(..) if is_one_packet_with_imm(core, wqe) => Err(ShmError::NeedsFrame),
            SendOp::WriteImm(remote, _) => self.write_imm(core, ack, remote, host),
            SendOp::Read(remote) => self.read(core, ack, remote, host),
            SendOp::LocalInvalidate(_) | SendOp::Bind(_) => self.local(core, host),
            SendOp::Call(remote) => self.call(core, ack, remote, host),
            SendOp::ObjectRead(remote, lock_mask) => self.object_read(core, ack, (remote, lock_mask), host),
            SendOp::Atomic(..) | SendOp::AtomicWrite(_) | SendOp::Flush { .. } => self.remote_op(core, ack, host),
        };
        match outcome {
            Ok(()) => StepResult::Done,
            Err(ShmError::NeedsFrame) => self.ask_for_write(core, ack, host),
            Err(error) => self.handle_error(core, error, host),
        }
    }

    /// Completes the head, which was executed without a frame.
    #[inline]
    fn complete(&mut self, core: &mut QpCore, host: &mut impl Host) {
        self.wait.progress();
        self.cursor.retire_head();
        core.complete_head(host);
    }

    /// A step failed.
    #[cold]
    fn handle_error(&mut self, core: &mut QpCore, error: ShmError, host: &mut impl Host) -> StepResult {
        record_error(core, &self.cursor, error, host);
        match error {
            ShmError::LaneFull => self.wait.for_room(now(host)),
            ShmError::Local(error) => self.blocked = Some(Reason::LocalMemory(error)),
            ShmError::PeerDead | ShmError::NotReady | ShmError::NeedsFrame | ShmError::Remote(_)
                if core.qp_type == QpType::Uc =>
            {
                // On the wire the loss would go unnoticed.
                let begun = self.cursor.sent_bytes() > 0;
                self.lose_begun(core, host);
                if !begun {
                    core.counters.messages_dropped += 1;
                    self.complete(core, host);
                }
                return StepResult::Done;
            }
            ShmError::PeerDead => self.peer_died(core, host),
            ShmError::NotReady | ShmError::NeedsFrame => self.not_ready(core, host),
            ShmError::Remote(error) => self.refused(core, error, host),
        }
        StepResult::Wait
    }

    /// The peer is not ready: retries until the timeouts are used up.
    fn not_ready(&mut self, core: &mut QpCore, host: &mut impl Host) {
        self.rewind();
        if !self.wait.for_peer(now(host), &core.attr) {
            core.counters.ack_timeouts += u64::from(core.attr.retry_count) + 1;
            self.blocked = Some(Reason::NoAnswer { retries: core.attr.retry_count });
        }
    }

    /// The peer's memory refused a direct access: the request fails as after a NAK, and a frame tells the peer.
    fn refused(&mut self, core: &mut QpCore, error: MemoryError, host: &mut impl Host) {
        core.counters.rx_error_naks += 1;
        let mut head = self.cursor.head(core, FrameKind::Refused, 0);
        head.code = error as u16;
        if let Some(wqe) = core.sq.head()
            && matches!(wqe.op, SendOp::WriteImm(..))
        {
            head.flags |= FrameFlags::IMM;
            head.len_bytes = wqe.len_bytes;
        }
        let acked = path(host).and_then(|path| path.send(host.memory(), &head, &[], SendBody::Bytes(&[])));
        if acked == Err(ShmError::LaneFull) {
            self.refusal = Some(head);
        }
        self.blocked = Some(Reason::PeerRefused(remote_refusal(error)));
    }

    /// Everything from the first unacknowledged request on is sent again, and fails again if it has to.
    fn rewind(&mut self) {
        self.cursor.rewind();
        self.blocked = None;
    }

    /// The peer's process is gone: what waits for it fails, or is lost (UC).
    pub(crate) fn peer_died(&mut self, core: &mut QpCore, host: &mut impl Host) {
        if core.sq.is_empty() || !state::completes(core.state()) {
            return;
        }
        if core.qp_type == QpType::Uc {
            return self.lose_begun(core, host);
        }
        self.rewind();
        self.blocked = Some(Reason::NoAnswer { retries: core.attr.retry_count });
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: crate::time::Time) {
        self.wait.expire(now);
    }

    /// The lane may have room again.
    pub(crate) fn resume_sending(&mut self) {
        self.wait.resume_sending();
    }
}

/// Whether a request is a WRITE with immediate that would be one packet on the wire. A frame carries it: such a WRITE
/// changes nothing before there is a receive WQE for it (IB specification 9.7.5.2.8), and follows others at once.
#[inline]
fn is_one_packet_with_imm(core: &QpCore, wqe: &SendWqe) -> bool {
    matches!(wqe.op, SendOp::WriteImm(..)) && !wqe.executed && wqe.len_bytes <= core.mtu()
}

/// The path of a host that has one.
#[inline]
pub(super) fn path<H: Host>(host: &H) -> Result<&H::Path, ShmError> {
    host.path().ok_or(ShmError::PeerDead)
}

fn now<H: Host>(host: &H) -> crate::time::Time {
    host.path().map_or(crate::time::Time(0), ShmPath::now)
}
