//! Shared receive queues.

use std::sync::Arc;

use parking_lot::Mutex;
use transport::{RecvQueue, RecvWr};

use crate::engine::EngineRef;
use crate::error::{Error, PostFailure};
use crate::events::{AsyncEvent, EventQueue};
use crate::limits::{self, LIMITS};
use crate::pd::{Pd, PdShared};
use crate::users::{Counted, Lease, Users};

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
    engine: EngineRef,
    /// Held for as long as the queue exists; `None` once it was destroyed.
    pd: Mutex<Option<Lease<PdShared>>>,
    events: Arc<EventQueue>,
    users: Users,
    queue: Mutex<RecvQueue>,
}

impl Counted for SrqShared {
    const WHAT: &'static str = "shared receive queue";

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Srq {
    pub(crate) fn new(engine: &EngineRef, events: &Arc<EventQueue>, pd: &Pd, attr: &SrqAttr) -> Result<Srq, Error> {
        engine.check()?;
        let pd = pd.lease(engine)?;
        limits::check("shared receive queue size", attr.max_wr, LIMITS.max_srq_wr)?;
        limits::check("scatter/gather list length", attr.max_sge, LIMITS.max_srq_sge)?;
        let mut queue = RecvQueue::new(attr.max_wr, attr.max_sge);
        queue.arm_limit(attr.limit);
        let shared = SrqShared {
            id: SrqId(engine.next_id()),
            engine: engine.clone(),
            pd: Mutex::new(Some(pd)),
            events: events.clone(),
            users: Users::default(),
            queue: Mutex::new(queue),
        };
        Ok(Srq { shared: Arc::new(shared) })
    }

    /// Its number.
    pub fn id(&self) -> SrqId {
        self.shared.id
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
        Ok(self.shared.queue.lock().resize(max_wr)?)
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
        self.shared.queue.lock().clear();
        self.shared.pd.lock().take();
        self.shared.forget_events();
        Ok(())
    }
}

impl SrqShared {
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

    fn forget_events(&self) {
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
            self.forget_events();
        }
    }
}
