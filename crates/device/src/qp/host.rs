//! What a queue pair asks of the engine while it is locked.

use std::sync::Arc;

use memory::Registry;
use transport::{Completion, CqSide, PdId, QpEvent, RecvWr, ReorderBudget};

use crate::engine::Engine;
use crate::objects::counters::Counter;
use crate::objects::cq::{Added, CompletionRing};
use crate::objects::events::AsyncEvent;
use crate::qp::entry::{Parents, QpEntry};
use crate::shm::end::End;

/// The surroundings of one queue pair during one call.
pub(crate) struct Host<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) entry: &'a QpEntry,
    pub(crate) parents: &'a Parents,
    /// The way to a peer on this host.
    pub(crate) shm: Option<&'a End>,
    pub(crate) outcome: &'a mut Outcome,
}

/// What is to be done once no queue pair is locked.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Completion queues whose owners want to know.
    pub(crate) notices: Vec<Arc<CompletionRing>>,
    /// Completion queues that have overrun.
    pub(crate) overruns: Vec<Arc<CompletionRing>>,
    /// Threads nap that may wait for a completion which was added.
    pub(crate) wakes: bool,
}

impl Outcome {
    #[inline(always)]
    fn add(&mut self, cq: &Arc<CompletionRing>, completion: Completion) {
        match cq.add(completion) {
            Added::Quiet => {}
            Added::Notify => self.notices.push(cq.clone()),
            Added::Overrun => self.overruns.push(cq.clone()),
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.notices.is_empty() && self.overruns.is_empty() && !self.wakes
    }
}

impl transport::Host for Host<'_> {
    type Memory = Registry;
    type Path = End;

    #[inline]
    fn memory(&self) -> &Registry {
        self.engine.registry()
    }

    #[inline]
    fn path(&self) -> Option<&End> {
        self.shm
    }

    // On the path of every request that is done while it is posted.
    #[inline(always)]
    fn complete(&mut self, side: CqSide, completion: Completion) {
        if let Some(cq) = self.parents.cq(side) {
            self.outcome.add(cq, completion);
            self.outcome.wakes |= self.engine.is_napped_on();
        }
    }

    fn event(&mut self, event: QpEvent) {
        self.entry.context().events().push(AsyncEvent::Qp { qpn: self.entry.qpn(), event });
    }

    #[inline]
    fn take_shared_recv(&mut self) -> Option<RecvWr> {
        self.parents.srq()?.take()
    }

    fn xrc_srq(&mut self, srq: u32) -> Option<PdId> {
        Some(self.parents.xrc_srq(srq)?.pd())
    }

    fn take_xrc_recv(&mut self, srq: u32) -> Option<RecvWr> {
        self.parents.xrc_srq(srq)?.take()
    }

    fn complete_xrc(&mut self, srq: u32, completion: Completion) {
        if let Some(cq) = self.parents.xrc_srq(srq).and_then(|srq| srq.cq()) {
            self.outcome.add(&cq, completion);
            self.outcome.wakes |= self.engine.is_napped_on();
        }
    }

    fn reorder_budget(&self) -> Option<&Arc<ReorderBudget>> {
        Some(&self.engine.reorder)
    }

    #[inline]
    fn inject_receiver_not_ready(&mut self) -> bool {
        let refuse = self.engine.faults.refuse_recv();
        if refuse {
            self.engine.counters.add(Counter::FaultReceiverNotReady, 1);
        }
        refuse
    }
}
