//! Memory regions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

use memory::{MrKeys, MrSpec, Region};
use transport::{Access, LKey};
use wire::RKey;

use crate::error::Error;
use crate::handles::pd::{Pd, PdShared};
use crate::objects::users::Lease;

/// A memory region. The last clone deregisters it when it is dropped, and waits for
/// accesses under way. While memory windows are bound to it, it lives on until they are
/// unbound or gone.
#[derive(Clone, Debug)]
pub struct Mr {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pd: Lease<PdShared>,
    keys: MrKeys,
    /// Address in this process; a number, so that handles may cross threads.
    address: usize,
    addr: u64,
    len_bytes: u64,
    access: Access,
    region: Option<Arc<Region>>,
    deregistered: AtomicBool,
}

impl Mr {
    pub(crate) fn of_region(pd: Lease<PdShared>, region: Arc<Region>, access: Access) -> Result<Mr, Error> {
        let keys = pd.engine().registry().register_region(pd.id(), region.clone(), None, access)?;
        let spec = MrSpec::new(pd.id(), region.ptr(), region.len_bytes(), access);
        Ok(Mr::new(pd, keys, &spec, Some(region)))
    }

    /// # Safety
    /// As [`memory::Registry::register`], until the last clone is dropped or `deregister` has
    /// succeeded.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn of_memory(pd: Lease<PdShared>, spec: &MrSpec) -> Result<Mr, Error> {
        // SAFETY: passed on to the caller.
        let keys = unsafe { pd.engine().registry().register(spec) }?;
        pd.engine().counters.show_verdicts();
        Ok(Mr::new(pd, keys, spec, None))
    }

    pub(crate) fn of_nothing(pd: Lease<PdShared>, access: Access) -> Result<Mr, Error> {
        let keys = pd.engine().registry().register_null(pd.id(), access)?;
        let spec = MrSpec::new(pd.id(), std::ptr::null_mut(), u64::MAX, access);
        Ok(Mr::new(pd, keys, &spec, None))
    }

    fn new(pd: Lease<PdShared>, keys: MrKeys, spec: &MrSpec, region: Option<Arc<Region>>) -> Mr {
        let zero_based = spec.access.contains(Access::ZERO_BASED);
        let shared = Shared {
            pd,
            keys,
            address: spec.ptr.expose_provenance(),
            addr: if zero_based { 0 } else { spec.iova },
            len_bytes: spec.len_bytes,
            access: spec.access,
            region,
            deregistered: AtomicBool::new(false),
        };
        Mr { shared: Arc::new(shared) }
    }

    /// The key for our own work requests.
    pub fn lkey(&self) -> LKey {
        self.shared.keys.lkey
    }

    /// The key for peers. It gives them what the region's access says, no more.
    pub fn rkey(&self) -> RKey {
        self.shared.keys.rkey
    }

    /// The first address, as work requests and peers name it.
    pub fn addr(&self) -> u64 {
        self.shared.addr
    }

    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.shared.len_bytes
    }

    /// Where it lies in this process. Peers change the bytes at any time: copy, and make
    /// no references.
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.shared.address)
    }

    /// The memory behind it, if the device allocated it: to copy to and from safely.
    pub fn region(&self) -> Option<&Arc<Region>> {
        self.shared.region.as_ref()
    }

    /// What it was registered for.
    pub fn access(&self) -> Access {
        self.shared.access
    }

    /// Deregisters it: the keys are dead when this returns, and nobody is within the memory.
    ///
    /// # Errors
    /// [`Error::Memory`] with `EBUSY` while memory windows are bound to it,
    /// [`Error::Destroyed`] if it was deregistered before.
    pub fn deregister(&self) -> Result<(), Error> {
        self.shared.pd.engine().check()?;
        self.shared.deregister()
    }

    /// Registers other memory, with other rights or in another protection domain, under the same
    /// keys, and returns that. This one is deregistered then; if it is refused, it stands.
    ///
    /// # Errors
    /// As [`Pd::register`](crate::Pd::register) and [`deregister`](Mr::deregister).
    ///
    /// # Safety
    /// As [`Pd::register`](crate::Pd::register).
    #[allow(unsafe_code)]
    pub unsafe fn reregister(
        &self,
        pd: &Pd,
        ptr: *mut u8,
        len_bytes: u64,
        iova: u64,
        access: Access,
    ) -> Result<Mr, Error> {
        let engine = self.shared.pd.engine();
        engine.check()?;
        let lease = pd.lease(engine)?;
        if self.shared.deregistered.swap(true, AcqRel) {
            return Err(Error::Destroyed("memory region"));
        }
        let spec = MrSpec { pd: pd.id(), ptr, len_bytes, iova, access };
        // SAFETY: passed on to the caller.
        match unsafe { engine.registry().reregister(&self.shared.keys, &spec) } {
            Ok(()) => Ok(Mr::new(lease, self.shared.keys, &spec, None)),
            Err(error) => {
                self.shared.deregistered.store(false, std::sync::atomic::Ordering::Release);
                Err(error.into())
            }
        }
    }
}

impl Shared {
    fn deregister(&self) -> Result<(), Error> {
        if self.deregistered.swap(true, AcqRel) {
            return Err(Error::Destroyed("memory region"));
        }
        self.pd.engine().registry().deregister(self.keys.id).map_err(|error| {
            self.deregistered.store(false, std::sync::atomic::Ordering::Release);
            error.into()
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.pd.engine().check().is_err() || *self.deregistered.get_mut() {
            return;
        }
        self.pd.abandon(self.keys.id);
    }
}
