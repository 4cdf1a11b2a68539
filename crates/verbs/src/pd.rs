//! Protection domains.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use abi::{ibv_ah, ibv_mr, ibv_mw, ibv_pd};
use device::Error;
use memory::{Piece, Region};
use parking_lot::Mutex;
use transport::{Access, AddressVector, LKey, PdId};
use wire::RKey;

use crate::device_handle::DeviceHandle;
use crate::failure::{check, last};
use crate::mr::Mr;
use crate::mw::Mw;
use crate::qp_attr;
use device::MwType;

/// A protection domain. It is freed when its last clone and all objects made in it are gone.
#[derive(Clone, Debug)]
pub struct Pd {
    handle: Arc<OwnedPd>,
}

#[derive(Debug)]
struct OwnedPd {
    device: Arc<DeviceHandle>,
    pd: NonNull<ibv_pd>,
    id: PdId,
    /// Regions by local key and windows by the high bits of their key, for work requests that bind windows.
    regions: Mutex<HashMap<LKey, NonNull<ibv_mr>>>,
    windows: Mutex<HashMap<u32, NonNull<ibv_mw>>>,
    /// Address handles by path. They stay until the domain goes: a work request may still use one.
    paths: Mutex<HashMap<AddressVector, NonNull<ibv_ah>>>,
}

// SAFETY: the functions of libibverbs may be called with these objects by any thread.
unsafe impl Send for OwnedPd {}
// SAFETY: as above, and by several threads at once; the tables have locks.
unsafe impl Sync for OwnedPd {}

impl Pd {
    pub(crate) fn new(device: &Arc<DeviceHandle>) -> Result<Pd, Error> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        // SAFETY: the handle keeps its object, an open context.
        let pd = unsafe { (device.library.ibv_alloc_pd)(device.context()) };
        let handle = OwnedPd {
            device: device.clone(),
            pd: NonNull::new(pd).ok_or_else(|| last("ibv_alloc_pd"))?,
            id: PdId(LAST.fetch_add(1, Relaxed) + 1),
            regions: Mutex::default(),
            windows: Mutex::default(),
            paths: Mutex::default(),
        };
        Ok(Pd { handle: Arc::new(handle) })
    }

    /// Its number in this process.
    pub fn id(&self) -> PdId {
        self.handle.id
    }

    /// Registers all of a region that the caller allocated.
    ///
    /// # Errors
    /// Those of `ibv_reg_mr(3)`.
    pub fn register_region(&self, region: &Arc<Region>, access: Access) -> Result<Mr, Error> {
        Mr::of_region(self, region, access)
    }

    /// Allocates memory as plain bytes for the caller alone. No peer reaches it.
    ///
    /// Work requests reach it by the `Mr`'s lkey. A caller that posts one must not touch the piece until the work
    /// request has completed, or its queue pair has been destroyed.
    ///
    /// # Errors
    /// Those of `ibv_reg_mr(3)`, or if the system has no memory.
    pub fn allocate_private(&self, len_bytes: usize) -> Result<(Piece, Mr), Error> {
        self.register_private(Piece::allocate(len_bytes as u64)?)
    }

    /// Registers a piece for its holder alone, as [`allocate_private`](Pd::allocate_private) does.
    ///
    /// # Errors
    /// Those of `ibv_reg_mr(3)`.
    pub fn register_private(&self, piece: Piece) -> Result<(Piece, Mr), Error> {
        // SAFETY: registered without remote rights, so only work requests reach the bytes. The caller posts those only
        // for pieces that it has put away, as the documentation of this function demands.
        let region = unsafe { piece.region() }.clone();
        let mr = self.register_region(&region, Access::LOCAL_WRITE)?;
        Ok((piece, mr))
    }

    /// Registers memory that the caller owns. Peers and work requests name its bytes from `iova` on.
    ///
    /// # Errors
    /// Those of `ibv_reg_mr(3)`.
    ///
    /// # Safety
    /// The bytes must stay mapped and readable until the last clone of the `Mr` and of the windows bound to it is dropped.
    /// With a write right they must stay writable as well. No reference to them may exist while peers or work requests may change them.
    pub unsafe fn register(&self, ptr: *mut u8, len_bytes: u64, iova: u64, access: Access) -> Result<Mr, Error> {
        // SAFETY: the contract of this function is that of `Mr::of_program`.
        unsafe { Mr::of_program(self, ptr, len_bytes, iova, access) }
    }

    /// Allocates a memory window.
    ///
    /// # Errors
    /// Those of `ibv_alloc_mw(3)`; [`Error::Invalid`] if the device has no windows.
    pub fn alloc_mw(&self, mw_type: MwType) -> Result<Mw, Error> {
        Mw::new(self, mw_type)
    }

    pub(crate) fn device(&self) -> &Arc<DeviceHandle> {
        &self.handle.device
    }

    pub(crate) fn as_ptr(&self) -> *mut ibv_pd {
        self.handle.pd.as_ptr()
    }

    pub(crate) fn enter_region(&self, lkey: LKey, mr: NonNull<ibv_mr>) {
        self.handle.regions.lock().insert(lkey, mr);
    }

    pub(crate) fn leave_region(&self, lkey: LKey) {
        self.handle.regions.lock().remove(&lkey);
    }

    /// The region of a local key.
    pub(crate) fn region(&self, lkey: LKey) -> Option<NonNull<ibv_mr>> {
        self.handle.regions.lock().get(&lkey).copied()
    }

    pub(crate) fn enter_window(&self, rkey: RKey, mw: NonNull<ibv_mw>) {
        self.handle.windows.lock().insert(rkey.0 >> 8, mw);
    }

    pub(crate) fn leave_window(&self, rkey: RKey) {
        self.handle.windows.lock().remove(&(rkey.0 >> 8));
    }

    /// The window of a key: its high 24 bits name the window (IB specification 10.6.7.2.1).
    pub(crate) fn window(&self, rkey: RKey) -> Option<NonNull<ibv_mw>> {
        self.handle.windows.lock().get(&(rkey.0 >> 8)).copied()
    }

    /// The address handle of a path. Handles are made once for each path.
    ///
    /// # Errors
    /// Those of `ibv_create_ah(3)`; [`Error::Invalid`] for a source address that the device does not have.
    pub(crate) fn address_handle(&self, path: &AddressVector) -> Result<NonNull<ibv_ah>, Error> {
        match self.handle.paths.lock().entry(*path) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(place) => Ok(*place.insert(self.create_address_handle(path)?)),
        }
    }

    fn create_address_handle(&self, path: &AddressVector) -> Result<NonNull<ibv_ah>, Error> {
        let device = self.device();
        let attr = qp_attr::vector_to_c(path, &device.gids());
        let mut attr = attr.ok_or(Error::Invalid("the device does not have the source address"))?;
        // SAFETY: the handle keeps its object, a domain.
        let ah = unsafe { (device.library.ibv_create_ah)(self.as_ptr(), &mut attr) };
        NonNull::new(ah).ok_or_else(|| last("ibv_create_ah"))
    }
}

impl Drop for OwnedPd {
    fn drop(&mut self) {
        let library = self.device.library;
        for ah in self.paths.get_mut().values() {
            // SAFETY: queue pairs keep the domain, so none is left that could use the address handle.
            unsafe { (library.ibv_destroy_ah)(ah.as_ptr()) };
        }
        // SAFETY: the last handle; objects of the domain keep one.
        let returned = unsafe { (library.ibv_dealloc_pd)(self.pd.as_ptr()) };
        let _ = check("ibv_dealloc_pd", returned).inspect_err(|error| log::warn!("{error}"));
    }
}
