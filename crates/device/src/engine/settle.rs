//! The work that follows when queue pairs are unlocked: notifying their completion queues, and failing the queue pairs
//! of completion queues that have overrun.

use std::sync::Arc;

use transport::Reason;

use crate::engine::Engine;
use crate::engine::pump::AckTiming;
use crate::engine::scratch::{PathScratch, ThreadScratch};
use crate::objects::counters::EngineCounter;
use crate::objects::cq::CompletionRing;
use crate::qp::entry::QpEntry;

impl Engine {
    /// Lends the thread's scratch to `work`. Then sends for ready queue pairs, and notifies their completion queues.
    #[inline]
    pub(crate) fn with_scratch<R>(&self, work: impl FnOnce(&mut ThreadScratch) -> R) -> R {
        ThreadScratch::with(|scratch| {
            let result = work(scratch);
            self.send_ready(&mut scratch.path);
            self.settle(&mut scratch.path);
            result
        })
    }

    /// Carries out the notices of queue pairs. The caller holds no lock.
    #[inline]
    pub(crate) fn settle(&self, scratch: &mut PathScratch) {
        if std::mem::take(&mut scratch.notices.changed_memory) {
            self.memory_watchers.note_change();
        }
        loop {
            if std::mem::take(&mut scratch.notices.completed) && self.watch.is_napped_on() {
                self.watch.ring();
            }
            if scratch.notices.is_empty() {
                return;
            }
            self.notify(scratch);
        }
    }

    fn notify(&self, scratch: &mut PathScratch) {
        for cq in std::mem::take(&mut scratch.notices.notify) {
            cq.notify();
        }
        for cq in std::mem::take(&mut scratch.notices.overruns) {
            self.services.counters.add(EngineCounter::CqOverruns, 1);
            cq.report_overrun();
            self.services.slots.for_each_qp(|entry| self.fail_if_user(entry, &cq, scratch));
            self.send_ready(scratch);
        }
    }

    /// Fails a queue pair that uses a completion queue which has lost completions (IB specification 11.6.3.1).
    fn fail_if_user(&self, entry: &Arc<QpEntry>, cq: &Arc<CompletionRing>, scratch: &mut PathScratch) {
        let mut cell = entry.lock();
        let Some(live) = cell.live.as_mut().filter(|live| live.parents.uses(cq)) else { return };
        let (qp, mut host) = live.hosted(&self.services, entry, &mut scratch.notices);
        qp.fail(Reason::CompletionQueueOverrun, &mut host);
        self.look_after(entry, &mut cell, scratch, AckTiming::Now);
    }
}
