//! Protection domains, thread domains, parent domains.

use std::sync::Arc;

use device::Pd;
use parking_lot::Mutex;

use crate::abi::*;
use crate::boundary::{Errno, errno, pointer};
use crate::object::{Object, next_handle};
use crate::verbs::context::Context;

/// What belongs to a protection domain; a parent domain shares it with the one it was made of.
pub(crate) struct PdOwn {
    pub(crate) pd: Pd,
    parent: Option<Arc<Users>>,
    users: Arc<Users>,
    td: Option<Arc<Users>>,
}

/// How many parent domains use a domain.
type Users = Mutex<u32>;

pub(crate) type PdObject = Object<ibv_pd, PdOwn>;
type TdObject = Object<ibv_td, Arc<Users>>;

/// `ibv_alloc_pd(3)`.
///
/// # Safety
/// An open context.
pub(crate) unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: the caller's promise.
        let pd = unsafe { Context::of(context) }?.device.alloc_pd()?;
        let own = PdOwn { pd, parent: None, users: Arc::default(), td: None };
        Ok(PdObject::leak(ibv_pd { context, handle: next_handle() }, own))
    })
}

/// `ibv_dealloc_pd(3)`: EBUSY while something uses it. Also ends a parent domain.
///
/// # Safety
/// Null, or allocated.
pub(crate) unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let own = unsafe { PdObject::of(pd) }?;
        if *own.users.lock() > 0 {
            return Err(Errno(libc::EBUSY));
        }
        match &own.parent {
            None => own.pd.destroy()?,
            Some(parent) => *parent.lock() -= 1,
        }
        if let Some(td) = &own.td {
            *td.lock() -= 1;
        }
        // SAFETY: as above.
        unsafe { PdObject::free(pd) };
        Ok(())
    })
}

/// `ibv_alloc_td(3)`: a promise of the program to use what belongs to it from one thread at a
/// time. Nothing here is faster for it.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td {
    pointer(|| {
        // SAFETY: the caller's promise.
        let attr = unsafe {
            Context::of(context)?;
            attr.as_ref().ok_or(Errno::INVAL)?
        };
        if attr.comp_mask != 0 {
            return Err(Errno::INVAL);
        }
        Ok(TdObject::leak(ibv_td { context }, Arc::default()))
    })
}

/// `ibv_dealloc_td(3)`.
///
/// # Safety
/// Null, or allocated.
pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let users = unsafe { TdObject::of(td) }?;
        if *users.lock() > 0 {
            return Err(Errno(libc::EBUSY));
        }
        // SAFETY: as above.
        unsafe { TdObject::free(td) };
        Ok(())
    })
}

const PARENT_ALLOCATORS: u32 = 1;
const PARENT_PD_CONTEXT: u32 = 1 << 1;

/// `ibv_alloc_parent_domain(3)`. Allocators of the program are accepted and never called: no
/// queue of this device lies in memory that a program could supply.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: the caller's promise.
        let (attr, base) = unsafe {
            Context::of(context)?;
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            (attr, PdObject::of(attr.pd)?)
        };
        if attr.comp_mask & !(PARENT_ALLOCATORS | PARENT_PD_CONTEXT) != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: null or allocated, says the caller.
        let td = (!attr.td.is_null()).then(|| unsafe { TdObject::of(attr.td) }).transpose()?.cloned();
        *base.users.lock() += 1;
        if let Some(td) = &td {
            *td.lock() += 1;
        }
        let own = PdOwn { pd: base.pd.clone(), parent: Some(base.users.clone()), users: Arc::default(), td };
        Ok(PdObject::leak(ibv_pd { context, handle: next_handle() }, own))
    })
}
