//! XRC domains: shared receive queues that targets of extended reliable connections reach by
//! number (IB specification, Annex A14).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::engine::EngineRef;
use crate::error::Error;
use crate::handles::cq::CqShared;
use crate::handles::srq::SrqShared;
use crate::objects::users::{Counted, Lease, Users};

/// Numbers of shared receive queues have 24 bits on the wire.
const NUMBER_MASK: u32 = 0xff_ffff;

/// An XRC domain. Each request that a target queue pair of it receives names one of its shared
/// receive queues.
#[derive(Clone, Debug)]
pub struct Xrcd {
    pub(crate) shared: Arc<XrcdShared>,
}

#[derive(Debug)]
pub(crate) struct XrcdShared {
    engine: EngineRef,
    users: Users,
    /// By number. The queues hold the domain, so it does not hold them.
    srqs: RwLock<HashMap<u32, Weak<SrqShared>>>,
}

impl Counted for XrcdShared {
    const WHAT: &'static str = "XRC domain";

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Xrcd {
    pub(crate) fn new(engine: &EngineRef) -> Result<Xrcd, Error> {
        engine.check()?;
        let shared = XrcdShared { engine: engine.clone(), users: Users::default(), srqs: RwLock::default() };
        Ok(Xrcd { shared: Arc::new(shared) })
    }

    /// Destroys it.
    ///
    /// # Errors
    /// [`Error::Busy`] while it has shared receive queues or queue pairs.
    pub fn destroy(&self) -> Result<(), Error> {
        self.shared.engine.check()?;
        self.shared.users.close(XrcdShared::WHAT)
    }

    /// A child's hold, if this is a domain of that engine.
    pub(crate) fn lease(&self, engine: &EngineRef) -> Result<Lease<XrcdShared>, Error> {
        if !engine.is_same(&self.shared.engine) {
            return Err(Error::OtherDevice(XrcdShared::WHAT));
        }
        Lease::new(&self.shared)
    }
}

impl XrcdShared {
    /// Enters what `make` makes for a number that is free in this domain.
    pub(crate) fn enter(&self, make: impl FnOnce(u32) -> SrqShared) -> Arc<SrqShared> {
        let mut srqs = self.srqs.write();
        let number = loop {
            let number = self.engine.next_id() & NUMBER_MASK;
            if number != 0 && !srqs.contains_key(&number) {
                break number;
            }
        };
        let srq = Arc::new(make(number));
        srqs.insert(number, Arc::downgrade(&srq));
        srq
    }

    /// From now on nobody finds that queue.
    pub(crate) fn remove(&self, number: u32) {
        self.srqs.write().remove(&number);
    }

    pub(crate) fn find(&self, number: u32) -> Option<Arc<SrqShared>> {
        self.srqs.read().get(&number)?.upgrade()
    }

    /// Whether completions of one of its queues go there.
    pub(crate) fn uses(&self, cq: &Arc<CqShared>) -> bool {
        // The last hold on a queue must not be dropped under the lock: it would take it too.
        let srqs: Vec<_> = self.srqs.read().values().filter_map(Weak::upgrade).collect();
        srqs.iter().any(|srq| srq.completes_to(cq))
    }
}
