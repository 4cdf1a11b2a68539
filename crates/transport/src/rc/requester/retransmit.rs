//! Retransmission: probes, timeouts, and the rewind to the oldest unacknowledged packet.

use crate::congestion::Congestion;
use crate::failure::QpFailure;
use crate::host::Host;
use crate::network::Transmit;
use crate::qp_core::QpCore;
use crate::rc::recovery::LossSign;
use crate::rc::request::{RequestPart, SendCursor, build_request, packet_number};
use crate::rc::requester::RcRequester;
use crate::rc::retry::TimerDue;
use crate::rc::selective::MissingPacket;
use crate::reason::Reason;
use crate::time::Time;
use crate::wr::SendOp;

impl RcRequester {
    /// Rewinds to the oldest unacknowledged packet (go-back-N, 9.7.5.1.1).
    pub(in crate::rc) fn rewind(&mut self, core: &QpCore, now: Time) {
        self.window.rewind(core);
        self.recovery.rewound(self.window.una, now);
        self.blocked = None;
    }

    /// Rewinds after a sign of loss, unless this loss is known already.
    ///
    /// If a small receive buffer causes the losses, an immediate retransmission only repeats them: so every time
    /// without progress the window shrinks and the wait grows. Such times do not count against `retry_count`: the
    /// ACK timeout counts how long there was no progress, if it is set.
    pub(in crate::rc) fn rewind_after_loss(&mut self, core: &QpCore, now: Time) {
        match self.recovery.judge(self.window.una, now) {
            LossSign::Known => return,
            LossSign::New => self.window.congestion.on_loss(self.window.una, self.window.sent),
            LossSign::Again => {
                self.window.congestion.on_loss_again();
                if !self.recovery.timers.has_timeout() && self.count_retry(core) {
                    return;
                }
            }
        }
        self.rewind(core, now);
    }

    /// Counts a retry; tells whether it was one too many.
    fn count_retry(&mut self, core: &QpCore) -> bool {
        let failure = self.recovery.count_retry(core.attr.retry_count);
        let failed = failure.is_some();
        self.failure = failure.or(self.failure.take());
        failed
    }

    pub(crate) fn handle_timeout(&mut self, core: &mut QpCore, now: Time) {
        match self.recovery.timers.expire(now) {
            TimerDue::Nothing | TimerDue::RnrOver => {}
            TimerDue::Probe => self.probe(core, now),
            TimerDue::Timeout => self.time_out(core, now),
        }
    }

    /// Sends the oldest packet again. Of READs and atomics only the oldest is asked for again: the peer may only be
    /// slow, and would answer everything twice. If its answer comes and nothing else does, the others were lost too.
    fn probe(&mut self, core: &mut QpCore, now: Time) {
        core.counters.probes += 1;
        self.recovery.timers.rewound();
        if self.recovery.probe.take_answered_read(self.window.una) {
            self.rewind(core, now);
        } else {
            self.recovery.probe.request(self.window.una.before(self.window.sent));
        }
    }

    fn time_out(&mut self, core: &mut QpCore, now: Time) {
        core.counters.ack_timeouts += 1;
        self.agreement.relax();
        if self.count_retry(core) {
            return;
        }
        self.window.congestion.on_timeout();
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
        let packet = packet_number(head, self.window.una);
        let step = match head.op {
            SendOp::Read(_) => self.window.part_again(core, self.window.una).unwrap_or(1).min(head.packets - packet),
            _ if head.op.is_extension() => head.packets_from(self.window.una),
            _ => 1,
        };
        let (is_read, is_answered) = (matches!(head.op, SendOp::Read(_)), head.op.is_read_or_atomic());
        let cursor = SendCursor { wqe: 0, packet };
        let part = RequestPart { cursor, step, psn: self.window.una, ack_req: true, piggyback_ack: None };
        let len_bytes = match build_request(core, self.agreement.request_mark(), &part, out, host) {
            Ok(len_bytes) => len_bytes,
            Err(refused) => {
                self.recovery.probe.failed();
                self.failure = Some(QpFailure::SendQueue(Reason::LocalMemory(refused)));
                return None;
            }
        };
        let end = self.window.una.add(step);
        if is_answered {
            self.recovery.probe.sent_read(end)
        } else {
            self.recovery.probe.sent(self.window.una)
        }
        self.count(core, self.window.una, true, now);
        if is_read {
            self.window.reads.note_part(end, true);
        }
        if self.window.next == self.window.una {
            if is_answered {
                self.window.reads.push(end);
            }
            self.window.advance(core, step);
        }
        Some(core.transmit(len_bytes))
    }

    /// Sends the next missing packet again.
    pub(super) fn send_repair(
        &mut self,
        core: &mut QpCore,
        now: Time,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        let MissingPacket { psn, cursor, more } = self.window.repair.due(core)?;
        let wqe = core.sq.get(cursor.wqe)?;
        let step = match wqe.op {
            SendOp::Read(_) => self.window.part_again(core, psn).unwrap_or(1).min(wqe.packets - cursor.packet),
            _ if wqe.op.is_extension() => wqe.packets_from(psn),
            _ => 1,
        };
        let part = RequestPart { cursor, step, psn, ack_req: !more, piggyback_ack: None };
        let len_bytes = match build_request(core, self.agreement.request_mark(), &part, out, host) {
            Ok(len_bytes) => len_bytes,
            Err(refused) => {
                // The rewind finds the same refusal in its turn, and reports it.
                self.blocked = Some(Reason::LocalMemory(refused));
                self.window.repair.clear();
                self.window.cursor = cursor;
                self.window.next = psn;
                return None;
            }
        };
        if matches!(wqe.op, SendOp::Read(_)) {
            self.window.reads.note_part(psn.add(step), true);
        }
        self.count(core, psn, !more, now);
        core.counters.repaired_packets += 1;
        self.window.repair.sent_again(core, psn, self.window.una, self.window.next);
        Some(core.transmit(len_bytes))
    }
}
