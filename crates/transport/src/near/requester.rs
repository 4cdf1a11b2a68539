//! The requester: carries WQEs out, in order.
//!
//! SENDs go as frames and stay in the queue until they are acknowledged. WRITEs, READs and atomics
//! are done at once by our own processor, as soon as everything before them is acknowledged: a
//! request that is refused must not have been overtaken by a later one. What we cannot reach
//! goes as a frame, too, and the peer carries it out.
//!
//! ```text
//!  send queue │ issued: frames that left │ part sent │ not begun ...
//!             └ una (its number)         └ sent_bytes
//! ```

use core::time::Duration;

use wire::{NakCode, Qpn};

use super::errand::{ERRAND_BYTES, Errand};
use super::frame::{Flags, Head, Kind};
use super::path::{Arrived, Body, Path, Stop};
use super::wait::Wait;
use crate::attr::{QpState, QpType};
use crate::core::Core;
use crate::drop::DropReason;
use crate::host::Host;
use crate::memory::{Memory, MemoryError, PdId};
use crate::qp::Failure;
use crate::queue::send::SendWqe;
use crate::reason::Reason;
use crate::wr::{Payload, RemoteAddr, SendFlags, SendOp};

/// For ever (IB specification 9.7.5.2.8).
const RNR_RETRY_FOREVER: u8 = 7;

/// What the head of the queue waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Nothing,
    /// The bytes of a READ; so many are here.
    Data {
        received: u32,
    },
    /// The result of an errand.
    Result,
}

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Another may follow.
    Done,
    /// It must wait for something.
    Wait,
}

#[derive(Debug)]
pub(crate) struct Requester {
    /// WQEs at the front of the queue whose frames have all left.
    issued: usize,
    /// WQEs at the front that were begun, now or before they were to be sent again.
    begun: usize,
    /// The number of the first request that is not acknowledged.
    una: u32,
    /// What was sent of the WQE after those issued.
    sent_bytes: u32,
    asked: Asked,
    /// The peer cannot reach what we lend.
    copies: bool,
    /// Changes with every new beginning, so that a late `NotReady` is not taken for a new one.
    /// Never zero.
    attempt: u16,
    /// A frame with an acknowledge has left.
    spoke: bool,
    pub(crate) wait: Wait,
    /// The next WQE cannot be carried out; it fails when those before it are done.
    blocked: Option<Reason>,
    /// Something to tell the peer.
    pub(crate) urgent: Option<Head>,
    failure: Option<Failure>,
}

impl Default for Requester {
    fn default() -> Requester {
        Requester {
            issued: 0,
            begun: 0,
            una: 0,
            sent_bytes: 0,
            asked: Asked::Nothing,
            copies: false,
            attempt: 1,
            spoke: false,
            wait: Wait::default(),
            blocked: None,
            urgent: None,
            failure: None,
        }
    }
}

impl Requester {
    /// RTR to RTS: requests are numbered from the starting PSN on.
    pub(crate) fn start(&mut self, core: &Core) {
        *self = Requester { una: core.attr.sq_psn.get(), ..Requester::default() };
    }

    /// Nothing more is sent, but for what the peer must know.
    pub(crate) fn stop(&mut self) {
        *self = Requester { urgent: self.urgent, failure: self.failure, ..Requester::default() };
    }

    /// The send queue goes on after an error (UC): nothing of it is under way.
    pub(crate) fn restart(&mut self) {
        (self.issued, self.begun) = (0, 0);
        self.rewind();
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.begun == 0
    }

    /// Whether frames have left since the last question: they carry the acknowledge.
    #[inline]
    pub(crate) fn has_spoken(&mut self) -> bool {
        core::mem::take(&mut self.spoke)
    }

    /// A failure, also the one of a blocked WQE when its turn has come.
    #[inline]
    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        if self.issued == 0 && self.failure.is_none() && self.blocked.is_some() {
            self.failure = self.blocked.take().map(Failure::SendQueue);
        }
        self.failure.take()
    }

    /// Whether a request could be carried out at once if the queue is empty.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        !self.wait.is_on() && self.blocked.is_none() && self.failure.is_none()
    }

    /// The oldest request has failed, for a reason of our own.
    pub(super) fn block(&mut self, reason: Reason) {
        self.blocked = Some(reason);
    }

    /// Whether there is a WQE to go on with.
    pub(crate) fn wants_to_go_on(&self, core: &Core) -> bool {
        self.may_work(core) && core.sq.get(self.issued).is_some_and(|wqe| self.may_begin(wqe))
    }

    /// Carries out whatever can be carried out now.
    #[inline]
    pub(crate) fn go_on(&mut self, core: &mut Core, ack: u32, host: &mut impl Host) {
        while self.may_work(core) && self.issued < core.sq.len() {
            if self.step(core, ack, host) == Step::Wait {
                return;
            }
        }
    }

    /// Whether the queue pair may work at all.
    #[inline]
    fn may_work(&self, core: &Core) -> bool {
        let state_allows = match core.state() {
            QpState::Rts => true,
            QpState::Sqd => self.issued < self.begun,
            _ => false,
        };
        state_allows && self.blocked.is_none() && self.failure.is_none() && !self.wait.is_on()
    }

    /// Whether a WQE need not wait for those before it.
    #[inline]
    fn may_begin(&self, wqe: &SendWqe) -> bool {
        self.issued == 0 || self.asked == Asked::Nothing && is_send(&wqe.op) && !wqe.flags.contains(SendFlags::FENCE)
    }

    #[inline]
    fn step(&mut self, core: &mut Core, ack: u32, host: &mut impl Host) -> Step {
        let Some(wqe) = core.sq.get(self.issued) else { return Step::Wait };
        if !self.may_begin(wqe) {
            return Step::Wait;
        }
        let outcome = match wqe.op {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_) => self.send(core, ack, host),
            SendOp::Write(remote) => self.write(core, remote, host),
            SendOp::WriteImm(remote, _) => self.write_imm(core, ack, remote, host),
            SendOp::Read(remote) => self.read(core, ack, remote, host),
            SendOp::LocalInvalidate(_) | SendOp::Bind(_) => self.local(core, host),
            SendOp::Atomic(..) | SendOp::AtomicWrite(_) | SendOp::Flush { .. } => self.errand(core, ack, host),
        };
        match outcome {
            Ok(()) => Step::Done,
            Err(Stop::Elsewhere) => self.ask_for_write(core, ack, host),
            Err(stop) => self.stopped(core, stop, host),
        }
    }

    /// One more frame of a SEND.
    #[inline]
    fn send(&mut self, core: &mut Core, ack: u32, host: &mut impl Host) -> Result<(), Stop> {
        let wqe = &core.sq.get(self.issued).ok_or(Stop::Full)?;
        let mut head = self.head(core, Kind::Send, ack);
        head.len_bytes = wqe.len_bytes;
        mark(&mut head, wqe);
        if self.sent_bytes == 0 {
            head.flags |= Flags::FIRST;
        }
        let taken = self.send_part(core, host, &head, &[], wqe)?;
        self.note_part(core, taken);
        Ok(())
    }

    /// Sends as much of the rest of a message as a frame takes.
    #[inline]
    fn send_part<H: Host>(
        &self,
        core: &Core,
        host: &H,
        head: &Head,
        prefix: &[u8],
        wqe: &SendWqe,
    ) -> Result<u32, Stop> {
        let offset = self.sent_bytes;
        let body = match &wqe.payload {
            Payload::Inline(bytes) => Body::Bytes(bytes.get(offset as usize..).unwrap_or_default()),
            Payload::Sgl(sgl) => Body::List {
                pd: core.pd,
                sgl,
                offset,
                left_bytes: wqe.len_bytes - offset,
                may_lend: !self.copies && head.kind == Kind::Send,
            },
        };
        path(host)?.send(host.memory(), head, prefix, body)
    }

    /// So much more of the WQE has left.
    #[inline]
    fn note_part(&mut self, core: &mut Core, taken: u32) {
        core.counters.tx_packets += 1;
        core.counters.tx_bytes += u64::from(taken);
        self.sent_bytes += taken;
        self.spoke = true;
        self.begun = self.begun.max(self.issued + 1);
        if core.sq.get(self.issued).is_some_and(|wqe| self.sent_bytes >= wqe.len_bytes) {
            self.issued += 1;
            self.sent_bytes = 0;
        }
    }

    /// A WRITE by our own processor, at the head of the queue.
    #[inline]
    fn write(&mut self, core: &mut Core, remote: RemoteAddr, host: &mut impl Host) -> Result<(), Stop> {
        self.write_now(core, remote, host)?;
        self.complete(core, host);
        Ok(())
    }

    #[inline]
    fn write_now<H: Host>(&mut self, core: &mut Core, remote: RemoteAddr, host: &H) -> Result<(), Stop> {
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        if self.sent_bytes > 0 {
            return Err(Stop::Elsewhere);
        }
        path(host)?.write(host.memory(), core.pd, &wqe.payload, remote)?;
        core.counters.tx_packets += 1;
        core.counters.tx_bytes += u64::from(wqe.len_bytes);
        Ok(())
    }

    /// A WRITE by our own processor, and then a notice that takes a receive WQE.
    fn write_imm(&mut self, core: &mut Core, ack: u32, remote: RemoteAddr, host: &mut impl Host) -> Result<(), Stop> {
        if !core.sq.head().is_some_and(|wqe| wqe.executed) {
            self.write_now(core, remote, host)?;
            if let Some(wqe) = core.sq.get_mut(0) {
                wqe.executed = true;
            }
            self.begun = self.begun.max(1);
        }
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        let mut head = self.head(core, Kind::Notice, ack);
        head.len_bytes = wqe.len_bytes;
        mark(&mut head, wqe);
        head.flags |= Flags::FIRST | Flags::LAST;
        path(host)?.send(host.memory(), &head, &[], Body::Bytes(&[]))?;
        self.note_whole();
        Ok(())
    }

    /// The head of the queue has left in one frame.
    fn note_whole(&mut self) {
        self.issued = 1;
        self.begun = self.begun.max(1);
        self.spoke = true;
    }

    /// A WRITE that the peer has to do.
    fn ask_for_write(&mut self, core: &mut Core, ack: u32, host: &mut impl Host) -> Step {
        match self.send_write_part(core, ack, host) {
            Ok(()) => Step::Done,
            Err(stop) => self.stopped(core, stop, host),
        }
    }

    fn send_write_part(&mut self, core: &mut Core, ack: u32, host: &mut impl Host) -> Result<(), Stop> {
        let wqe = core.sq.get(self.issued).ok_or(Stop::Full)?;
        let (SendOp::Write(remote) | SendOp::WriteImm(remote, _)) = wqe.op else { return Err(Stop::NotReady) };
        let mut head = self.head(core, Kind::Write, ack);
        head.len_bytes = wqe.len_bytes;
        let immediate = mark(&mut head, wqe);
        // The key travels before the address, since `value` may be the immediate.
        let mut prefix = [0; WRITE_PREFIX_BYTES];
        prefix[..8].copy_from_slice(&remote.addr.wrapping_add(u64::from(self.sent_bytes)).to_le_bytes());
        prefix[8..12].copy_from_slice(&remote.rkey.0.to_le_bytes());
        head.value = immediate.unwrap_or(0);
        if self.sent_bytes == 0 {
            head.flags |= Flags::FIRST;
        }
        let taken = self.send_part(core, host, &head, &prefix, wqe)?;
        self.note_part(core, taken);
        Ok(())
    }

    /// A READ by our own processor, or else by the peer.
    #[inline]
    fn read(&mut self, core: &mut Core, ack: u32, remote: RemoteAddr, host: &mut impl Host) -> Result<(), Stop> {
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        let Payload::Sgl(sgl) = &wqe.payload else { return Err(Stop::Local(MemoryError::NoPermission)) };
        match path(host)?.read(host.memory(), core.pd, sgl, wqe.len_bytes, remote) {
            Ok(()) => {
                self.complete(core, host);
                Ok(())
            }
            Err(Stop::Elsewhere) => self.ask_for_read(core, ack, remote, host),
            Err(stop) => Err(stop),
        }
    }

    fn ask_for_read(&mut self, core: &mut Core, ack: u32, remote: RemoteAddr, host: &impl Host) -> Result<(), Stop> {
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        let mut head = self.head(core, Kind::Read, ack);
        head.len_bytes = wqe.len_bytes;
        head.value = remote.rkey.0;
        head.flags = Flags::FIRST | Flags::LAST;
        path(host)?.send(host.memory(), &head, &remote.addr.to_le_bytes(), Body::Bytes(&[]))?;
        self.asked = Asked::Data { received: 0 };
        self.note_whole();
        Ok(())
    }

    /// An atomic and the like by our own processor, or else by the peer.
    #[inline]
    fn errand(&mut self, core: &mut Core, ack: u32, host: &mut impl Host) -> Result<(), Stop> {
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        let value = atomic_write_value(core.pd, wqe, host)?;
        let Some((errand, rkey)) = Errand::of(&wqe.op, value) else { return Err(Stop::NotReady) };
        match path(host)?.errand(&errand, rkey) {
            Ok(before) => self.complete_with(core, before, host),
            Err(Stop::Elsewhere) => {
                let mut head = self.head(core, Kind::Errand, ack);
                head.value = rkey.0;
                head.flags = Flags::FIRST | Flags::LAST;
                let bytes: [u8; ERRAND_BYTES] = errand.encode();
                path(host)?.send(host.memory(), &head, &bytes, Body::Bytes(&[]))?;
                self.asked = Asked::Result;
                self.note_whole();
                Ok(())
            }
            Err(stop) => Err(stop),
        }
    }

    /// Completes the head, with the result of an atomic.
    fn complete_with(&mut self, core: &mut Core, before: u64, host: &mut impl Host) -> Result<(), Stop> {
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        if let (SendOp::Atomic(..), Payload::Sgl(sgl)) = (&wqe.op, &wqe.payload) {
            host.memory().scatter(core.pd, sgl, 0, &before.to_ne_bytes()).map_err(Stop::Local)?;
        }
        self.complete(core, host);
        Ok(())
    }

    /// A bind or an invalidate of our own.
    fn local(&mut self, core: &mut Core, host: &mut impl Host) -> Result<(), Stop> {
        let who = core.accessor();
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        let outcome = match &wqe.op {
            SendOp::Bind(bind) => host.memory().bind(who, bind).map_err(Reason::BindRefused),
            SendOp::LocalInvalidate(rkey) => host.memory().invalidate(who, *rkey).map_err(Reason::LocalMemory),
            _ => Ok(()),
        };
        match outcome {
            Ok(()) => core.complete_head(host),
            Err(reason) => self.blocked = Some(reason),
        }
        Ok(())
    }

    /// The head was carried out without a frame.
    #[inline]
    fn complete(&mut self, core: &mut Core, host: &mut impl Host) {
        self.wait.progress();
        self.begun = self.begun.saturating_sub(1);
        core.complete_head(host);
    }

    /// A step could not be made.
    #[cold]
    fn stopped(&mut self, core: &mut Core, stop: Stop, host: &mut impl Host) -> Step {
        match stop {
            Stop::Full => self.wait.for_room(now(host)),
            Stop::Local(error) => self.blocked = Some(Reason::LocalMemory(error)),
            Stop::Dead | Stop::NotReady | Stop::Elsewhere | Stop::Remote(_) if core.qp_type == QpType::Uc => {
                // Nobody would have heard of the loss.
                let begun = self.sent_bytes > 0;
                self.lose_begun(core, host);
                if !begun {
                    core.counters.messages_dropped += 1;
                    self.complete(core, host);
                }
                return Step::Done;
            }
            Stop::Dead => self.peer_died(core, host),
            Stop::NotReady | Stop::Elsewhere => self.not_ready(core, host),
            Stop::Remote(error) => self.refused(core, error, host),
        }
        Step::Wait
    }

    /// The peer is not there (yet): tries again until its time is over.
    fn not_ready(&mut self, core: &mut Core, host: &mut impl Host) {
        self.rewind();
        if !self.wait.for_peer(now(host), &core.attr) {
            core.counters.ack_timeouts += u64::from(core.attr.retry_count) + 1;
            self.blocked = Some(Reason::NoAnswer { retries: core.attr.retry_count });
        }
    }

    /// The peer's memory refused what our own processor tried: as if it had sent a NAK.
    fn refused(&mut self, core: &mut Core, error: MemoryError, host: &mut impl Host) {
        core.counters.rx_error_naks += 1;
        let mut head = self.head(core, Kind::Refused, 0);
        head.code = error as u16;
        let told = path(host).and_then(|path| path.send(host.memory(), &head, &[], Body::Bytes(&[])));
        if told == Err(Stop::Full) {
            self.urgent = Some(head);
        }
        let code = match error {
            MemoryError::Misaligned => NakCode::InvalidRequest,
            _ => NakCode::RemoteAccessError,
        };
        self.blocked = Some(Reason::PeerRefused(code));
    }

    /// Everything from the first unacknowledged request on is sent again, and fails again if it has to.
    fn rewind(&mut self) {
        self.issued = 0;
        self.sent_bytes = 0;
        self.asked = Asked::Nothing;
        self.blocked = None;
        self.attempt = self.attempt.checked_add(1).unwrap_or(1);
    }

    #[inline]
    fn head(&self, core: &Core, kind: Kind, ack: u32) -> Head {
        let request = self.una.wrapping_add(self.issued as u32);
        Head { request, ack, code: self.attempt, ..Head::new(kind, core.qpn, core.attr.dest_qpn) }
    }

    /// The peer has carried out every request before `upto`.
    pub(crate) fn acknowledge(&mut self, core: &mut Core, upto: u32, host: &mut impl Host) -> Result<(), DropReason> {
        let count = upto.wrapping_sub(self.una) as usize;
        if count == 0 || is_before(upto, self.una) {
            return Ok(());
        }
        let answered = if self.asked == Asked::Nothing { self.issued } else { 0 };
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
    pub(crate) fn handle_nak(&mut self, core: &mut Core, head: &Head, host: &mut impl Host) -> Result<(), DropReason> {
        let index = head.request.wrapping_sub(self.una) as usize;
        let is_uc = core.qp_type == QpType::Uc;
        let is_known = match head.kind {
            // What was begun anew in the meantime is answered anew. It tells nothing of those before.
            Kind::NotReady => is_uc || head.code == 0 || head.code == self.attempt,
            Kind::RnrNak | Kind::Nak => !is_uc,
            _ => true,
        };
        if index >= self.issued + usize::from(self.sent_bytes > 0) || !is_known {
            return Err(DropReason::GhostResponse);
        }
        if head.kind == Kind::NotReady && !is_uc {
            self.not_ready(core, host);
            return Ok(());
        }
        self.acknowledge(core, head.request, host)?;
        match head.kind {
            Kind::NotReady => self.lose(core, host),
            Kind::Unlent => {
                self.copies = true;
                self.rewind();
            }
            Kind::RnrNak => self.receiver_not_ready(core, head.code, host),
            _ => {
                core.counters.rx_error_naks += 1;
                self.rewind();
                self.failure = Some(Failure::SendQueue(Reason::PeerRefused(nak_code(head.code))));
            }
        }
        Ok(())
    }

    /// UC: nobody took the oldest message that was begun.
    fn lose(&mut self, core: &mut Core, host: &mut impl Host) {
        core.counters.messages_dropped += 1;
        match self.issued {
            0 => self.sent_bytes = 0,
            _ => self.issued -= 1,
        }
        self.una = self.una.wrapping_add(1);
        self.complete(core, host);
    }

    /// UC: nobody will take what was begun.
    fn lose_begun(&mut self, core: &mut Core, host: &mut impl Host) {
        while self.issued > 0 || self.sent_bytes > 0 {
            self.lose(core, host);
        }
    }

    fn receiver_not_ready(&mut self, core: &mut Core, code: u16, host: &impl Host) {
        core.counters.rx_rnr_naks += 1;
        self.rewind();
        let limit = core.attr.rnr_retry;
        let retries = self.wait.for_receiver(now(host), wire::rnr_timer((code & 0x1f) as u8));
        if limit != RNR_RETRY_FOREVER && retries > limit {
            self.failure = Some(Failure::SendQueue(Reason::ReceiverNotReady { retries: limit }));
        }
    }

    /// A part of the answer to a READ.
    pub(crate) fn handle_data<H: Host>(
        &mut self,
        core: &mut Core,
        head: &Head,
        body: &impl Arrived<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), DropReason> {
        let (Asked::Data { received }, true) = (self.asked, head.request == self.una) else {
            return Err(DropReason::GhostResponse);
        };
        let wqe = core.sq.head().ok_or(DropReason::GhostResponse)?;
        let Payload::Sgl(sgl) = &wqe.payload else { return Err(DropReason::BadResponse) };
        let len = body.len_bytes(0);
        let ends = head.flags.contains(Flags::LAST);
        let fits = len <= wqe.len_bytes - received && ends == (received + len == wqe.len_bytes);
        if !fits {
            self.rewind();
            self.failure = Some(Failure::SendQueue(Reason::BadResponse));
            return Err(DropReason::BadResponse);
        }
        if let Err(stop) = body.scatter(host.memory(), 0, core.pd, sgl, u64::from(received)) {
            self.rewind();
            self.failure = Some(Failure::SendQueue(local_reason(stop)));
            return Ok(());
        }
        self.asked = Asked::Data { received: received + len };
        if ends {
            self.answered(core, host);
        }
        Ok(())
    }

    /// The answer to an errand.
    pub(crate) fn handle_result<H: Host>(
        &mut self,
        core: &mut Core,
        head: &Head,
        body: &impl Arrived<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), DropReason> {
        if self.asked != Asked::Result || head.request != self.una {
            return Err(DropReason::GhostResponse);
        }
        let mut before = [0; 8];
        body.front(&mut before);
        self.asked = Asked::Nothing;
        self.issued = 0;
        match self.complete_with(core, u64::from_le_bytes(before), host) {
            Ok(()) => self.una = self.una.wrapping_add(1),
            Err(stop) => self.failure = Some(Failure::SendQueue(local_reason(stop))),
        }
        Ok(())
    }

    /// The head has its answer.
    fn answered(&mut self, core: &mut Core, host: &mut impl Host) {
        self.asked = Asked::Nothing;
        self.issued = 0;
        self.una = self.una.wrapping_add(1);
        self.complete(core, host);
    }

    /// The peer's process is gone: what waits for it fails, or is lost (UC).
    pub(crate) fn peer_died(&mut self, core: &mut Core, host: &mut impl Host) {
        if core.sq.is_empty() || !matches!(core.state(), QpState::Rts | QpState::Sqd) {
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

    /// The time is a good one to look for room in the lane again.
    pub(crate) fn look_for_room(&mut self) {
        self.wait.look_for_room();
    }

    /// The peer's number, for frames that are not about a request.
    pub(crate) fn plain_head(core: &Core, kind: Kind) -> Head {
        let to: Qpn = core.attr.dest_qpn;
        Head::new(kind, core.qpn, to)
    }
}

/// Whether a number lies before another; they wrap.
#[inline]
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Bytes in front of the part of a WRITE: address and key.
pub(crate) const WRITE_PREFIX_BYTES: usize = 12;

/// The path of a host that has one.
#[inline]
pub(super) fn path<H: Host>(host: &H) -> Result<&H::Path, Stop> {
    host.path().ok_or(Stop::Dead)
}

fn now<H: Host>(host: &H) -> crate::time::Time {
    host.path().map_or(crate::time::Time(0), Path::now)
}

fn is_send(op: &SendOp) -> bool {
    matches!(op, SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_))
}

/// Marks what the peer's completion shows; returns the immediate data.
#[inline]
fn mark(head: &mut Head, wqe: &SendWqe) -> Option<u32> {
    head.flags.set(Flags::SOLICITED, wqe.flags.contains(SendFlags::SOLICITED));
    match wqe.op {
        SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => {
            head.flags |= Flags::IMM;
            head.value = imm;
            Some(imm)
        }
        SendOp::SendInvalidate(rkey) => {
            head.flags |= Flags::INVALIDATE;
            head.value = rkey.0;
            None
        }
        _ => None,
    }
}

/// The eight bytes of an ATOMIC WRITE.
fn atomic_write_value<H: Host>(pd: PdId, wqe: &SendWqe, host: &H) -> Result<[u8; 8], Stop> {
    let mut value = [0; 8];
    if matches!(wqe.op, SendOp::AtomicWrite(_)) {
        match &wqe.payload {
            Payload::Inline(bytes) if bytes.len() == 8 => value.copy_from_slice(bytes),
            Payload::Sgl(sgl) => host.memory().gather(pd, sgl, 0, &mut value).map_err(Stop::Local)?,
            Payload::Inline(_) => return Err(Stop::Local(MemoryError::OutOfBounds)),
        }
    }
    Ok(value)
}

fn local_reason(stop: Stop) -> Reason {
    match stop {
        Stop::Local(error) => Reason::LocalMemory(error),
        _ => Reason::BadResponse,
    }
}

fn nak_code(code: u16) -> NakCode {
    const ALL: [NakCode; 4] = [
        NakCode::InvalidRequest,
        NakCode::RemoteAccessError,
        NakCode::RemoteOperationalError,
        NakCode::InvalidRdRequest,
    ];
    ALL.into_iter().find(|known| *known as u16 == code).unwrap_or(NakCode::RemoteOperationalError)
}

/// How long a wait for the peer lasts at first and at most.
pub(super) const PEER_WAITS: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(10));
