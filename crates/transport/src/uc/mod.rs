//! Unreliable connection (IB specification 9.8.2): messages as on a reliable one, but nothing is acknowledged and
//! nothing sent again. The responder drops incomplete messages as a whole, in silence.
//!
//! ```text
//!  send queue ─► requester ── requests ──► (peer's responder)
//!  completions ◄─────┘  as the last packet leaves
//!               (peer's requester) ── requests ─► responder ─► memory, receive completions
//! ```

mod requester;
mod responder;

use wire::{Operation, Packet, TransportService};

use crate::attr::{QpAttr, QpState};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::{Host, QpEvent};
use crate::network::{RecvMeta, Transmit};
use crate::qp_core::QpCore;
use crate::time::Time;
use requester::UcRequester;
use responder::UcResponder;

/// The UC part of a queue pair.
#[derive(Debug, Default)]
pub(crate) struct UcQp {
    requester: UcRequester,
    responder: UcResponder,
    failure: Option<QpFailure>,
    drained_event_due: bool,
}

impl UcQp {
    pub(crate) fn query(&self, core: &QpCore, attr: &mut QpAttr) {
        attr.sq_psn = self.requester.next_psn(core);
        attr.rq_psn = self.responder.expected_psn();
        attr.draining = core.state() == QpState::Sqd && self.requester.is_mid_message();
    }

    pub(crate) fn entered(&mut self, core: &mut QpCore, from: QpState, host: &mut impl Host) {
        match (from, core.state()) {
            (QpState::Init, QpState::Rtr) => self.responder = UcResponder::starting_at(core.attr.rq_psn),
            (QpState::Rts, QpState::Sqd) => self.drained_event_due = core.attr.notify_drained,
            _ => {}
        }
        self.note_drained(core, host);
    }

    /// The queue pair enters the error state: a receive WQE that is in use is flushed first.
    pub(crate) fn failed(&mut self, core: &mut QpCore, host: &mut impl Host) {
        self.responder.flush(core, host);
    }

    pub(crate) fn handle_packet(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        arrival: &RecvMeta,
        _now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let info = packet.info();
        if !matches!(info.service, TransportService::Uc | TransportService::Cnp) {
            return Err(DropReason::WrongService);
        }
        if !core.is_from_peer(arrival) {
            return Err(DropReason::WrongSource);
        }
        if info.operation == Operation::Cnp {
            core.counters.rx_cnps += 1;
            return Ok(());
        }
        let outcome = self.responder.handle_request(core, packet, host);
        if outcome.is_err() {
            self.failure = self.responder.take_failure();
        }
        outcome
    }

    pub(crate) fn poll_transmit(
        &mut self,
        core: &mut QpCore,
        _now: Time,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        match self.requester.poll_transmit(core, out, host) {
            Ok(transmit) => {
                self.note_drained(core, host);
                transmit
            }
            Err(reason) => {
                self.failure = Some(QpFailure::SendQueue(reason));
                None
            }
        }
    }

    pub(crate) fn wants_transmit(&self, core: &QpCore) -> bool {
        self.requester.wants_transmit(core)
    }

    #[inline]
    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        self.failure.take()
    }

    /// Gives the event for SQD once no message is half sent (10.3.1, SQD).
    fn note_drained(&mut self, core: &QpCore, host: &mut impl Host) {
        if self.drained_event_due && core.state() == QpState::Sqd && !self.requester.is_mid_message() {
            self.drained_event_due = false;
            host.event(QpEvent::SendQueueDrained);
        }
    }
}

#[cfg(test)]
mod tests;
