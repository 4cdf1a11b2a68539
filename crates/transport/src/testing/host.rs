//! A host that records what it is told.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::memory::TestMemory;
use super::shm_path::TestPath;
use crate::budget::ReorderBudget;
use crate::completion::{Completion, Status};
use crate::host::{CqSide, Host, QpEvent};
use crate::memory::PdId;
use crate::wr::RecvWr;

/// Memory, completions and events of one queue pair, and its shared receive queue.
#[derive(Debug, Default)]
pub(crate) struct TestHost {
    /// The peer's path reaches it, too.
    pub(crate) memory: Rc<TestMemory>,
    /// The shared-memory path to a peer on the same host.
    pub(crate) path: Option<TestPath>,
    /// Completions of the send queue, in order.
    pub(crate) sent: Vec<Completion>,
    /// Completions of the receive queue, in order.
    pub(crate) received: Vec<Completion>,
    pub(crate) events: Vec<QpEvent>,
    /// The shared receive queue.
    pub(crate) shared: VecDeque<RecvWr>,
    /// The shared receive queues of its XRC domain, by number.
    pub(crate) xrc: BTreeMap<u32, XrcQueue>,
    /// The bound on out-of-order packets of its queue pairs; `None`: no bound.
    pub(crate) budget: Option<Arc<ReorderBudget>>,
    /// The number of further times to act as if no receive WQE were posted.
    pub(crate) refuse_recv: u32,
}

/// A shared receive queue of an XRC domain, with its completions.
#[derive(Debug)]
pub(crate) struct XrcQueue {
    pub(crate) pd: PdId,
    pub(crate) wqes: VecDeque<RecvWr>,
    pub(crate) completions: Vec<Completion>,
}

impl TestHost {
    /// `(wr_id, status)` of every send completion so far; forgets them.
    pub(crate) fn take_sent(&mut self) -> Vec<(u64, Status)> {
        outcomes(&mut self.sent)
    }

    /// `(wr_id, status)` of every receive completion so far; forgets them.
    pub(crate) fn take_received(&mut self) -> Vec<(u64, Status)> {
        outcomes(&mut self.received)
    }
}

fn outcomes(completions: &mut Vec<Completion>) -> Vec<(u64, Status)> {
    completions.drain(..).map(|c| (c.wr_id, c.status)).collect()
}

impl Host for TestHost {
    type Memory = TestMemory;
    type Path = TestPath;

    fn memory(&self) -> &TestMemory {
        &self.memory
    }

    fn path(&self) -> Option<&TestPath> {
        self.path.as_ref()
    }

    fn complete(&mut self, side: CqSide, completion: Completion) {
        match side {
            CqSide::Send => self.sent.push(completion),
            CqSide::Recv => self.received.push(completion),
        }
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn take_shared_recv(&mut self) -> Option<RecvWr> {
        self.shared.pop_front()
    }

    fn xrc_srq(&mut self, srq: u32) -> Option<PdId> {
        self.xrc.get(&srq).map(|queue| queue.pd)
    }

    fn take_xrc_recv(&mut self, srq: u32) -> Option<RecvWr> {
        self.xrc.get_mut(&srq)?.wqes.pop_front()
    }

    fn complete_xrc(&mut self, srq: u32, completion: Completion) {
        if let Some(queue) = self.xrc.get_mut(&srq) {
            queue.completions.push(completion);
        }
    }

    fn reorder_budget(&self) -> Option<&Arc<ReorderBudget>> {
        self.budget.as_ref()
    }

    fn inject_receiver_not_ready(&mut self) -> bool {
        let refuse = self.refuse_recv > 0;
        self.refuse_recv = self.refuse_recv.saturating_sub(1);
        refuse
    }
}
