//! Shared receive queues: one supply of buffers for many queue pairs.

use std::fmt;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::cq::CompletionQueue;
use crate::domain::ProtectionDomain;
use crate::error::ResourceError;
use crate::flight::{Delivery, Failure, Loan, WorkQueue};
use crate::posted::PostedRequest;
use crate::receive::{Receive, ReceiveTarget, post_recv};

/// A shared receive queue. Messages of all queue pairs that use it land in the buffers posted here,
/// in the order in which they arrive. [`Message::qpn`](crate::Message::qpn) tells the queue pair of
/// each.
///
/// A buffer that a queue pair has begun to fill when it is destroyed comes back when the shared
/// receive queue is dropped. A clone names the same queue.
///
/// ```no_run
/// # fn example(domain: longarm::ProtectionDomain, cq: longarm::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
/// let srq = domain.shared_receive_queue(&cq, 4096)?;
/// let messages: Vec<_> =
///     domain.allocate_many(64, 4096)?.into_iter().map(|buffer| srq.recv(buffer).start()).collect();
/// let qp = domain.rc(&cq).shared_receive_queue(&srq).build()?;      // and many more
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedReceiveQueue {
    core: Arc<SrqCore>,
}

struct SrqCore {
    srq: provider::Srq,
    domain: ProtectionDomain,
    cq: CompletionQueue,
    queue: Arc<WorkQueue>,
}

impl ProtectionDomain {
    /// Makes a shared receive queue for `depth` buffers. Its completions, and so those of all
    /// receives of the queue pairs that use it, come to `cq`.
    ///
    /// # Errors
    /// If the depth is zero or more than the device's limit.
    pub fn shared_receive_queue(&self, cq: &CompletionQueue, depth: u32) -> Result<SharedReceiveQueue, ResourceError> {
        SharedReceiveQueue::new(self, cq, depth)
    }
}

impl SharedReceiveQueue {
    pub(crate) fn new(
        domain: &ProtectionDomain,
        cq: &CompletionQueue,
        depth: u32,
    ) -> Result<SharedReceiveQueue, ResourceError> {
        let device = domain.device();
        if !cq.core().is_of(device) {
            return Err(ResourceError::OtherDevice("completion queue"));
        }
        let srq = device.handle().create_srq(domain.device_pd(), depth, LIST_LEN, 0)?;
        let queue = Arc::new(WorkQueue::new(device.next_queue(), depth, false));
        cq.core().attach(&queue)?;
        Ok(SharedReceiveQueue { core: Arc::new(SrqCore { srq, domain: domain.clone(), cq: cq.clone(), queue }) })
    }

    /// Posts a buffer for a message to any of the queue pairs.
    pub fn recv(&self, buffer: Buffer) -> Receive<'_> {
        Receive::new(&*self.core, Loan::Buffer(buffer))
    }

    /// Asks for one [event](crate::Event::SrqLimitReached) when fewer than `limit` buffers are
    /// left; zero asks for none.
    ///
    /// # Errors
    /// If the limit is above the depth.
    pub fn set_limit(&self, limit: u32) -> Result<(), ResourceError> {
        Ok(self.core.srq.modify(limit)?)
    }

    /// The number by which [events](crate::Event::SrqLimitReached) name it.
    pub fn id(&self) -> device::SrqId {
        self.core.srq.id()
    }

    /// Buffers that it holds at most.
    pub fn depth(&self) -> u32 {
        self.core.queue.depth()
    }

    /// Buffers that the device has: posted and not yet come back.
    pub fn lent(&self) -> u32 {
        self.core.queue.lent()
    }

    /// The queue that its completions go to.
    pub fn completion_queue(&self) -> &CompletionQueue {
        &self.core.cq
    }

    pub(crate) fn handle(&self) -> &provider::Srq {
        &self.core.srq
    }

    pub(crate) fn queue(&self) -> &Arc<WorkQueue> {
        &self.core.queue
    }

    pub(crate) fn is_of(&self, domain: &ProtectionDomain) -> bool {
        self.core.domain.id() == domain.id() && self.core.domain.device().is_same(domain.device())
    }
}

/// Entries of a receive's list.
const LIST_LEN: u32 = 4;

impl ReceiveTarget for SrqCore {
    fn post_recv(&self, loan: Loan, delivery: Delivery) -> Result<PostedRequest, Failure> {
        let post = |wr| self.srq.post([wr]);
        let key = post_recv(&self.queue, self.domain.id(), loan, delivery, post)?;
        Ok(PostedRequest { queue: Arc::clone(&self.queue), cq: Arc::clone(self.cq.core()), key })
    }
}

impl Drop for SrqCore {
    /// No queue pair uses it, since each holds a clone. So all posted buffers can be taken back.
    fn drop(&mut self) {
        if self.srq.destroy().is_err() {
            return;
        }
        let cq = self.cq.core();
        cq.announce(|effects| self.queue.reclaim(wire::Qpn::default(), effects));
        cq.detach(&self.queue);
    }
}

impl fmt::Debug for SharedReceiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedReceiveQueue({} of {})", self.lent(), self.depth())
    }
}
