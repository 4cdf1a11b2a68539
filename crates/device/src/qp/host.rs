//! The services of the device to one locked queue pair.

use std::sync::Arc;

use memory::Registry;
use transport::{Completion, CqSide, PdId, QpEvent, RecvWr, ReorderBudget};

use crate::objects::counters::EngineCounter;
use crate::objects::cq::{Added, CompletionRing};
use crate::objects::events::AsyncEvent;
use crate::qp::entry::{Live, QpEntry, QpParents};
use crate::qp::services::QpServices;
use crate::shm::endpoint::ShmEndpoint;

/// The host of one queue pair during one call.
pub(crate) struct QpHost<'a> {
    services: &'a QpServices,
    entry: &'a QpEntry,
    parents: &'a QpParents,
    shm: Option<&'a ShmEndpoint>,
    notices: &'a mut Notices,
}

/// The completion queues whose owners must be told something once no queue pair is locked.
#[derive(Default)]
pub(crate) struct Notices {
    /// Completion queues that owe an event.
    pub(crate) notify: Vec<Arc<CompletionRing>>,
    /// Completion queues that have overrun.
    pub(crate) overruns: Vec<Arc<CompletionRing>>,
    /// A completion was added: threads that nap may wait for it.
    pub(crate) completed: bool,
    /// A peer's request may have changed memory: threads that sleep may wait for that.
    pub(crate) changed_memory: bool,
}

impl Notices {
    #[inline(always)]
    fn add(&mut self, cq: &Arc<CompletionRing>, completion: Completion) {
        self.completed = true;
        match cq.add(completion) {
            Added::Quiet => {}
            Added::Notify => self.notify.push(cq.clone()),
            Added::Overrun => self.overruns.push(cq.clone()),
        }
    }

    /// Whether no completion queue needs anything.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.notify.is_empty() && self.overruns.is_empty()
    }
}

impl Live {
    /// The queue pair, and a host for calls of it.
    #[inline(always)]
    pub(crate) fn hosted<'a>(
        &'a mut self,
        services: &'a QpServices,
        entry: &'a QpEntry,
        notices: &'a mut Notices,
    ) -> (&'a mut transport::Qp, QpHost<'a>) {
        let Live { qp, parents, shm, .. } = self;
        (qp, QpHost { services, entry, parents, shm: shm.as_ref(), notices })
    }
}

impl<'a> QpHost<'a> {
    /// The queue pair's end of a shared-memory path, if it has one.
    pub(crate) fn endpoint(&self) -> Option<&'a ShmEndpoint> {
        self.shm
    }
}

impl transport::Host for QpHost<'_> {
    type Memory = Registry;
    type Path = ShmEndpoint;

    #[inline]
    fn memory(&self) -> &Registry {
        &self.services.registry
    }

    #[inline]
    fn path(&self) -> Option<&ShmEndpoint> {
        self.shm
    }

    // On the path of every request that completes while it is posted.
    #[inline(always)]
    fn complete(&mut self, side: CqSide, completion: Completion) {
        if let Some(cq) = self.parents.cq(side) {
            self.notices.add(cq, completion);
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
            self.notices.add(&cq, completion);
        }
    }

    fn reorder_budget(&self) -> Option<&Arc<ReorderBudget>> {
        Some(&self.services.reorder)
    }

    #[inline]
    fn inject_receiver_not_ready(&mut self) -> bool {
        let refuse = self.services.faults.refuse_recv();
        if refuse {
            self.services.counters.add(EngineCounter::FaultReceiverNotReady, 1);
        }
        refuse
    }
}
