//! Shared receive queues.

use std::sync::Arc;

use parking_lot::Mutex;
use transport::{PdId, PostError, RecvQueue, RecvWr};

use crate::error::Error;
use crate::objects::cq::CompletionRing;
use crate::objects::events::{AsyncEvent, AsyncEvents};
use crate::objects::ids::SrqId;
use crate::objects::owner::OwnerProcess;
use crate::objects::pd::MemoryDomain;
use crate::objects::quota::QuotaPermit;
use crate::objects::users::{Counted, Lease, UserCount};
use crate::objects::xrc::XrcDomain;

/// Attributes of a shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqAttr {
    /// The number of work requests that fit.
    pub max_wr: u32,
    /// The number of entries of their lists.
    pub max_sge: u32,
    /// The armed limit; zero while it is disarmed.
    pub limit: u32,
}

/// A shared receive queue as queue pairs see it.
#[derive(Debug)]
pub(crate) struct SharedRecvQueue {
    id: SrqId,
    /// XRC: the number by which peers name it.
    number: Option<u32>,
    pd: PdId,
    owner: OwnerProcess,
    /// The objects that it belongs to; `None` once it was destroyed.
    parents: Mutex<Option<SrqParents>>,
    events: Arc<AsyncEvents>,
    users: UserCount,
    _permit: QuotaPermit,
    queue: Mutex<RecvQueue>,
}

/// The values that a shared receive queue is made from.
pub(crate) struct SrqParts {
    pub(crate) id: SrqId,
    pub(crate) attr: SrqAttr,
    pub(crate) parents: SrqParents,
    pub(crate) events: Arc<AsyncEvents>,
    pub(crate) permit: QuotaPermit,
}

/// The objects that a shared receive queue belongs to.
#[derive(Debug)]
pub(crate) struct SrqParents {
    pub(crate) pd: Lease<MemoryDomain>,
    pub(crate) xrc: Option<XrcSrqParents>,
}

/// The further parents of a queue in an XRC domain.
#[derive(Debug)]
pub(crate) struct XrcSrqParents {
    pub(crate) xrcd: Lease<XrcDomain<SharedRecvQueue>>,
    pub(crate) cq: Lease<CompletionRing>,
}

impl Counted for SharedRecvQueue {
    const WHAT: &'static str = "shared receive queue";

    fn users(&self) -> &UserCount {
        &self.users
    }
}

impl SharedRecvQueue {
    /// Makes a queue, with a number if it is one of an XRC domain.
    pub(crate) fn new(parts: SrqParts, number: Option<u32>) -> SharedRecvQueue {
        let SrqParts { id, attr, parents, events, permit } = parts;
        debug_assert_eq!(parents.xrc.is_some(), number.is_some(), "only the queues of XRC domains have numbers");
        let mut queue = RecvQueue::new(attr.max_wr, attr.max_sge);
        queue.arm_limit(attr.limit);
        SharedRecvQueue {
            id,
            number,
            pd: parents.pd.id(),
            owner: OwnerProcess::this(),
            parents: Mutex::new(Some(parents)),
            events,
            users: UserCount::default(),
            _permit: permit,
            queue: Mutex::new(queue),
        }
    }

    pub(crate) fn id(&self) -> SrqId {
        self.id
    }

    /// XRC: the number by which peers name it.
    pub(crate) fn number(&self) -> Option<u32> {
        self.number
    }

    /// The domain whose keys its work requests use.
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    /// XRC: the completion queue that it completes to, while it exists.
    pub(crate) fn cq(&self) -> Option<Arc<CompletionRing>> {
        Some(self.parents.lock().as_ref()?.xrc.as_ref()?.cq.object().clone())
    }

    /// XRC: whether it completes to that queue.
    pub(crate) fn completes_to(&self, cq: &Arc<CompletionRing>) -> bool {
        self.cq().is_some_and(|own| Arc::ptr_eq(&own, cq))
    }

    /// Posts a list. If one is refused, returns its index and the reason.
    pub(crate) fn post(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), (usize, PostError)> {
        let mut queue = self.queue.lock();
        wrs.into_iter().enumerate().try_for_each(|(index, wr)| queue.post(wr).map_err(|error| (index, error)))
    }

    /// Takes the next work request, and reports the limit when it is crossed.
    pub(crate) fn take(&self) -> Option<RecvWr> {
        let (wr, crossed) = self.queue.lock().take()?;
        if crossed {
            self.events.push(AsyncEvent::SrqLimitReached(self.id));
        }
        Some(wr)
    }

    /// Arms the limit event; zero disarms it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the limit is above the capacity.
    pub(crate) fn arm_limit(&self, limit: u32) -> Result<(), Error> {
        let mut queue = self.queue.lock();
        if limit > queue.capacity() {
            return Err(Error::Invalid("the limit is above what the shared receive queue holds"));
        }
        queue.arm_limit(limit);
        Ok(())
    }

    /// Changes the capacity.
    ///
    /// # Errors
    /// [`Error::Invalid`] below the number of posted work requests or the limit.
    pub(crate) fn resize(&self, max_wr: u32) -> Result<(), Error> {
        let resized = self.queue.lock().resize(max_wr);
        resized.map_err(|_| Error::Invalid("the new size is below the number of posted requests or below the limit"))
    }

    pub(crate) fn attr(&self) -> SrqAttr {
        let queue = self.queue.lock();
        SrqAttr { max_wr: queue.capacity(), max_sge: queue.max_sge(), limit: queue.limit() }
    }

    /// Refuses a queue that was destroyed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.users.is_closed() { Err(Error::Destroyed(SharedRecvQueue::WHAT)) } else { Ok(()) }
    }

    /// Takes it out of its domain, forgets its work requests and frees its parents.
    pub(crate) fn end(&self) {
        let parents = self.parents.lock().take();
        if let (Some(SrqParents { xrc: Some(xrc), .. }), Some(number)) = (&parents, self.number) {
            xrc.xrcd.remove(number);
        }
        drop(parents);
        self.queue.lock().clear();
        self.events.forget(|event| *event == AsyncEvent::SrqLimitReached(self.id));
    }
}

impl Drop for SharedRecvQueue {
    fn drop(&mut self) {
        if self.owner.is_this() {
            self.end();
        }
    }
}
