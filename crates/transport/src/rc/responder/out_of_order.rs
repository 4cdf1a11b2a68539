//! Requests ahead of sequence: something before them was lost, or is late.
//!
//! A peer that proves the agreement on selective retransmission is told which packets are missing, and early packets
//! are kept. Any other peer gets the NAK of the specification and sends again from the missing packet on.

use wire::{NakCode, Operation, Packet, Psn};

use super::RcResponder;
use crate::budget::BudgetShare;
use crate::drop::DropReason;
use crate::host::Host;
use crate::qp_core::QpCore;
use crate::rc::reorder::{KeepOutcome, Reorder};
use crate::rc::response::Response;

impl RcResponder {
    pub(super) fn handle_out_of_order(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        core.counters.out_of_sequence_requests += 1;
        match self.agreement.is_proven_by(packet.bth().mark) && self.keep(core, packet, host) {
            true => Ok(()),
            false => Err(DropReason::OutOfSequence),
        }
        .inspect_err(|_| self.nak_gap(core, packet.psn()))
    }

    /// One NAK says that something is missing; another only when the peer has begun to send again and lost again
    /// (its PSNs go back).
    fn nak_gap(&mut self, core: &mut QpCore, psn: Psn) {
        if self.reorder.is_some() {
            return;
        }
        let known = self.ahead.is_some_and(|highest| highest.before(psn));
        self.ahead = Some(psn);
        if !known {
            self.nak_sequence(core);
        }
    }

    fn nak_sequence(&mut self, core: &mut QpCore) {
        core.counters.tx_sequence_naks += 1;
        self.responses.refuse(Response::Nak { psn: self.expected, msn: self.msn, code: NakCode::PsnSequenceError });
    }

    /// Keeps a packet that came early, and sends a selective ACK if it tells something new. READs and atomics are
    /// not kept: the peer asks again with a small packet, and nothing is answered twice.
    fn keep(&mut self, core: &mut QpCore, packet: &Packet<'_>, host: &mut impl Host) -> bool {
        let psn = packet.psn();
        let may_be_kept = matches!(packet.info().operation, Operation::Send | Operation::Write);
        if self.reorder.is_none() && !may_be_kept {
            return false;
        }
        let expected = self.expected;
        let reorder = self
            .reorder
            .get_or_insert_with(|| Box::new(Reorder::new(BudgetShare::new(host.reorder_budget().cloned()))));
        let kept = match may_be_kept {
            true => reorder.keep(expected, psn, packet.bytes()),
            false => {
                reorder.refuse(psn);
                KeepOutcome::NoRoom
            }
        };
        if reorder.is_empty() {
            self.reorder = None;
            return false;
        }
        match kept {
            KeepOutcome::New => core.counters.kept_packets += 1,
            KeepOutcome::Already => core.counters.duplicate_requests += 1,
            KeepOutcome::Conflict => core.counters.conflicting_packets += 1,
            KeepOutcome::NoRoom => core.counters.unkept_packets += 1,
        }
        let follows = self.ahead.is_some_and(|last| last.next() == psn);
        self.ahead = Some(psn);
        if (!follows || packet.bth().ack_req || kept == KeepOutcome::Conflict) && !self.receiver_not_ready {
            self.push_sack(core);
        }
        matches!(kept, KeepOutcome::New | KeepOutcome::Already)
    }

    pub(super) fn push_sack(&mut self, core: &mut QpCore) {
        core.counters.tx_selective_acks += 1;
        self.responses.push_sack(self.expected, self.msn);
    }

    /// A packet in sequence has come: executes the kept ones that follow it.
    pub(super) fn execute_kept(&mut self, core: &mut QpCore, host: &mut impl Host) {
        let mut resumed = false;
        while let Some(bytes) = self.reorder.as_mut().and_then(|reorder| reorder.take(self.expected)) {
            // It was parsed when it came; its bytes are the same.
            let Ok(packet) = Packet::parse(&bytes) else { break };
            if let Err(refusal) = self.execute(core, &packet, host) {
                self.refuse(core, refusal, host);
                return;
            }
            resumed = true;
        }
        let Some(reorder) = &self.reorder else { return };
        self.ahead = reorder.highest();
        if !reorder.is_empty() {
            if resumed || self.responses.ends_plain() {
                self.push_sack(core);
            }
            return;
        }
        let refused = reorder.has_refused(self.expected);
        self.reorder = None;
        if refused {
            // More packets came than could be kept, and no other response would tell.
            self.nak_sequence(core);
        }
    }
}
