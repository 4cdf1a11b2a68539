//! Shared receive queues.

use std::sync::Arc;

use transport::{PdId, RecvWr};

use crate::engine::EngineRef;
use crate::error::{Error, PostFailure};
use crate::handles::cq::Cq;
use crate::handles::pd::Pd;
use crate::handles::xrc::Xrcd;
use crate::objects::events::AsyncEvents;
use crate::objects::ids::SrqId;
use crate::objects::limits::{self, LIMITS};
use crate::objects::pd::MemoryDomain;
use crate::objects::srq::{SharedRecvQueue, SrqAttr, SrqParents, SrqParts, XrcSrqParents};
use crate::objects::users::{Counted, Lease};

/// A shared receive queue.
#[derive(Clone, Debug)]
pub struct Srq {
    handle: Arc<SrqHandle>,
}

#[derive(Debug)]
struct SrqHandle {
    queue: Arc<SharedRecvQueue>,
    engine: EngineRef,
}

impl Srq {
    pub(crate) fn new(engine: &EngineRef, events: &Arc<AsyncEvents>, pd: &Pd, attr: &SrqAttr) -> Result<Srq, Error> {
        let parents = SrqParents { pd: lease_pd(engine, pd, attr)?, xrc: None };
        let queue = SharedRecvQueue::new(parts(engine, events, parents, attr)?, None);
        Ok(Srq::of(engine, Arc::new(queue)))
    }

    pub(crate) fn new_xrc(
        engine: &EngineRef,
        events: &Arc<AsyncEvents>,
        (pd, xrcd, cq): (&Pd, &Xrcd, &Cq),
        attr: &SrqAttr,
    ) -> Result<Srq, Error> {
        let pd = lease_pd(engine, pd, attr)?;
        let cq = cq.lease(engine)?;
        let domain = xrcd.lease(engine)?.object().clone();
        let xrc = XrcSrqParents { xrcd: xrcd.lease(engine)?, cq };
        let parts = parts(engine, events, SrqParents { pd, xrc: Some(xrc) }, attr)?;
        Ok(Srq::of(engine, domain.enter(|| engine.next_id(), |number| SharedRecvQueue::new(parts, Some(number)))))
    }

    fn of(engine: &EngineRef, queue: Arc<SharedRecvQueue>) -> Srq {
        Srq { handle: Arc::new(SrqHandle { queue, engine: engine.clone() }) }
    }

    fn queue(&self) -> &Arc<SharedRecvQueue> {
        &self.handle.queue
    }

    /// A queue pair's hold, if this is a queue of that engine.
    pub(crate) fn lease(&self, engine: &EngineRef) -> Result<Lease<SharedRecvQueue>, Error> {
        if !engine.is_same(&self.handle.engine) {
            return Err(Error::OtherDevice(SharedRecvQueue::WHAT));
        }
        Lease::new(self.queue())
    }

    /// The domain whose keys its work requests use.
    pub(crate) fn pd(&self) -> PdId {
        self.queue().pd()
    }

    /// Its number.
    pub fn id(&self) -> SrqId {
        self.queue().id()
    }

    /// The number by which peers name it, for a queue of an XRC domain.
    pub fn number(&self) -> Option<u32> {
        self.queue().number()
    }

    /// Posts a list of receive work requests; the first that is refused ends it. The
    /// list must not use this queue while the call walks it.
    ///
    /// # Errors
    /// The list is in part not posted; see [`PostFailure`].
    pub fn post(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostFailure> {
        self.check().map_err(|error| PostFailure { index: 0, error })?;
        self.queue().post(wrs).map_err(|(index, error)| PostFailure { index, error: error.into() })
    }

    /// Arms the limit event; zero disarms it. If fewer work requests are posted already, the
    /// event comes with the next one that is taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the limit is above the capacity.
    pub fn modify(&self, limit: u32) -> Result<(), Error> {
        self.check()?;
        self.queue().arm_limit(limit)
    }

    /// Changes the capacity.
    ///
    /// # Errors
    /// Below the number of posted work requests, or above the limit.
    pub fn resize(&self, max_wr: u32) -> Result<(), Error> {
        self.check()?;
        limits::check("shared receive queue size", max_wr, LIMITS.max_srq_wr)?;
        self.queue().resize(max_wr)
    }

    /// Its attributes.
    pub fn query(&self) -> SrqAttr {
        self.queue().attr()
    }

    /// Destroys it, and forgets its work requests.
    ///
    /// # Errors
    /// [`Error::Busy`] while queue pairs use it.
    pub fn destroy(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        self.queue().users().close(SharedRecvQueue::WHAT)?;
        self.queue().end();
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        self.queue().check()
    }
}

fn parts(
    engine: &EngineRef,
    events: &Arc<AsyncEvents>,
    parents: SrqParents,
    attr: &SrqAttr,
) -> Result<SrqParts, Error> {
    let permit = engine.quotas.srqs.take()?;
    Ok(SrqParts { id: SrqId(engine.next_id()), attr: *attr, parents, events: events.clone(), permit })
}

/// Checks the attributes of a shared receive queue, and holds its protection domain.
fn lease_pd(engine: &EngineRef, pd: &Pd, attr: &SrqAttr) -> Result<Lease<MemoryDomain>, Error> {
    engine.check()?;
    limits::check("shared receive queue size", attr.max_wr, LIMITS.max_srq_wr)?;
    limits::check("scatter/gather list length", attr.max_sge, LIMITS.max_srq_sge)?;
    pd.lease(engine)
}
