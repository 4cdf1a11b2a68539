//! The areas of a port's sessions.

use std::sync::Arc;

use longarm::{Access, MemoryRegion, ProtectionDomain, ResourceError};
use parking_lot::Mutex;

use crate::verbs::area::VerbsArea;
use crate::verbs::shelf::AreaShelf;

/// Length of the memory that one side names where its way needs none: peers refuse less.
pub(crate) const UNUSED_BYTES: u64 = 64;

/// Makes areas: each a region of its own, or all as parts of one.
pub(crate) struct PortAreas {
    domain: ProtectionDomain,
    written: Arc<AreaShelf>,
    read: Arc<AreaShelf>,
    /// Memory that nobody reads. All sessions whose way needs none name it. Peers may write it as any other area: a WRITE with
    /// immediate data, which their way has not, arrives and ends their session.
    unused: Mutex<Option<Arc<MemoryRegion>>>,
}

impl PortAreas {
    pub(crate) fn new(domain: &ProtectionDomain) -> PortAreas {
        PortAreas {
            domain: domain.clone(),
            written: AreaShelf::new(Access::REMOTE_WRITE),
            read: AreaShelf::new(Access::REMOTE_READ),
            unused: Mutex::default(),
        }
    }

    /// Zeroed memory for WRITEs of a peer, or the shared piece if it needs none.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub(crate) fn written(&self, len_bytes: u64, one_region: bool) -> Result<VerbsArea, ResourceError> {
        match (len_bytes, one_region) {
            (0, _) => self.unused(),
            (_, true) => self.written.area(&self.domain, len_bytes),
            (_, false) => VerbsArea::written(&self.domain, len_bytes),
        }
    }

    /// Zeroed memory for READs of a peer.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub(crate) fn read(&self, len_bytes: u64, one_region: bool) -> Result<VerbsArea, ResourceError> {
        if one_region {
            return self.read.area(&self.domain, len_bytes);
        }
        VerbsArea::read(&self.domain, len_bytes)
    }

    fn unused(&self) -> Result<VerbsArea, ResourceError> {
        let mut unused = self.unused.lock();
        let region = match &*unused {
            Some(region) => Arc::clone(region),
            None => {
                Arc::clone(unused.insert(Arc::new(self.domain.expose(UNUSED_BYTES as usize, Access::REMOTE_WRITE)?)))
            }
        };
        Ok(VerbsArea::whole(&region))
    }
}
