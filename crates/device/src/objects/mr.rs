//! Registered memory, from its registration to its deregistration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};

use memory::{MrKeys, MrSpec, Region};
use transport::Access;

use crate::error::Error;
use crate::objects::pd::MemoryDomain;
use crate::objects::users::Lease;

const WHAT: &str = "memory region";

/// A registered memory region. When it is dropped it is deregistered, or left to its domain while windows are bound.
#[derive(Debug)]
pub(crate) struct RegisteredMemory {
    pub(crate) pd: Lease<MemoryDomain>,
    pub(crate) keys: MrKeys,
    /// The address in this process, as a number so that handles may cross threads.
    pub(crate) address: usize,
    /// The first address as work requests and peers name it.
    pub(crate) addr: u64,
    pub(crate) len_bytes: u64,
    pub(crate) access: Access,
    /// The memory itself, if the device allocated it.
    pub(crate) region: Option<Arc<Region>>,
    deregistered: AtomicBool,
}

impl RegisteredMemory {
    /// Registers all of a region.
    #[allow(unsafe_code)]
    pub(crate) fn of_region(
        pd: Lease<MemoryDomain>,
        region: Arc<Region>,
        access: Access,
    ) -> Result<RegisteredMemory, Error> {
        let spec = MrSpec::new(pd.id(), region.ptr(), region.len_bytes(), access);
        let keys = if region.is_given() {
            memory::survive_unmapping()?;
            // SAFETY: this value keeps the region until it is deregistered, or leaves it to its domain, which keeps it.
            // The region's owner allows no reference to its bytes but those of a piece, whose holder answers for them.
            unsafe { pd.registry().register(&spec) }?
        } else {
            pd.registry().register_region(pd.id(), region.clone(), None, access)?
        };
        Ok(RegisteredMemory::new(pd, keys, &spec, Some(region)))
    }

    /// Registers no memory: reads bring zeros, writes vanish.
    pub(crate) fn of_nothing(pd: Lease<MemoryDomain>, access: Access) -> Result<RegisteredMemory, Error> {
        let keys = pd.registry().register_null(pd.id(), access)?;
        let spec = MrSpec::new(pd.id(), std::ptr::null_mut(), u64::MAX, access);
        Ok(RegisteredMemory::new(pd, keys, &spec, None))
    }

    /// Registers memory of the program.
    ///
    /// # Safety
    /// The contract of [`memory::Registry::register`], until the value is dropped or
    /// [`deregister`](RegisteredMemory::deregister) has succeeded.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn of_program(pd: Lease<MemoryDomain>, spec: &MrSpec) -> Result<RegisteredMemory, Error> {
        // SAFETY: this function's contract is that of `register`, and the region ends with this value at the latest.
        let keys = unsafe { pd.registry().register(spec) }?;
        Ok(RegisteredMemory::new(pd, keys, spec, None))
    }

    /// Registers other memory of the program under the same keys. This value counts as deregistered if that succeeds.
    ///
    /// # Safety
    /// The contract of [`memory::Registry::register`] for the memory that `spec` names, until the new value is dropped
    /// or deregistered.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn replace(&self, pd: Lease<MemoryDomain>, spec: &MrSpec) -> Result<RegisteredMemory, Error> {
        self.close()?;
        // SAFETY: this function's contract is that of `register`, and the new region ends with the new value.
        match unsafe { pd.registry().reregister(&self.keys, spec) } {
            Ok(()) => Ok(RegisteredMemory::new(pd, self.keys, spec, None)),
            Err(error) => {
                self.deregistered.store(false, Release);
                Err(error.into())
            }
        }
    }

    fn new(pd: Lease<MemoryDomain>, keys: MrKeys, spec: &MrSpec, region: Option<Arc<Region>>) -> RegisteredMemory {
        let zero_based = spec.access.contains(Access::ZERO_BASED);
        RegisteredMemory {
            pd,
            keys,
            address: spec.ptr.expose_provenance(),
            addr: if zero_based { 0 } else { spec.iova },
            len_bytes: spec.len_bytes,
            access: spec.access,
            region,
            deregistered: AtomicBool::new(false),
        }
    }

    /// Deregisters it. When this returns the keys are dead, and no access to the memory is under way.
    pub(crate) fn deregister(&self) -> Result<(), Error> {
        self.close()?;
        self.pd.registry().deregister(self.keys.id).map_err(|error| {
            self.deregistered.store(false, Release);
            error.into()
        })
    }

    /// Claims the deregistration for the caller.
    fn close(&self) -> Result<(), Error> {
        if self.deregistered.swap(true, AcqRel) { Err(Error::Destroyed(WHAT)) } else { Ok(()) }
    }
}

impl Drop for RegisteredMemory {
    fn drop(&mut self) {
        if self.pd.owner().is_this() && !*self.deregistered.get_mut() {
            self.pd.abandon(self.keys.id, self.region.take());
        }
    }
}
