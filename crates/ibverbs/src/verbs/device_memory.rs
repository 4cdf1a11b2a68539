//! Device memory: memory that the device owns and programs reach by copying. A software device
//! has none of its own, so it lies in a memory file.

use std::sync::Arc;

use device::{Access, Region, Span};
use parking_lot::Mutex;

use crate::boundary::{Errno, errno, pointer};
use crate::object::{CObject, next_handle};
use crate::verbs::context::ContextOwn;
use crate::verbs::domain::PdObject;
use crate::verbs::mr::{self, MrBacking};
use abi::*;

/// All device memory of one context, in bytes.
pub(crate) const MAX_DM_BYTES: u64 = 16 << 20;

/// Our part of device memory.
pub(crate) struct DmOwn {
    region: Arc<Region>,
    len_bytes: u64,
    copying: Mutex<()>,
}

impl DmOwn {
    /// Another handle of the same memory.
    pub(crate) fn copy(&self) -> DmOwn {
        DmOwn { region: self.region.clone(), len_bytes: self.len_bytes, copying: Mutex::new(()) }
    }
}

pub(crate) type DmObject = CObject<ibv_dm, DmOwn>;

/// `ibv_alloc_dm(3)`.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm {
    pointer(|| {
        // SAFETY: the contract of `alloc_dm`: an open context and readable attributes.
        let (own, attr) = unsafe { (ContextOwn::of(context)?, attr.as_ref().ok_or(Errno::INVAL)?) };
        if attr.comp_mask != 0 || attr.length == 0 || attr.log_align_req > 12 {
            return Err(Errno::INVAL);
        }
        let len_bytes = attr.length as u64;
        let mut used = own.dm_bytes.lock();
        if len_bytes > MAX_DM_BYTES - *used {
            return Err(Errno::NOMEM);
        }
        let region = Arc::new(Region::allocate(len_bytes).map_err(device::Error::from)?);
        *used += len_bytes;
        let part = DmOwn { region, len_bytes, copying: Mutex::new(()) };
        let object = DmObject::leak(structure(context, next_handle()), part);
        // SAFETY: the verb that destroys the object withdraws it first.
        unsafe { own.shared.offer(object) };
        Ok(object)
    })
}

pub(crate) fn structure(context: *mut ibv_context, handle: u32) -> ibv_dm {
    ibv_dm {
        context,
        memcpy_to_dm: Some(memcpy_to_dm),
        memcpy_from_dm: Some(memcpy_from_dm),
        comp_mask: IBV_DM_MASK_HANDLE,
        handle,
    }
}

/// `ibv_free_dm(3)`: EBUSY while it is registered.
///
/// # Safety
/// Null, or allocated.
pub(crate) unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    errno(|| {
        // SAFETY: the contract of `free_dm`: null, or allocated.
        let own = unsafe { DmObject::of(dm) }?;
        if Arc::strong_count(&own.region) > 1 {
            return Err(Errno(libc::EBUSY));
        }
        // SAFETY: the contract of `free_dm`: null, or allocated.
        unsafe {
            let context = ContextOwn::of((*dm).context)?;
            *context.dm_bytes.lock() -= own.len_bytes;
            context.shared.withdraw::<ibv_dm>((*dm).handle);
            DmObject::free(dm);
        }
        Ok(())
    })
}

/// Offsets and lengths of copies are multiples of this, as with other devices.
const ALIGN: u64 = 4;

/// The bytes from `offset` on; `None` if there is nothing to copy.
fn span(own: &DmOwn, offset: u64, host: *const c_void, length: size_t) -> Result<Option<Span<'_>>, Errno> {
    if !offset.is_multiple_of(ALIGN) || !(length as u64).is_multiple_of(ALIGN) {
        return Err(Errno::INVAL);
    }
    let offset = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
    let span = own.region.span().part(offset, length).ok_or(Errno::INVAL)?;
    match (length, host.is_null()) {
        (0, _) => Ok(None),
        (_, true) => Err(Errno::INVAL),
        _ => Ok(Some(span)),
    }
}

/// `ibv_memcpy_to_dm(3)`.
///
/// # Safety
/// Allocated memory, and `length` readable bytes.
unsafe extern "C" fn memcpy_to_dm(dm: *mut ibv_dm, offset: u64, host: *const c_void, length: size_t) -> c_int {
    errno(|| {
        // SAFETY: the contract of `memcpy_to_dm`: allocated memory, and `length` readable bytes.
        let own = unsafe { DmObject::whatever_handle(dm) }?;
        let Some(span) = span(own, offset, host, length)? else { return Ok(()) };
        let _alone = own.copying.lock();
        // SAFETY: the contract of `memcpy_to_dm`: allocated memory, and `length` readable bytes.
        span.write(unsafe { std::slice::from_raw_parts(host.cast(), length) });
        Ok(())
    })
}

/// `ibv_memcpy_from_dm(3)`.
///
/// # Safety
/// Allocated memory, and `length` writable bytes.
unsafe extern "C" fn memcpy_from_dm(host: *mut c_void, dm: *mut ibv_dm, offset: u64, length: size_t) -> c_int {
    errno(|| {
        // SAFETY: the contract of `memcpy_from_dm`: allocated memory, and `length` writable bytes.
        let own = unsafe { DmObject::whatever_handle(dm) }?;
        let Some(span) = span(own, offset, host, length)? else { return Ok(()) };
        let _alone = own.copying.lock();
        // SAFETY: the contract of `memcpy_from_dm`: allocated memory, and `length` writable bytes.
        span.read(unsafe { std::slice::from_raw_parts_mut(host.cast(), length) });
        Ok(())
    })
}

/// `ibv_reg_dm_mr(3)`: addresses count from zero, so `IBV_ACCESS_ZERO_BASED` must be given.
///
/// # Safety
/// An allocated domain and allocated device memory.
pub(crate) unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: size_t,
    flags: c_uint,
) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: the contract of `reg_dm_mr`: an allocated domain and allocated device memory.
        let (domain, own) = unsafe { (PdObject::of(pd)?, DmObject::of(dm)?) };
        let access = mr::access(flags)?;
        if !access.contains(Access::ZERO_BASED) {
            return Err(Errno::INVAL);
        }
        let end = offset.checked_add(length as u64).ok_or(Errno::INVAL)?;
        if end > own.len_bytes {
            return Err(Errno::INVAL);
        }
        // SAFETY: the region is held as long as the registration, and nobody has a reference into it.
        let mr = unsafe {
            let start = own.region.ptr().add(offset as usize);
            domain.pd.register(start, length as u64, 0, access)
        }?;
        Ok(mr::present_other(pd, domain, mr, MrBacking::DeviceMemory { _region: own.region.clone() }, length))
    })
}
