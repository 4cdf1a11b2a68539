//! Fixtures that several test modules use.

use std::sync::Arc;

use transport::{Access, Accessor, LKey, PdId, Sge};
use wire::Qpn;

use crate::{MrKeys, Region, Registry};

/// Every right that a region can have, except zero-based addresses.
pub(crate) const ALL: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::MW_BIND);

/// The default first address of the regions made here.
pub(crate) const BASE: u64 = 0x10_0000;

pub(crate) struct Fixture {
    pub(crate) registry: Registry,
    pub(crate) pd: PdId,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let registry = Registry::new(42);
        let pd = registry.alloc_pd();
        Fixture { registry, pd }
    }

    /// A region of `len_bytes` from [`BASE`] on.
    pub(crate) fn region(&self, len_bytes: u64, access: Access) -> (Arc<Region>, MrKeys) {
        let region = Arc::new(Region::allocate(len_bytes).expect("a little memory"));
        let entered = self.registry.register_region(self.pd, region.clone(), Some(BASE), access);
        (region, entered.expect("an acceptable region"))
    }

    pub(crate) fn who(&self, qpn: u32) -> Accessor {
        accessor(self.pd, qpn)
    }
}

pub(crate) fn accessor(pd: PdId, qpn: u32) -> Accessor {
    Accessor { pd, qpn: Qpn::new(qpn) }
}

pub(crate) fn sge(lkey: LKey, addr: u64, len_bytes: u32) -> Sge {
    Sge { addr, len_bytes, lkey }
}

/// All bytes of a region.
pub(crate) fn contents(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len_bytes() as usize];
    region.span().read(&mut bytes);
    bytes
}
