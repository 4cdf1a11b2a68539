//! Fixtures that the integration tests share.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use longarm_memory::{MrKeys, Region, Registry};
use transport::{Access, Accessor, LKey, PdId, Sge};
use wire::Qpn;

/// Every right that a region can have, except zero-based addresses.
pub(crate) const ALL: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::MW_BIND);

pub(crate) fn who(pd: PdId) -> Accessor {
    Accessor { pd, qpn: Qpn::new(1) }
}

pub(crate) fn sge(lkey: LKey, addr: u64, len_bytes: u32) -> Sge {
    Sge { addr, len_bytes, lkey }
}

/// A region whose addresses begin at zero.
pub(crate) fn region(registry: &Registry, pd: PdId, len_bytes: u64) -> (Arc<Region>, MrKeys) {
    let region = Arc::new(Region::allocate(len_bytes).expect("a little memory"));
    let keys = registry.register_region(pd, region.clone(), Some(0), ALL).expect("an acceptable region");
    (region, keys)
}

/// Stops the other threads of a test when dropped, also by a panic. Without it a failure would be a hang.
pub(crate) struct StopOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
