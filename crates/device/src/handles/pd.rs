//! Protection domains.

use std::sync::Arc;

use memory::{MwType, Region};
use transport::{Access, PdId};

use crate::engine::EngineRef;
use crate::error::Error;
use crate::handles::mr::Mr;
use crate::handles::mw::Mw;
use crate::objects::mr::RegisteredMemory;
use crate::objects::pd::MemoryDomain;
use crate::objects::users::{Counted, Lease};

/// A protection domain: its regions, windows and queue pairs may be used together.
#[derive(Clone, Debug)]
pub struct Pd {
    handle: Arc<PdHandle>,
}

#[derive(Debug)]
struct PdHandle {
    domain: Arc<MemoryDomain>,
    engine: EngineRef,
}

impl Pd {
    pub(crate) fn new(engine: &EngineRef) -> Result<Pd, Error> {
        engine.check()?;
        let permit = engine.quotas.pds.take()?;
        let domain = Arc::new(MemoryDomain::new(engine.registry().clone(), permit));
        Ok(Pd { handle: Arc::new(PdHandle { domain, engine: engine.clone() }) })
    }

    /// Its number.
    pub fn id(&self) -> PdId {
        self.handle.domain.id()
    }

    /// Allocates `len_bytes` of zeroed memory and registers it. The memory lives as long as the `Mr`.
    ///
    /// The device allocates it as a memory file, on huge pages where there are some. Its addresses are those of the
    /// process, or start at zero with [`Access::ZERO_BASED`].
    ///
    /// # Errors
    /// If the system has no such memory, or the access makes no sense.
    pub fn allocate(&self, len_bytes: usize, access: Access) -> Result<Mr, Error> {
        let lease = self.lease_own()?;
        let region = Arc::new(Region::allocate(len_bytes as u64)?);
        self.mr(RegisteredMemory::of_region(lease, region, access))
    }

    /// Registers all of a region that the caller allocated and shares with this device.
    pub fn register_region(&self, region: &Arc<Region>, access: Access) -> Result<Mr, Error> {
        self.mr(RegisteredMemory::of_region(self.lease_own()?, region.clone(), access))
    }

    /// Allocates memory as [`allocate`](Pd::allocate) does, as plain bytes for the caller alone. No peer reaches it.
    ///
    /// Work requests reach it by the `Mr`'s lkey. A caller that posts one must not touch the piece until the work
    /// request has completed, or its queue pair has been destroyed.
    pub fn allocate_private(&self, len_bytes: usize) -> Result<(memory::Piece, Mr), Error> {
        self.register_private(memory::Piece::allocate(len_bytes as u64)?)
    }

    /// Registers a piece for its holder alone, as [`allocate_private`](Pd::allocate_private) does.
    ///
    /// # Errors
    /// If there are too many regions.
    #[allow(unsafe_code)]
    pub fn register_private(&self, piece: memory::Piece) -> Result<(memory::Piece, Mr), Error> {
        let lease = self.lease_own()?;
        // SAFETY: the region is registered without remote rights, so only work requests reach the bytes. The caller posts
        // those only for pieces that it has put away, as the documentation of this function demands.
        let region = unsafe { piece.region() }.clone();
        let mr = self.mr(RegisteredMemory::of_region(lease, region, Access::LOCAL_WRITE))?;
        Ok((piece, mr))
    }

    /// Registers memory that the caller owns. Peers and work requests name its bytes from
    /// `iova` on.
    ///
    /// With [`Access::ON_DEMAND`] the range need not be mapped, and may be unmapped and mapped again while it is
    /// registered. An access to a byte that is not mapped is refused like one beyond the region. A null `ptr` with
    /// `u64::MAX` bytes and `iova` 0 then means the whole address space. Each access to such memory costs system
    /// calls; an access to other memory costs none.
    ///
    /// # Errors
    /// If the range is not mapped, or its pages do not allow the access, or the access makes no sense.
    /// [`Access::FLUSH_PERSISTENT`] is always refused.
    ///
    /// # Safety
    /// The `len_bytes` bytes at `ptr` must stay mapped and readable until [`deregister`](Mr::deregister) has succeeded.
    /// Without it, they must stay so until the last clones of the `Mr` and of all memory windows bound to it are
    /// dropped. They must also stay writable if `access` has a write right. No reference to them may exist while peers
    /// or work requests may change them. Of on-demand memory this holds only for bytes that an atomic or ATOMIC WRITE
    /// works on, while it does.
    #[allow(unsafe_code)]
    pub unsafe fn register(&self, ptr: *mut u8, len_bytes: u64, iova: u64, access: Access) -> Result<Mr, Error> {
        let lease = self.lease_own()?;
        let spec = memory::MrSpec { pd: self.id(), ptr, len_bytes, iova, access };
        // SAFETY: the caller keeps the memory as this function's contract says, which is that of `of_program`.
        let mr = self.mr(unsafe { RegisteredMemory::of_program(lease, &spec) })?;
        self.handle.engine.services.counters.show_adoption();
        Ok(mr)
    }

    /// Registers no memory: a list entry of this region reads zeros at any address.
    ///
    /// Bytes that are written to it (with [`Access::LOCAL_WRITE`]) vanish. Peers cannot use it.
    ///
    /// # Errors
    /// For any other access than local write.
    pub fn register_null(&self, access: Access) -> Result<Mr, Error> {
        self.mr(RegisteredMemory::of_nothing(self.lease_own()?, access))
    }

    /// Allocates a memory window. Binding it is a work request.
    ///
    /// # Errors
    /// If there are no more.
    pub fn alloc_mw(&self, mw_type: MwType) -> Result<Mw, Error> {
        Mw::new(&self.handle.engine, self.lease_own()?, mw_type)
    }

    /// Destroys it.
    ///
    /// # Errors
    /// [`Error::Busy`] while it has regions, windows, queue pairs or shared receive queues.
    pub fn destroy(&self) -> Result<(), Error> {
        let PdHandle { domain, engine } = &*self.handle;
        engine.check()?;
        domain.users().close(MemoryDomain::WHAT)?;
        domain.free();
        Ok(())
    }

    fn mr(&self, memory: Result<RegisteredMemory, Error>) -> Result<Mr, Error> {
        Ok(Mr::new(&self.handle.engine, memory?))
    }

    /// A child's hold, if this is a protection domain of that engine.
    pub(crate) fn lease(&self, engine: &EngineRef) -> Result<Lease<MemoryDomain>, Error> {
        if !engine.is_same(&self.handle.engine) {
            return Err(Error::OtherDevice(MemoryDomain::WHAT));
        }
        self.lease_own()
    }

    fn lease_own(&self) -> Result<Lease<MemoryDomain>, Error> {
        self.handle.engine.check()?;
        Lease::new(&self.handle.domain)
    }
}
