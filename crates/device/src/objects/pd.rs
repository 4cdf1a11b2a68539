//! Protection domains, and the memory regions that outlive their handles.

use std::sync::Arc;

use memory::{MrError, MrId, Region, Registry};
use parking_lot::Mutex;
use transport::PdId;

use crate::objects::owner::OwnerProcess;
use crate::objects::quota::QuotaPermit;
use crate::objects::users::{Counted, UserCount};

/// A protection domain.
pub(crate) struct MemoryDomain {
    id: PdId,
    registry: Arc<Registry>,
    owner: OwnerProcess,
    users: UserCount,
    _permit: QuotaPermit,
    /// Regions without a handle to which memory windows are bound.
    orphans: Mutex<Vec<(MrId, Option<Arc<Region>>)>>,
}

impl Counted for MemoryDomain {
    const WHAT: &'static str = "protection domain";

    fn users(&self) -> &UserCount {
        &self.users
    }
}

impl MemoryDomain {
    pub(crate) fn new(registry: Arc<Registry>, permit: QuotaPermit) -> MemoryDomain {
        MemoryDomain {
            id: registry.alloc_pd(),
            registry,
            owner: OwnerProcess::this(),
            users: UserCount::default(),
            _permit: permit,
            orphans: Mutex::default(),
        }
    }

    pub(crate) fn id(&self) -> PdId {
        self.id
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn owner(&self) -> OwnerProcess {
        self.owner
    }

    /// Deregisters a region whose last handle is gone, now or when no window is bound to it any more.
    /// Until then its `memory` stays.
    pub(crate) fn abandon(&self, region: MrId, memory: Option<Arc<Region>>) {
        match self.registry.deregister(region) {
            Err(MrError::Busy) => self.orphans.lock().push((region, memory)),
            Err(error) => {
                log::error!("a memory region cannot be deregistered: {error}");
                std::mem::forget(memory);
            }
            Ok(()) => {}
        }
    }

    /// Deregisters the regions that waited for a window to go away.
    pub(crate) fn window_gone(&self) {
        self.orphans.lock().retain(|(region, _)| self.registry.deregister(*region) == Err(MrError::Busy));
    }

    /// Frees its number. No object of the domain exists any more.
    pub(crate) fn free(&self) {
        self.window_gone();
        if let Err(error) = self.registry.free_pd(self.id) {
            log::error!("protection domain {}: {error}", self.id.0);
        }
    }
}

impl std::fmt::Debug for MemoryDomain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pd").field("id", &self.id.0).finish_non_exhaustive()
    }
}

impl Drop for MemoryDomain {
    fn drop(&mut self) {
        if self.owner.is_this() && !self.users.is_closed() {
            self.free();
        }
    }
}
