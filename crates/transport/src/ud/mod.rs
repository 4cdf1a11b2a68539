//! Unreliable datagram (IB specification 9.8.3): each message is one packet, to and from any queue pair that knows
//! the queue key.
//!
//! Drops are silent, and a receive WQE is used only for what arrives whole.

mod requester;
mod responder;

use wire::{Packet, TransportService};

use crate::attr::{QpAttr, QpState};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::{Host, QpEvent};
use crate::network::{RecvMeta, Transmit};
use crate::qp_core::QpCore;
use crate::state;
use crate::time::Time;
use crate::wr::UdDestination;
use responder::UdResponder;

/// The UD part of a queue pair.
#[derive(Debug, Default)]
pub(crate) struct UdQp {
    responder: UdResponder,
    failure: Option<QpFailure>,
    /// Nothing is sent before this.
    held_until: Option<Time>,
}

impl UdQp {
    pub(crate) fn query(&self, core: &QpCore, attr: &mut QpAttr) {
        attr.sq_psn = core.sq.head().map_or(core.sq.end_psn(), |head| head.first_psn);
        attr.path_mtu = core.tuning.max_datagram;
    }

    /// A datagram has left or not begun: SQD is drained at once (10.3.1, SQD).
    pub(crate) fn entered(&mut self, core: &mut QpCore, from: QpState, host: &mut impl Host) {
        if (from, core.state()) == (QpState::Rts, QpState::Sqd) && core.attr.notify_drained {
            host.event(QpEvent::SendQueueDrained);
        }
    }

    /// The queue pair enters the error state: a receive WQE that is held is flushed first.
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
        if packet.info().service != TransportService::Ud {
            return Err(DropReason::WrongService);
        }
        let outcome = self.responder.handle_datagram(core, packet, arrival, host);
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
        if !self.wants_transmit(core) {
            return None;
        }
        match requester::send_next(core, out, host) {
            Ok(transmit) => transmit,
            Err(reason) => {
                self.failure = Some(QpFailure::SendQueue(reason));
                None
            }
        }
    }

    pub(crate) fn wants_transmit(&self, core: &QpCore) -> bool {
        self.held_until.is_none() && core.state() == QpState::Rts && !core.sq.is_empty()
    }

    /// The destination of the next datagram, and its length in bytes.
    pub(crate) fn next_datagram(&self, core: &QpCore) -> Option<(UdDestination, u32)> {
        let head =
            core.sq.head().filter(|head| self.wants_transmit(core) && state::unsupported(core, head).is_none())?;
        head.datagram.as_deref().map(|datagram| (*datagram, head.len_bytes))
    }

    /// Defers sending until then, or until [`resume`](UdQp::resume).
    pub(crate) fn hold(&mut self, until: Time) {
        self.held_until = Some(until);
    }

    pub(crate) fn resume(&mut self) {
        self.held_until = None;
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.held_until
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.held_until = self.held_until.filter(|until| now < *until);
    }

    #[inline]
    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        self.failure.take()
    }
}

#[cfg(test)]
mod tests;
