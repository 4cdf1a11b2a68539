//! Retransmission: probes, timeouts, and the rewind to the oldest unacknowledged packet.

use crate::congestion::Congestion;
use crate::failure::QpFailure;
use crate::host::Host;
use crate::network::Transmit;
use crate::qp_core::QpCore;
use crate::rc::request::{RequestPart, SendCursor, build_request, packet_number};
use crate::rc::requester::RcRequester;
use crate::rc::retry::TimerDue;
use crate::reason::Reason;
use crate::time::Time;
use crate::wr::SendOp;

impl RcRequester {
    pub(super) fn cursor_to_una(&mut self, core: &QpCore) {
        let packet = core.sq.head().map_or(0, |head| packet_number(head, self.una));
        self.cursor = SendCursor { wqe: 0, packet };
        self.next = self.una;
    }

    /// Rewinds to the oldest unacknowledged packet.
    pub(in crate::rc) fn rewind(&mut self, core: &QpCore, now: Time) {
        self.cursor_to_una(core);
        self.reads.rewind();
        self.forget_scoreboard();
        self.blocked = None;
        self.probe.clear();
        self.since_ack_request = 0;
        self.retry.rewound();
        self.last_rewind = Some((self.una, now));
    }

    /// Rewinds after a sign of loss, unless this loss is known already.
    ///
    /// If a small receive buffer causes the losses, an immediate retransmission only repeats them: so every time
    /// without progress the window shrinks and the wait grows. Such times do not count against `retry_count`: the
    /// ACK timeout counts how long there was no progress, if it is set.
    pub(in crate::rc) fn rewind_after_loss(&mut self, core: &QpCore, now: Time) {
        match self.last_rewind {
            Some((una, at)) if una == self.una => {
                if now.since(at) < self.retry.quiet_period(self.futile_rewinds) {
                    return;
                }
                self.futile_rewinds += 1;
                self.congestion.on_loss_again();
                if !self.retry.has_timeout() && self.count_retry(core) {
                    return;
                }
            }
            _ => self.congestion.on_loss(self.una, self.sent),
        }
        self.rewind(core, now);
    }

    /// Counts a retry; tells whether it was one too many.
    pub(super) fn count_retry(&mut self, core: &QpCore) -> bool {
        self.retry.retries += 1;
        let retries = core.attr.retry_count;
        let failed = self.retry.retries > retries;
        if failed {
            let reason = match self.futile_rewinds {
                0 => Reason::NoAnswer { retries },
                _ => Reason::SequenceErrors { retries },
            };
            self.failure = Some(QpFailure::SendQueue(reason));
        }
        failed
    }

    pub(crate) fn handle_timeout(&mut self, core: &mut QpCore, now: Time) {
        match self.retry.expire(now) {
            TimerDue::Nothing | TimerDue::RnrOver => {}
            TimerDue::Probe => self.probe(core, now),
            TimerDue::Timeout => self.time_out(core, now),
        }
    }

    /// Sends the oldest packet again. Of READs and atomics only the oldest is asked for again: the peer may only be
    /// slow, and would answer everything twice. If its answer comes and nothing else does, the others were lost too.
    pub(super) fn probe(&mut self, core: &mut QpCore, now: Time) {
        core.counters.probes += 1;
        self.retry.rewound();
        if self.probe.take_answered_read(self.una) {
            self.rewind(core, now);
        } else {
            self.probe.request(self.una.before(self.sent));
        }
    }

    pub(super) fn time_out(&mut self, core: &mut QpCore, now: Time) {
        core.counters.ack_timeouts += 1;
        self.agreement.relax();
        if self.count_retry(core) {
            return;
        }
        self.congestion.on_timeout();
        self.rewind(core, now);
    }

    pub(super) fn send_probe(
        &mut self,
        core: &mut QpCore,
        now: Time,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        let head = core.sq.head()?;
        let packet = packet_number(head, self.una);
        let step = match head.op {
            SendOp::Read(_) => self.part_again(core, self.una).unwrap_or(1).min(head.packets - packet),
            _ => 1,
        };
        let (is_read, is_answered) = (matches!(head.op, SendOp::Read(_)), head.op.is_read_or_atomic());
        let cursor = SendCursor { wqe: 0, packet };
        let part = RequestPart { cursor, step, psn: self.una, ack_req: true, piggyback_ack: None };
        let len_bytes = match build_request(core, self.agreement.request_mark(), &part, out, host) {
            Ok(len_bytes) => len_bytes,
            Err(refused) => {
                self.probe.failed();
                self.failure = Some(QpFailure::SendQueue(Reason::LocalMemory(refused)));
                return None;
            }
        };
        let end = self.una.add(step);
        if is_answered {
            self.probe.sent_read(end)
        } else {
            self.probe.sent(self.una)
        }
        self.count(core, self.una, true, now);
        if is_read {
            self.reads.note_part(end, true);
        }
        if self.next == self.una {
            if is_answered {
                self.reads.push(end);
            }
            self.advance(core, step);
        }
        Some(core.transmit(len_bytes))
    }
}
