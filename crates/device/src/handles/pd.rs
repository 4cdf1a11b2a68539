//! Protection domains: what may be used together.

use std::sync::Arc;

use memory::{MrError, MrId, MwType, Region};
use parking_lot::Mutex;
use transport::{Access, PdId};

use crate::engine::EngineRef;
use crate::error::Error;
use crate::handles::mr::Mr;
use crate::handles::mw::Mw;
use crate::objects::quota::Place;
use crate::objects::users::{Counted, Lease, Users};

/// A protection domain.
#[derive(Clone, Debug)]
pub struct Pd {
    shared: Arc<PdShared>,
}

#[derive(Debug)]
pub(crate) struct PdShared {
    id: PdId,
    engine: EngineRef,
    users: Users,
    _place: Place,
    /// Regions whose handles are gone while memory windows were bound to them.
    orphans: Mutex<Vec<MrId>>,
}

impl Counted for PdShared {
    const WHAT: &'static str = "protection domain";

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Pd {
    pub(crate) fn new(engine: &EngineRef) -> Result<Pd, Error> {
        engine.check()?;
        let place = engine.quotas.pds.take()?;
        let id = engine.registry().alloc_pd();
        let users = Users::default();
        let shared = PdShared { id, engine: engine.clone(), users, _place: place, orphans: Mutex::default() };
        Ok(Pd { shared: Arc::new(shared) })
    }

    /// Its number.
    pub fn id(&self) -> PdId {
        self.shared.id
    }

    /// Allocates `len_bytes` of zeroed memory in the device's own way (a memory file, on huge
    /// pages where there are some) and registers it. The memory lives as long as the `Mr`.
    /// Its addresses are those of the process, or from zero with [`Access::ZERO_BASED`].
    ///
    /// # Errors
    /// If there is no such memory to be had, or the access makes no sense.
    pub fn allocate(&self, len_bytes: usize, access: Access) -> Result<Mr, Error> {
        let lease = self.lease_own()?;
        let region = Arc::new(Region::allocate(len_bytes as u64)?);
        Mr::of_region(lease, region, access)
    }

    /// Registers all of a region that the caller allocated and shares with this device.
    pub fn register_region(&self, region: &Arc<Region>, access: Access) -> Result<Mr, Error> {
        Mr::of_region(self.lease_own()?, region.clone(), access)
    }

    /// Allocates memory as [`allocate`](Pd::allocate) does, as plain bytes that the caller
    /// has for itself, registered for local use only: no peer reaches it.
    ///
    /// Work requests reach it by the `Mr`'s lkey. Who posts one puts the piece away until it
    /// has completed, or its queue pair has been destroyed.
    #[allow(unsafe_code)]
    pub fn allocate_private(&self, len_bytes: usize) -> Result<(memory::Piece, Mr), Error> {
        let lease = self.lease_own()?;
        let piece = memory::Piece::allocate(len_bytes as u64)?;
        // SAFETY: the region is only registered, without remote rights. Work requests are the one
        // way to it, and they are posted for pieces that were put away.
        let region = unsafe { piece.region() }.clone();
        let mr = Mr::of_region(lease, region, Access::LOCAL_WRITE)?;
        Ok((piece, mr))
    }

    /// Registers memory that the caller owns. Peers and work requests name its bytes from
    /// `iova` on.
    ///
    /// With [`Access::ON_DEMAND`] the range need not be mapped, and may be unmapped and mapped
    /// again while it is registered. An access where nothing is mapped is refused as one beyond the
    /// region would be. A null `ptr` with `u64::MAX` bytes and `iova` 0 then means the whole
    /// address space. Each access costs system calls; other memory needs none.
    ///
    /// # Errors
    /// If the range is not mapped or its pages do not allow the access, or the access makes
    /// no sense. [`Access::FLUSH_PERSISTENT`] is always refused.
    ///
    /// # Safety
    /// The `len_bytes` bytes at `ptr` (of on-demand memory only those that an atomic or ATOMIC
    /// WRITE works on, while it does) must stay mapped, readable (and writable if `access` has
    /// a write right) until [`deregister`](Mr::deregister) has succeeded, or the last clones of
    /// the `Mr` and of all memory windows bound to it are dropped; and nothing may hold a
    /// reference to them while peers or work requests may change them.
    #[allow(unsafe_code)]
    pub unsafe fn register(&self, ptr: *mut u8, len_bytes: u64, iova: u64, access: Access) -> Result<Mr, Error> {
        let lease = self.lease_own()?;
        let spec = memory::MrSpec { pd: self.id(), ptr, len_bytes, iova, access };
        // SAFETY: the caller promises for the memory just what `register` asks.
        unsafe { Mr::of_memory(lease, &spec) }
    }

    /// Registers no memory: whatever the address, a list entry of this region reads zeros, and
    /// what is written to it (with [`Access::LOCAL_WRITE`]) vanishes. Peers cannot use it.
    ///
    /// # Errors
    /// For any other access than local write.
    pub fn register_null(&self, access: Access) -> Result<Mr, Error> {
        Mr::of_nothing(self.lease_own()?, access)
    }

    /// Allocates a memory window. Binding it is a work request.
    ///
    /// # Errors
    /// If there are no more.
    pub fn alloc_mw(&self, mw_type: MwType) -> Result<Mw, Error> {
        Mw::new(self.lease_own()?, mw_type)
    }

    /// Destroys it.
    ///
    /// # Errors
    /// [`Error::Busy`] while it has regions, windows, queue pairs or shared receive queues.
    pub fn destroy(&self) -> Result<(), Error> {
        self.shared.engine.check()?;
        self.shared.users.close(PdShared::WHAT)?;
        self.shared.free();
        Ok(())
    }

    /// A child's hold, if this is a protection domain of that engine.
    pub(crate) fn lease(&self, engine: &EngineRef) -> Result<Lease<PdShared>, Error> {
        if !engine.is_same(&self.shared.engine) {
            return Err(Error::OtherDevice(PdShared::WHAT));
        }
        self.lease_own()
    }

    fn lease_own(&self) -> Result<Lease<PdShared>, Error> {
        self.shared.engine.check()?;
        Lease::new(&self.shared)
    }
}

impl PdShared {
    pub(crate) fn id(&self) -> PdId {
        self.id
    }

    pub(crate) fn engine(&self) -> &EngineRef {
        &self.engine
    }

    /// Ends a region whose last handle is gone, now or when no window is bound to it any more.
    pub(crate) fn abandon(&self, region: MrId) {
        match self.engine.registry().deregister(region) {
            Err(MrError::Busy) => self.orphans.lock().push(region),
            Err(error) => log::error!("a memory region cannot be deregistered: {error}"),
            Ok(()) => {}
        }
    }

    /// A window is gone: regions may have waited for that.
    pub(crate) fn window_gone(&self) {
        self.orphans.lock().retain(|region| self.engine.registry().deregister(*region) == Err(MrError::Busy));
    }

    fn free(&self) {
        self.window_gone();
        if let Err(error) = self.engine.registry().free_pd(self.id) {
            log::error!("protection domain {}: {error}", self.id.0);
        }
    }
}

impl Drop for PdShared {
    fn drop(&mut self) {
        if self.engine.check().is_ok() && !self.users.is_closed() {
            self.free();
        }
    }
}
