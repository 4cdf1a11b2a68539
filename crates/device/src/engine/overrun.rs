//! What follows when queue pairs are unlocked again: telling those who wait, and failing
//! the queue pairs of completion queues that have overrun.

use std::sync::Arc;

use transport::Reason;

use crate::engine::Engine;
use crate::engine::scratch::Scratch;
use crate::objects::counters::Counter;
use crate::objects::cq::CompletionRing;
use crate::path::pump::Acks;
use crate::qp::entry::QpEntry;
use crate::qp::host::Host;

impl Engine {
    /// Carries out what the queue pairs asked for. No lock is held.
    #[inline]
    pub(crate) fn settle(&self, scratch: &mut Scratch) {
        while !scratch.outcome.is_quiet() {
            self.settle_once(scratch);
        }
    }

    fn settle_once(&self, scratch: &mut Scratch) {
        if std::mem::take(&mut scratch.outcome.wakes) {
            self.watch.ring();
        }
        for cq in std::mem::take(&mut scratch.outcome.notices) {
            cq.notify();
        }
        for cq in std::mem::take(&mut scratch.outcome.overruns) {
            self.counters.add(Counter::CqOverruns, 1);
            cq.report_overrun();
            self.slots.for_each_qp(|entry| self.fail_if_user(entry, &cq, scratch));
            self.pump_touched(scratch);
        }
    }

    /// A queue pair whose completions get lost cannot go on (IB specification 11.6.3.1).
    fn fail_if_user(&self, entry: &Arc<QpEntry>, cq: &Arc<CompletionRing>, scratch: &mut Scratch) {
        let mut cell = entry.lock();
        let Some(live) = cell.live.as_mut() else { return };
        if !live.parents.uses(cq) {
            return;
        }
        let host = &mut Host {
            engine: self,
            entry,
            parents: &live.parents,
            shm: live.shm.as_ref(),
            outcome: &mut scratch.outcome,
        };
        live.qp.fail(Reason::CompletionQueueOverrun, host);
        self.note_work(entry, &mut cell, scratch, Acks::Now);
    }
}
