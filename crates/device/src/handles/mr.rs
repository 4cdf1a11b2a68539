//! Memory regions.

use std::sync::Arc;

use memory::{CallHandler, MrSpec, Region};
use transport::{Access, LKey};
use wire::RKey;

use crate::engine::EngineRef;
use crate::error::Error;
use crate::handles::pd::Pd;
use crate::objects::mr::RegisteredMemory;

/// A memory region. The last clone deregisters it when it is dropped, and waits for accesses under way. While memory
/// windows are bound to it, it lives on until they are unbound or gone.
#[derive(Clone, Debug)]
pub struct Mr {
    handle: Arc<MrHandle>,
}

#[derive(Debug)]
struct MrHandle {
    memory: RegisteredMemory,
    engine: EngineRef,
}

impl Mr {
    pub(crate) fn new(engine: &EngineRef, memory: RegisteredMemory) -> Mr {
        Mr { handle: Arc::new(MrHandle { memory, engine: engine.clone() }) }
    }

    fn memory(&self) -> &RegisteredMemory {
        &self.handle.memory
    }

    /// The key for our own work requests.
    pub fn lkey(&self) -> LKey {
        self.memory().keys.lkey
    }

    /// The key for peers. It gives them the rights of the region's access and no others.
    pub fn rkey(&self) -> RKey {
        self.memory().keys.rkey
    }

    /// The first address, as work requests and peers name it.
    pub fn addr(&self) -> u64 {
        self.memory().addr
    }

    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.memory().len_bytes
    }

    /// Its address in this process. Peers change the bytes at any time: copy them, and make no references.
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.memory().address)
    }

    /// The memory behind it, if the device allocated it: to copy to and from safely.
    pub fn region(&self) -> Option<&Arc<Region>> {
        self.memory().region.as_ref()
    }

    /// True if this is the only handle.
    pub fn is_only_handle(&self) -> bool {
        Arc::strong_count(&self.handle) == 1
    }

    /// The rights that it was registered with.
    pub fn access(&self) -> Access {
        self.memory().access
    }

    /// Sets the handler of the calls that peers make to it: the device runs it, and its reply goes back. It runs on a thread
    /// that drives the device, with a queue pair locked, and must use no object of a device.
    ///
    /// # Errors
    /// [`Error::Memory`] if it has a handler, or was deregistered.
    pub fn serve_calls(&self, handler: Box<CallHandler>) -> Result<(), Error> {
        self.handle.engine.check()?;
        Ok(self.memory().pd.registry().serve_calls(&self.memory().keys, handler)?)
    }

    /// Takes the handler away, after the end of the calls under way.
    pub fn stop_calls(&self) {
        self.memory().pd.registry().stop_calls(&self.memory().keys);
    }

    /// Deregisters it. When this returns the keys are dead, and no access to the memory is under way.
    ///
    /// # Errors
    /// [`Error::Memory`] with `EBUSY` while memory windows are bound to it, [`Error::Destroyed`] if it is deregistered
    /// already.
    pub fn deregister(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        self.memory().deregister()
    }

    /// Registers other memory, with other rights or in another protection domain, under the same keys.
    ///
    /// It returns the new region and deregisters this one. If it fails, this one remains registered.
    ///
    /// # Errors
    /// Those of [`Pd::register`](crate::Pd::register) and [`deregister`](Mr::deregister).
    ///
    /// # Safety
    /// The contract of [`Pd::register`](crate::Pd::register).
    #[allow(unsafe_code)]
    pub unsafe fn reregister(
        &self,
        pd: &Pd,
        ptr: *mut u8,
        len_bytes: u64,
        iova: u64,
        access: Access,
    ) -> Result<Mr, Error> {
        let engine = &self.handle.engine;
        engine.check()?;
        let lease = pd.lease(engine)?;
        let spec = MrSpec { pd: pd.id(), ptr, len_bytes, iova, access };
        // SAFETY: the contract of `Pd::register`, which is this function's, covers the life of the returned handle.
        let memory = unsafe { self.memory().replace(lease, &spec) }?;
        Ok(Mr::new(engine, memory))
    }
}
