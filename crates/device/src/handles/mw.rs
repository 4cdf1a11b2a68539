//! Memory windows: narrower, revocable rights to part of a region.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

use memory::{MwKeys, MwType};
use wire::RKey;

use crate::engine::EngineRef;
use crate::error::Error;
use crate::objects::pd::MemoryDomain;
use crate::objects::users::Lease;

/// A memory window. Binding it is a work request ([`SendOp::Bind`](transport::SendOp::Bind)).
/// The last clone frees it, bound or not, when it is dropped.
#[derive(Clone, Debug)]
pub struct Mw {
    handle: Arc<MwHandle>,
}

#[derive(Debug)]
struct MwHandle {
    pd: Lease<MemoryDomain>,
    keys: MwKeys,
    mw_type: MwType,
    freed: AtomicBool,
    engine: EngineRef,
}

impl Mw {
    pub(crate) fn new(engine: &EngineRef, pd: Lease<MemoryDomain>, mw_type: MwType) -> Result<Mw, Error> {
        let keys = pd.registry().alloc_mw(pd.id(), mw_type)?;
        let handle = MwHandle { engine: engine.clone(), pd, keys, mw_type, freed: AtomicBool::new(false) };
        Ok(Mw { handle: Arc::new(handle) })
    }

    /// Its present key. Each bind gives it another.
    pub fn rkey(&self) -> RKey {
        let MwHandle { pd, keys, .. } = &*self.handle;
        pd.registry().mw_info(keys.id).map_or(keys.rkey, |info| info.rkey)
    }

    /// Its type.
    pub fn mw_type(&self) -> MwType {
        self.handle.mw_type
    }

    /// Frees it, and unbinds it first if it is bound.
    ///
    /// # Errors
    /// [`Error::Destroyed`] if it is freed already.
    pub fn destroy(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        self.handle.free()
    }
}

impl MwHandle {
    fn free(&self) -> Result<(), Error> {
        if self.freed.swap(true, AcqRel) {
            return Err(Error::Destroyed("memory window"));
        }
        self.pd.registry().dealloc_mw(self.keys.id)?;
        self.pd.window_gone();
        Ok(())
    }
}

impl Drop for MwHandle {
    fn drop(&mut self) {
        if self.engine.check().is_ok() {
            // An explicit `destroy` may have freed it.
            let _ = self.free();
        }
    }
}
