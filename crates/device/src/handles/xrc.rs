//! XRC domains: shared receive queues that targets of extended reliable connections reach by
//! number (IB specification, Annex A14).

use std::sync::Arc;

use crate::engine::EngineRef;
use crate::error::Error;
use crate::objects::srq::SharedRecvQueue;
use crate::objects::users::{Counted, Lease};
use crate::objects::xrc::XrcDomain;

/// The domain with its queues.
type SrqDomain = XrcDomain<SharedRecvQueue>;

/// An XRC domain. Each request that a target queue pair of it receives names one of its shared
/// receive queues.
#[derive(Clone, Debug)]
pub struct Xrcd {
    handle: Arc<XrcdHandle>,
}

#[derive(Debug)]
struct XrcdHandle {
    domain: Arc<SrqDomain>,
    engine: EngineRef,
}

impl Xrcd {
    pub(crate) fn new(engine: &EngineRef) -> Result<Xrcd, Error> {
        engine.check()?;
        let domain = Arc::new(SrqDomain::new());
        Ok(Xrcd { handle: Arc::new(XrcdHandle { domain, engine: engine.clone() }) })
    }

    /// Destroys it.
    ///
    /// # Errors
    /// [`Error::Busy`] while it has shared receive queues or queue pairs.
    pub fn destroy(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        self.handle.domain.users().close(SrqDomain::WHAT)
    }

    /// A child's hold, if this is a domain of that engine.
    pub(crate) fn lease(&self, engine: &EngineRef) -> Result<Lease<SrqDomain>, Error> {
        if !engine.is_same(&self.handle.engine) {
            return Err(Error::OtherDevice(SrqDomain::WHAT));
        }
        Lease::new(&self.handle.domain)
    }
}
