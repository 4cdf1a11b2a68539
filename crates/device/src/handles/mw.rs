//! Memory windows: narrower, revocable rights to part of a region.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

use memory::{MwKeys, MwType};
use wire::RKey;

use crate::error::Error;
use crate::handles::pd::PdShared;
use crate::objects::users::Lease;

/// A memory window. Binding it is a work request ([`SendOp::Bind`](transport::SendOp::Bind)).
/// The last clone frees it, bound or not, when it is dropped.
#[derive(Clone, Debug)]
pub struct Mw {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pd: Lease<PdShared>,
    keys: MwKeys,
    mw_type: MwType,
    freed: AtomicBool,
}

impl Mw {
    pub(crate) fn new(pd: Lease<PdShared>, mw_type: MwType) -> Result<Mw, Error> {
        let keys = pd.engine().registry().alloc_mw(pd.id(), mw_type)?;
        Ok(Mw { shared: Arc::new(Shared { pd, keys, mw_type, freed: AtomicBool::new(false) }) })
    }

    /// The key it has now: a bind gives it another.
    pub fn rkey(&self) -> RKey {
        let info = self.shared.pd.engine().registry().mw_info(self.shared.keys.id);
        info.map_or(self.shared.keys.rkey, |info| info.rkey)
    }

    /// Its type.
    pub fn mw_type(&self) -> MwType {
        self.shared.mw_type
    }

    /// Frees it, unbinding it first if need be.
    ///
    /// # Errors
    /// [`Error::Destroyed`] if it was freed before.
    pub fn destroy(&self) -> Result<(), Error> {
        self.shared.pd.engine().check()?;
        self.shared.free()
    }
}

impl Shared {
    fn free(&self) -> Result<(), Error> {
        if self.freed.swap(true, AcqRel) {
            return Err(Error::Destroyed("memory window"));
        }
        self.pd.engine().registry().dealloc_mw(self.keys.id)?;
        self.pd.window_gone();
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.pd.engine().check().is_ok() {
            // Freed before is as good.
            let _ = self.free();
        }
    }
}
