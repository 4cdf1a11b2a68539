//! Memory regions.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;

use abi::ibv_mr;
use device::Error;
use memory::Region;
use transport::{Access, LKey};
use wire::RKey;

use crate::failure::{check, last};
use crate::pd::Pd;

/// A memory region. The last clone deregisters it.
#[derive(Clone, Debug)]
pub struct Mr {
    handle: Arc<OwnedMr>,
}

#[derive(Debug)]
struct OwnedMr {
    pd: Pd,
    mr: NonNull<ibv_mr>,
    access: Access,
    iova: u64,
    len_bytes: u64,
    /// The memory, if this library allocated it.
    memory: Option<Arc<Region>>,
}

// SAFETY: the functions of libibverbs may be called with a region by any thread.
unsafe impl Send for OwnedMr {}
// SAFETY: as above, and by several threads at once.
unsafe impl Sync for OwnedMr {}

impl Mr {
    pub(crate) fn of_region(pd: &Pd, region: &Arc<Region>, access: Access) -> Result<Mr, Error> {
        let iova = if access.contains(Access::ZERO_BASED) { 0 } else { region.ptr().addr() as u64 };
        // SAFETY: the handle keeps the region mapped. Its bytes are accessed by spans, which allow for peers' writes.
        unsafe { Mr::register(pd, (region.ptr(), region.len_bytes(), iova), access, Some(region.clone())) }
    }

    /// # Safety
    /// The contract of [`Pd::register`].
    pub(crate) unsafe fn of_program(
        pd: &Pd,
        ptr: *mut u8,
        len_bytes: u64,
        iova: u64,
        access: Access,
    ) -> Result<Mr, Error> {
        // SAFETY: the contract of this function.
        unsafe { Mr::register(pd, (ptr, len_bytes, iova), access, None) }
    }

    /// # Safety
    /// As [`Pd::register`]: the memory stays while the region does.
    unsafe fn register(
        pd: &Pd,
        (ptr, len_bytes, iova): (*mut u8, u64, u64),
        access: Access,
        memory: Option<Arc<Region>>,
    ) -> Result<Mr, Error> {
        let library = pd.device().library;
        let length =
            usize::try_from(len_bytes).map_err(|_| Error::Invalid("the region is longer than the address space"))?;
        // The address in the call says all about where addresses begin; relaxed ordering is only a permission.
        let flags = (access - Access::ZERO_BASED - Access::RELAXED_ORDERING).bits() as c_int;
        // SAFETY: the handle keeps its object, a domain; the caller keeps the memory.
        let mr = unsafe {
            match iova == ptr.addr() as u64 {
                true => (library.ibv_reg_mr)(pd.as_ptr(), ptr.cast(), length, flags),
                false => (library.ibv_reg_mr_iova)(pd.as_ptr(), ptr.cast(), length, iova, flags),
            }
        };
        let mr = NonNull::new(mr).ok_or_else(|| last("ibv_reg_mr"))?;
        let handle = OwnedMr { pd: pd.clone(), mr, access, iova, len_bytes, memory };
        pd.enter_region(handle.lkey(), mr);
        Ok(Mr { handle: Arc::new(handle) })
    }

    /// Its local key.
    pub fn lkey(&self) -> LKey {
        self.handle.lkey()
    }

    /// Its remote key.
    pub fn rkey(&self) -> RKey {
        // SAFETY: the handle keeps its object; the key does not change.
        RKey(unsafe { self.handle.mr.as_ref() }.rkey)
    }

    /// The address of its first byte, as peers number it.
    pub fn addr(&self) -> u64 {
        self.handle.iova
    }

    /// Its length in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.handle.len_bytes
    }

    /// True if this is the only handle.
    pub fn is_only_handle(&self) -> bool {
        Arc::strong_count(&self.handle) == 1
    }

    /// Its rights.
    pub fn access(&self) -> Access {
        self.handle.access
    }

    /// The memory, if this library allocated it.
    pub fn region(&self) -> Option<&Arc<Region>> {
        self.handle.memory.as_ref()
    }
}

impl OwnedMr {
    fn lkey(&self) -> LKey {
        // SAFETY: the handle keeps its object; the key does not change.
        LKey(unsafe { self.mr.as_ref() }.lkey)
    }
}

impl Drop for OwnedMr {
    fn drop(&mut self) {
        self.pd.leave_region(self.lkey());
        // SAFETY: the last handle; windows bound to the region belong to owners that keep one.
        let returned = unsafe { (self.pd.device().library.ibv_dereg_mr)(self.mr.as_ptr()) };
        if let Err(error) = check("ibv_dereg_mr", returned) {
            // The device may still reach the memory, so it must stay mapped.
            log::error!("{error}; its {} bytes stay allocated", self.len_bytes);
            std::mem::forget(self.memory.take());
        }
    }
}
