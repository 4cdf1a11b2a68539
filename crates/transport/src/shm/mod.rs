//! Connections on one host: RC and UC without packets.
//!
//! The same roles as on the wire, but the peer's process is one lane away, and this processor reaches its memory:
//!
//! ```text
//!  send queue ─► requester ── SEND, ACKs, NAKs: frames ──► lane ──► (peer's responder)
//!  completions ◄────┤
//!                   └── WRITE, READ, atomics: done at once ──► the peer's memory
//!  (peer's requester) ── frames ──► lane ──► responder ──► memory, receive completions
//! ```
//!
//! A lane loses nothing, so nothing is sent again but after an RNR NAK, or while the peer's queue pair is not there
//! yet. A connection ends for the same reasons as on the wire: a refused request, RNR retries used up, a peer that
//! is absent for `retry_count` timeouts, the death of its process.
//!
//! Two things differ. A requester waits without a limit for a peer whose process is stopped. A UC message that finds
//! no receive WQE is lost as on the wire, but none is lost between the ends.

pub mod frame;
mod inline;
pub(crate) mod nak;
pub mod path;
pub mod remote_op;
mod requester;
mod responder;
mod wait;
pub(crate) mod write_at_once;

use crate::attr::{QpAttr, QpState};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::{Host, QpEvent};
use crate::qp_core::QpCore;
use crate::state;
use crate::time::Time;
use crate::wr::{RemoteAddr, SendWr};
use frame::{FrameHead, FrameKind};
use path::{ReceivedBody, SendBody, ShmError, ShmPath};
use requester::ShmRequester;
use responder::ShmResponder;
use write_at_once::WriteAtOnce;

/// The part of a queue pair that has its peer on this host.
#[derive(Debug, Default)]
pub(crate) struct ShmQp {
    requester: ShmRequester,
    responder: ShmResponder,
    drained_event_due: bool,
}

impl ShmQp {
    pub(crate) fn query(&self, core: &QpCore, attr: &mut QpAttr) {
        attr.draining = core.state() == QpState::Sqd && !self.requester.is_drained();
    }

    pub(crate) fn entered(&mut self, core: &mut QpCore, from: QpState, host: &mut impl Host) {
        match (from, core.state()) {
            (QpState::Init, QpState::Rtr) => self.responder.start(core),
            (QpState::Rtr, QpState::Rts) => self.requester.start(core),
            (QpState::Sqe, QpState::Rts) => self.requester.restart(),
            (QpState::Rts, QpState::Sqd) => self.drained_event_due = core.attr.notify_drained,
            _ => {}
        }
        self.note_drained(core, host);
    }

    pub(crate) fn failed(&mut self, core: &mut QpCore, host: &mut impl Host) {
        self.requester.stop();
        self.responder.flush(core, host);
    }

    #[inline]
    pub(crate) fn handle_frame<H: Host>(
        &mut self,
        core: &mut QpCore,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), DropReason> {
        if state::completes(core.state()) {
            let acknowledged = self.requester.acknowledge(core, head.ack, host);
            if head.kind == FrameKind::Ack {
                self.note_drained(core, host);
                return acknowledged;
            }
        }
        if head.kind == FrameKind::Refused {
            return self.responder.handle_refused(core, head, host);
        }
        if head.kind.is_request() {
            return self.responder.handle_request(core, head, body, host);
        }
        if !state::completes(core.state()) {
            return Err(DropReason::QpState);
        }
        let outcome = match head.kind {
            FrameKind::Data => self.requester.handle_data(core, head, body, host),
            FrameKind::Result => self.requester.handle_result(core, head, body, host),
            FrameKind::Reply => self.requester.handle_reply(core, head, body, host),
            _ => self.requester.handle_nak(core, head, host),
        };
        self.note_drained(core, host);
        outcome
    }

    /// Executes a request while it is posted, if nothing is before it.
    #[inline]
    pub(crate) fn execute_inline(&mut self, core: &mut QpCore, wr: &SendWr, host: &mut impl Host) -> bool {
        !self.responder.has_answer() && self.requester.execute_inline(core, wr, host)
    }

    /// Executes a WRITE of bytes that no key names, if nothing is before it.
    pub(crate) fn write_at_once(
        &mut self,
        core: &mut QpCore,
        bytes: &[u8],
        to: RemoteAddr,
        host: &mut impl Host,
    ) -> WriteAtOnce {
        match self.responder.has_answer() {
            true => WriteAtOnce::Later,
            false => self.requester.write_at_once(core, bytes, to, host),
        }
    }

    /// Executes a READ into bytes that no key names, if nothing is before it.
    #[inline]
    pub(crate) fn read_at_once(
        &mut self,
        core: &mut QpCore,
        out: &mut [u8],
        from: (RemoteAddr, Option<u64>),
        host: &mut impl Host,
    ) -> Option<u32> {
        if self.responder.has_answer() {
            return None;
        }
        self.requester.read_at_once(core, out, from, host)
    }

    /// Sends and executes until the queue is empty or has to wait; a waiting ACK leaves too, if `with_acks`.
    #[inline]
    pub(crate) fn progress(&mut self, core: &mut QpCore, with_acks: bool, host: &mut impl Host) {
        if !self.send_refused(host) {
            return;
        }
        if !self.responder.send_replies(core, false, host) {
            return self.wait_for_lane(host);
        }
        if !core.sq.is_empty() {
            self.requester.progress(core, self.responder.expected(), host);
            if self.requester.take_sent_ack() {
                self.responder.note_acked();
            }
            self.note_drained(core, host);
        }
        let due = with_acks || self.responder.has_urgent();
        if due && !self.responder.send_replies(core, true, host) {
            self.wait_for_lane(host);
        }
    }

    /// Sends the `Refused` frame that waits. False: the lane is full.
    fn send_refused(&mut self, host: &mut impl Host) -> bool {
        let Some(head) = self.requester.refusal else { return true };
        let Some(path) = host.path() else { return true };
        if path.send(host.memory(), &head, &[], SendBody::Bytes(&[])) == Err(ShmError::LaneFull) {
            self.wait_for_lane(host);
            return false;
        }
        self.requester.refusal = None;
        true
    }

    fn wait_for_lane(&mut self, host: &mut impl Host) {
        if let Some(path) = host.path() {
            self.requester.wait.for_room(path.now());
        }
    }

    /// Whether a `Refused` frame waits, and not for room.
    #[inline]
    pub(crate) fn has_refusal(&self) -> bool {
        self.requester.refusal.is_some() && !self.requester.wait.is_for_room()
    }

    /// A frame was lost: the message begins again.
    pub(crate) fn lose_frame(&mut self, head: &FrameHead) {
        self.responder.lose(head);
    }

    pub(crate) fn has_work(&self, core: &QpCore) -> bool {
        !self.requester.wait.is_for_room()
            && (self.responder.has_urgent() || self.requester.refusal.is_some() || self.requester.has_work(core))
    }

    /// Whether it waits for room in the lane.
    pub(crate) fn waits_for_lane(&self) -> bool {
        self.requester.wait.is_for_room()
    }

    pub(crate) fn resume_sending(&mut self) {
        self.requester.resume_sending();
    }

    /// Whether the peer is yet to hear of a refusal.
    pub(crate) fn has_refused(&self) -> bool {
        self.responder.has_answer()
    }

    pub(crate) fn ack_due(&self) -> bool {
        self.responder.ack_due()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.requester.wait.next_timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.requester.handle_timeout(now);
    }

    pub(crate) fn peer_died(&mut self, core: &mut QpCore, host: &mut impl Host) {
        self.requester.peer_died(core, host);
        self.note_drained(core, host);
    }

    /// The queue pair leaves its connection. ACKs and NAKs that wait leave before, or the peer would wait for them.
    pub(crate) fn send_last_frames(&mut self, core: &mut QpCore, host: &mut impl Host) {
        if self.send_refused(host) {
            self.responder.send_replies(core, true, host);
        }
    }

    #[inline]
    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        self.responder.take_failure().or_else(|| self.requester.take_failure())
    }

    fn note_drained(&mut self, core: &QpCore, host: &mut impl Host) {
        if self.drained_event_due && core.state() == QpState::Sqd && self.requester.is_drained() {
            self.drained_event_due = false;
            host.event(QpEvent::SendQueueDrained);
        }
    }
}

#[cfg(test)]
mod tests;
