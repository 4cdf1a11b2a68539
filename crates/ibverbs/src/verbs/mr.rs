//! Memory regions.

use std::sync::Arc;

use device::{Access, Mr, Pd, Region};
use parking_lot::Mutex;

use crate::boundary::{Errno, errno, otherwise, pointer, set_errno};
use crate::object::{CObject, next_handle};
use crate::verbs::advised::AdvisedRegion;
use crate::verbs::context::ContextOwn;
use crate::verbs::domain::{PdObject, PdOwn};
use abi::*;

/// Our part of a memory region.
pub(crate) struct MrOwn {
    state: Mutex<MrState>,
}

struct MrState {
    mr: Mr,
    spec: Registration,
    kept: MrBacking,
}

/// The owner of a region's bytes.
#[derive(Clone)]
pub(crate) enum MrBacking {
    /// The program answers for its memory.
    Nothing,
    /// Device memory.
    DeviceMemory {
        /// The bytes, which must outlast the registration.
        _region: Arc<Region>,
    },
    /// No memory: writes have no effect.
    Null,
}

/// The arguments of a registration.
#[derive(Clone)]
struct Registration {
    pd: Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: Access,
}

pub(crate) type MrObject = CObject<ibv_mr, MrOwn>;

/// The device's words for C's flags: optional ones that it does not know are ignored, as
/// `ibv_reg_mr(3)` says, any other is refused.
pub(crate) fn access(flags: c_uint) -> Result<Access, Errno> {
    Access::from_bits(flags & !IBV_ACCESS_OPTIONAL_RANGE)
        .filter(|known| !known.contains(Access::REMOTE_CALL))
        .map(|known| known | Access::from_bits_truncate(flags & IBV_ACCESS_OPTIONAL_RANGE))
        .ok_or(Errno::INVAL)
}

/// `ibv_reg_mr(3)`.
///
/// # Safety
/// An allocated domain; memory that outlives the registration.
pub(crate) unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    flags: c_int,
) -> *mut ibv_mr {
    // SAFETY: the contract of `ibv_reg_mr` includes that of `ibv_reg_mr_iova2`.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, addr as u64, flags as c_uint) }
}

/// `ibv_reg_mr_iova(3)`.
///
/// # Safety
/// As [`ibv_reg_mr`].
pub(crate) unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    iova: u64,
    flags: c_int,
) -> *mut ibv_mr {
    // SAFETY: the contract of `ibv_reg_mr_iova` includes that of `ibv_reg_mr_iova2`.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, flags as c_uint) }
}

/// `ibv_reg_mr_iova2`: the header's `ibv_reg_mr` calls it for optional flags.
///
/// # Safety
/// As [`ibv_reg_mr`].
pub(crate) unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    iova: u64,
    flags: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the contract of `ibv_reg_mr_iova2` includes that of `register`.
    pointer(|| unsafe { register(pd, addr, length, iova, flags) })
}

/// # Safety
/// As [`ibv_reg_mr`].
pub(crate) unsafe fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    iova: u64,
    flags: c_uint,
) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: the contract of `register`, which is that of `ibv_reg_mr`.
    let own = unsafe { PdObject::of(pd) }?;
    // The kernel asks for it with every device.
    if addr.addr() as u64 % page_bytes() != iova % page_bytes() {
        return Err(Errno::INVAL);
    }
    let spec = Registration { pd: own.pd.clone(), addr, length, iova, access: access(flags)? };
    // SAFETY: the contract of `register` includes that of `Registration::register`.
    let mr = unsafe { spec.register() }?;
    // SAFETY: the contract of `register`, which is that of `ibv_reg_mr`: an allocated domain.
    let context = unsafe { (*pd).context };
    Ok(present(context, pd, mr, spec, MrBacking::Nothing))
}

fn page_bytes() -> u64 {
    // SAFETY: `sysconf` takes and returns numbers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// Gives the program an object for a region.
fn present(context: *mut ibv_context, pd: *mut ibv_pd, mr: Mr, spec: Registration, kept: MrBacking) -> *mut ibv_mr {
    let c = ibv_mr {
        context,
        pd,
        addr: spec.addr,
        length: spec.length,
        handle: next_handle(),
        lkey: mr.lkey().0,
        rkey: mr.rkey().0,
    };
    note(&c, &mr, &spec);
    let object = MrObject::leak(c, MrOwn { state: Mutex::new(MrState { mr, spec, kept }) });
    // SAFETY: the context of an allocated domain; the object is withdrawn when it goes.
    if let Ok(own) = unsafe { ContextOwn::of(context) } {
        // SAFETY: the context of an allocated domain; the object is withdrawn when it goes.
        unsafe { own.shared.offer(object) };
    }
    object
}

impl MrOwn {
    /// Another handle of the same region.
    pub(crate) fn copy(&self) -> MrOwn {
        let MrState { mr, spec, kept } = &*self.state.lock();
        MrOwn { state: Mutex::new(MrState { mr: mr.clone(), spec: spec.clone(), kept: kept.clone() }) }
    }
}

/// A region that is not the program's memory.
pub(crate) fn present_other(pd: *mut ibv_pd, own: &PdOwn, mr: Mr, kept: MrBacking, length: usize) -> *mut ibv_mr {
    let spec =
        Registration { pd: own.pd.clone(), addr: std::ptr::null_mut(), length, iova: mr.addr(), access: mr.access() };
    // SAFETY: an allocated domain, as the callers have checked.
    let context = unsafe { (*pd).context };
    present(context, pd, mr, spec, kept)
}

impl Registration {
    /// # Safety
    /// As [`ibv_reg_mr`].
    unsafe fn register(&self) -> Result<Mr, Errno> {
        // SAFETY: a program that registers memory keeps it; when it reads bytes that peers
        // write, it is C, whose compiler assumes no references.
        Ok(unsafe { self.pd.register(self.addr.cast(), self.length as u64, self.iova, self.access) }?)
    }
}

/// Notes a region for advice.
fn note(c: &ibv_mr, mr: &Mr, spec: &Registration) {
    let start = mr.addr();
    let region = AdvisedRegion {
        pd: c.pd,
        range: start..start.saturating_add(mr.len_bytes()),
        shift: (spec.addr as u64).wrapping_sub(start),
        writable: spec.access.contains(Access::LOCAL_WRITE),
    };
    // SAFETY: a context stays open while domains are allocated on it.
    if let Ok(context) = unsafe { ContextOwn::of(c.context) } {
        context.regions.lock().insert(c.lkey, region);
    }
}

/// `ibv_dereg_mr(3)`: EBUSY while memory windows are bound to it.
///
/// # Safety
/// Null, or registered.
pub(crate) unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_dereg_mr`: null, or registered.
        let own = unsafe { MrObject::of(mr) }?;
        own.state.lock().mr.deregister()?;
        // SAFETY: the contract of `ibv_dereg_mr`: null, or registered; nobody uses it any more.
        unsafe {
            let context = ContextOwn::of((*mr).context)?;
            context.regions.lock().remove((*mr).lkey);
            context.shared.withdraw::<ibv_mr>((*mr).handle);
            MrObject::free(mr);
        }
        Ok(())
    })
}

/// `ibv_rereg_mr(3)`: the region keeps its keys.
///
/// # Safety
/// As [`ibv_reg_mr`], and a registered region.
pub(crate) unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    access_flags: c_int,
) -> c_int {
    let changes = RegionChanges { flags, pd, addr, length, access_flags };
    let failed = |code| {
        move |error| {
            set_errno(error);
            code
        }
    };
    otherwise(IBV_REREG_MR_ERR_INPUT, || {
        // SAFETY: the contract of `ibv_rereg_mr` includes those of `RegionChanges::merge` and of `replace`.
        let replaced = unsafe {
            changes
                .merge(mr)
                .map_err(failed(IBV_REREG_MR_ERR_INPUT))
                .and_then(|(own, spec, pd)| replace(mr, own, spec, pd).map_err(failed(IBV_REREG_MR_ERR_CMD)))
        };
        replaced.map_or_else(|code| code, |()| 0)
    })
}

const REREG_FLAGS: c_int = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;

/// The arguments of `ibv_rereg_mr`.
struct RegionChanges {
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    access_flags: c_int,
}

impl RegionChanges {
    /// The region's registration with these changes, checked.
    ///
    /// # Safety
    /// As [`ibv_rereg_mr`].
    unsafe fn merge<'a>(&self, mr: *mut ibv_mr) -> Result<(&'a MrOwn, Registration, *mut ibv_pd), Errno> {
        // SAFETY: the contract of `merge`, which is that of `ibv_rereg_mr`.
        let own = unsafe { MrObject::of(mr) }?;
        if self.flags == 0 || self.flags & !REREG_FLAGS != 0 {
            return Err(Errno::INVAL);
        }
        let mut spec = {
            let state = own.state.lock();
            if !matches!(state.kept, MrBacking::Nothing) {
                return Err(Errno::NOT_SUPPORTED);
            }
            state.spec.clone()
        };
        // SAFETY: the contract of `merge`: a registered region.
        let mut new_pd = unsafe { (*mr).pd };
        if self.flags & IBV_REREG_MR_CHANGE_PD != 0 {
            // SAFETY: the contract of `merge`, which is that of `ibv_rereg_mr`.
            spec.pd = unsafe { PdObject::of(self.pd) }?.pd.clone();
            new_pd = self.pd;
        }
        if self.flags & IBV_REREG_MR_CHANGE_TRANSLATION != 0 {
            if self.addr.is_null() || self.length == 0 {
                return Err(Errno::INVAL);
            }
            (spec.addr, spec.length, spec.iova) = (self.addr, self.length, self.addr as u64);
        }
        if self.flags & IBV_REREG_MR_CHANGE_ACCESS != 0 {
            spec.access = access(self.access_flags as c_uint)?;
        }
        Ok((own, spec, new_pd))
    }
}

/// # Safety
/// As [`ibv_rereg_mr`].
unsafe fn replace(mr: *mut ibv_mr, own: &MrOwn, spec: Registration, pd: *mut ibv_pd) -> Result<(), Errno> {
    let mut state = own.state.lock();
    let (ptr, len_bytes) = (spec.addr.cast(), spec.length as u64);
    // SAFETY: the contract of `replace` includes that of `reregister`.
    let new = unsafe { state.mr.reregister(&spec.pd, ptr, len_bytes, spec.iova, spec.access) }?;
    // SAFETY: the contract of `replace`: a registered region, whose structure this verb changes.
    unsafe {
        let c = &mut *mr;
        (c.pd, c.addr, c.length) = (pd, spec.addr, spec.length);
        note(c, &new, &spec);
    }
    *state = MrState { mr: new, spec, kept: MrBacking::Nothing };
    Ok(())
}

/// `ibv_alloc_null_mr(3)`: reads give zeros, writes have no effect.
///
/// # Safety
/// An allocated domain.
pub(crate) unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: the contract of `alloc_null_mr`: an allocated domain.
        let own = unsafe { PdObject::of(pd) }?;
        let mr = own.pd.register_null(Access::LOCAL_WRITE)?;
        Ok(present_other(pd, own, mr, MrBacking::Null, usize::MAX))
    })
}

const ADVICE_PREFETCH: c_int = 0;
const ADVICE_PREFETCH_WRITE: c_int = 1;
const ADVICE_PREFETCH_NO_FAULT: c_int = 2;
const ADVISE_FLUSH: u32 = 1;

/// `ibv_advise_mr(3)`: brings the pages in now. Without the flush flag errors are not told.
///
/// # Safety
/// An allocated domain and `count` readable entries.
pub(crate) unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: c_int,
    flags: u32,
    list: *mut ibv_sge,
    count: u32,
) -> c_int {
    errno(|| {
        // SAFETY: the contract of `advise_mr`: an allocated domain and `count` readable entries.
        let context = unsafe {
            PdObject::of(pd)?;
            ContextOwn::of((*pd).context)?
        };
        if flags & !ADVISE_FLUSH != 0 || count == 0 || list.is_null() {
            return Err(Errno::INVAL);
        }
        if !(ADVICE_PREFETCH..=ADVICE_PREFETCH_NO_FAULT).contains(&advice) {
            return Err(Errno::NOT_SUPPORTED);
        }
        // SAFETY: the contract of `advise_mr`: an allocated domain and `count` readable entries.
        for sge in unsafe { std::slice::from_raw_parts(list, count as usize) } {
            let (addr, len_bytes) = context.regions.lock().locate(pd, sge, advice == ADVICE_PREFETCH_WRITE)?;
            let done = prefetch(addr, len_bytes, advice);
            if flags & ADVISE_FLUSH != 0 {
                done?;
            }
        }
        Ok(())
    })
}

/// Faults the pages in. The no-fault advice needs nothing, since this device has no page table to fill.
fn prefetch(addr: usize, len_bytes: usize, advice: c_int) -> Result<(), Errno> {
    if advice == ADVICE_PREFETCH_NO_FAULT || len_bytes == 0 {
        return Ok(());
    }
    let page = page_bytes() as usize;
    let start = addr & !(page - 1);
    let how = if advice == ADVICE_PREFETCH_WRITE { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    // SAFETY: populating changes no byte; a range that is not mapped is refused.
    match unsafe { libc::madvise(start as *mut c_void, len_bytes + (addr - start), how) } {
        0 => Ok(()),
        _ => Err(Errno(libc::EFAULT)),
    }
}
