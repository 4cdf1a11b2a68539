//! Shared receive queues.

use std::sync::Arc;

use parking_lot::Mutex;
use transport::{PdId, RecvQueue, RecvWr};

use crate::engine::EngineRef;
use crate::error::{Error, PostFailure};
use crate::handles::cq::{Cq, CqShared};
use crate::handles::pd::{Pd, PdShared};
use crate::handles::xrc::{Xrcd, XrcdShared};
use crate::objects::events::{AsyncEvent, EventQueue};
use crate::objects::limits;
use crate::objects::limits::LIMITS;
use crate::objects::quota::Place;
use crate::objects::users::{Counted, Lease, Users};

/// The number of a shared receive queue within its process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SrqId(pub u32);

/// Attributes of a shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqAttr {
    /// Work requests that fit.
    pub max_wr: u32,
    /// Entries of their lists.
    pub max_sge: u32,
    /// The armed limit; zero when disarmed.
    pub limit: u32,
}

/// A shared receive queue.
#[derive(Clone, Debug)]
pub struct Srq {
    pub(crate) shared: Arc<SrqShared>,
}

#[derive(Debug)]
pub(crate) struct SrqShared {
    id: SrqId,
    /// XRC: by which peers name it.
    number: Option<u32>,
    engine: EngineRef,
    pd: PdId,
    /// Held for as long as the queue exists; `None` once it was destroyed.
    parents: Mutex<Option<Parents>>,
    events: Arc<EventQueue>,
    users: Users,
    _place: Place,
    queue: Mutex<RecvQueue>,
}

#[derive(Debug)]
struct Parents {
    _pd: Lease<PdShared>,
    xrc: Option<XrcParents>,
}

/// What the queue of an XRC domain has besides.
#[derive(Debug)]
struct XrcParents {
    xrcd: Lease<XrcdShared>,
    cq: Lease<CqShared>,
}

impl Counted for SrqShared {
    const WHAT: &'static str = "shared receive queue";

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Srq {
    pub(crate) fn new(engine: &EngineRef, events: &Arc<EventQueue>, pd: &Pd, attr: &SrqAttr) -> Result<Srq, Error> {
        let parents = Parents { _pd: lease_pd(engine, pd, attr)?, xrc: None };
        let place = engine.quotas.srqs.take()?;
        Ok(Srq { shared: Arc::new(SrqShared::new(engine, events, pd, attr, (parents, place), None)) })
    }

    pub(crate) fn new_xrc(
        engine: &EngineRef,
        events: &Arc<EventQueue>,
        (pd, xrcd, cq): (&Pd, &Xrcd, &Cq),
        attr: &SrqAttr,
    ) -> Result<Srq, Error> {
        let lease = lease_pd(engine, pd, attr)?;
        if !engine.is_same(cq.shared().engine()) {
            return Err(Error::OtherDevice(CqShared::WHAT));
        }
        let xrc = XrcParents { xrcd: xrcd.lease(engine)?, cq: Lease::new(cq.shared())? };
        let parents = Parents { _pd: lease, xrc: Some(xrc) };
        let place = engine.quotas.srqs.take()?;
        let make = |number| SrqShared::new(engine, events, pd, attr, (parents, place), Some(number));
        Ok(Srq { shared: xrcd.shared.enter(make) })
    }

    /// Its number.
    pub fn id(&self) -> SrqId {
        self.shared.id
    }

    /// The number by which peers name it, for a queue of an XRC domain.
    pub fn number(&self) -> Option<u32> {
        self.shared.number
    }

    /// Posts a list of receive work requests; the first that is refused ends it. The
    /// list must not use this queue while it is being walked.
    ///
    /// # Errors
    /// The list is in part not posted; see [`PostFailure`].
    pub fn post(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostFailure> {
        self.shared.check().map_err(|error| PostFailure { index: 0, error })?;
        let mut queue = self.shared.queue.lock();
        for (index, wr) in wrs.into_iter().enumerate() {
            queue.post(wr).map_err(|error| PostFailure { index, error: error.into() })?;
        }
        Ok(())
    }

    /// Arms the limit event; zero disarms. If fewer work requests are posted already, the
    /// event comes with the next one that is taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the limit is above what fits.
    pub fn modify(&self, limit: u32) -> Result<(), Error> {
        self.shared.check()?;
        let mut queue = self.shared.queue.lock();
        if limit > queue.capacity() {
            return Err(Error::Invalid("the limit is above what the shared receive queue holds"));
        }
        queue.arm_limit(limit);
        Ok(())
    }

    /// Changes how many work requests fit.
    ///
    /// # Errors
    /// Below what is posted, or above the limit.
    pub fn resize(&self, max_wr: u32) -> Result<(), Error> {
        self.shared.check()?;
        limits::check("shared receive queue size", max_wr, LIMITS.max_srq_wr)?;
        let fits = self.shared.queue.lock().resize(max_wr);
        fits.map_err(|_| Error::Invalid("so many do not hold what is posted, or are fewer than the limit"))
    }

    /// Its attributes.
    pub fn query(&self) -> SrqAttr {
        let queue = self.shared.queue.lock();
        SrqAttr { max_wr: queue.capacity(), max_sge: queue.max_sge(), limit: queue.limit() }
    }

    /// Destroys it; what is posted is forgotten.
    ///
    /// # Errors
    /// [`Error::Busy`] while queue pairs use it.
    pub fn destroy(&self) -> Result<(), Error> {
        self.shared.engine.check()?;
        self.shared.users.close(SrqShared::WHAT)?;
        self.shared.end();
        Ok(())
    }
}

impl SrqShared {
    fn new(
        engine: &EngineRef,
        events: &Arc<EventQueue>,
        pd: &Pd,
        attr: &SrqAttr,
        (parents, place): (Parents, Place),
        number: Option<u32>,
    ) -> SrqShared {
        let mut queue = RecvQueue::new(attr.max_wr, attr.max_sge);
        queue.arm_limit(attr.limit);
        SrqShared {
            id: SrqId(engine.next_id()),
            number,
            engine: engine.clone(),
            pd: pd.id(),
            parents: Mutex::new(Some(parents)),
            events: events.clone(),
            users: Users::default(),
            _place: place,
            queue: Mutex::new(queue),
        }
    }

    /// Takes the next work request, and reports the limit when it is crossed.
    pub(crate) fn take(&self) -> Option<RecvWr> {
        let (wr, crossed) = self.queue.lock().take()?;
        if crossed {
            self.events.push(AsyncEvent::SrqLimitReached(self.id));
        }
        Some(wr)
    }

    pub(crate) fn engine(&self) -> &EngineRef {
        &self.engine
    }

    /// Whose keys its work requests use.
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    /// XRC: where its completions go, while it exists.
    pub(crate) fn cq(&self) -> Option<Arc<CqShared>> {
        Some(self.parents.lock().as_ref()?.xrc.as_ref()?.cq.shared().clone())
    }

    /// XRC: whether its completions go there.
    pub(crate) fn completes_to(&self, cq: &Arc<CqShared>) -> bool {
        self.cq().is_some_and(|own| Arc::ptr_eq(&own, cq))
    }

    /// It is gone: nobody finds it, what is posted is forgotten, and its parents are free.
    fn end(&self) {
        let parents = self.parents.lock().take();
        if let (Some(Parents { xrc: Some(xrc), .. }), Some(number)) = (&parents, self.number) {
            xrc.xrcd.remove(number);
        }
        drop(parents);
        self.queue.lock().clear();
        self.events.forget(|event| *event == AsyncEvent::SrqLimitReached(self.id));
    }

    fn check(&self) -> Result<(), Error> {
        self.engine.check()?;
        if self.users.is_closed() { Err(Error::Destroyed(SrqShared::WHAT)) } else { Ok(()) }
    }
}

impl Drop for SrqShared {
    fn drop(&mut self) {
        if self.engine.check().is_ok() {
            self.end();
        }
    }
}

/// Checks what a shared receive queue is made with, and holds its protection domain.
fn lease_pd(engine: &EngineRef, pd: &Pd, attr: &SrqAttr) -> Result<Lease<PdShared>, Error> {
    engine.check()?;
    limits::check("shared receive queue size", attr.max_wr, LIMITS.max_srq_wr)?;
    limits::check("scatter/gather list length", attr.max_sge, LIMITS.max_srq_sge)?;
    pd.lease(engine)
}
